package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

// Where there is no keyset, nothing can check a report. What servers say is then heard
// all the same: it can make keytool more careful, and it tells people who is there.

// openOrHear does what open does. If the keyset cannot be read, what servers say becomes
// the report: whoever has lost it wants to know who is there.
func (a *app) openOrHear(ctx context.Context) (*opened, error) {
	if err := a.required(); err != nil {
		return nil, err
	}
	o := &opened{app: a}
	if err := o.reachFleet(ctx); err != nil {
		return nil, o.failed(err)
	}
	reading, cancel := a.sparing(ctx)
	defer cancel()
	err := misconfigured(o.reachKeyset(reading))
	if err == nil {
		err = o.load(reading)
	}
	if err == nil {
		return o, nil
	}
	// Not if it was mistyped. That no configured service opens it can have come about otherwise.
	if exitOf(err) != usage && len(o.sources) > 0 && ctx.Err() == nil {
		err = inTime(reading, err)
		obs := o.hear(ctx)
		a.report = newHearsay(&obs)
	}
	return nil, o.failed(err)
}

// sparing returns the context for reading a keyset: if there is a fleet to hear when that
// fails, half of the time is for it.
func (a *app) sparing(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok || len(a.flags.fleet) == 0 {
		return ctx, func() {}
	}
	half := time.Until(deadline) / 2
	return context.WithTimeoutCause(ctx, half, fmt.Errorf("half of the %s of --timeout is over, and the rest was for asking the fleet", shortDuration(a.flags.timeout)))
}

// inTime adds to an error that the time of a context was over, if it was and the error
// does not say so.
func inTime(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !strings.Contains(err.Error(), cause.Error()) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// hear asks the fleet without a key.
func (o *opened) hear(ctx context.Context) fleet.Observation {
	ctx, cancel := asking(ctx)
	defer cancel()
	obs := fleet.CollectUnverified(ctx, o.app.Now, o.sources...)
	o.app.detail("asked %s, without a key to check what they say: %s, %s", count(len(obs.Sources), "source"), count(len(obs.Instances), "instance"), count(len(obs.Failures), "failure"))
	return obs
}

// holders are the instances that say that they hold a keyset of that name. A server that
// waits for its first keyset has no report to give.
func holders(obs *fleet.Observation, name string) (all []reason) {
	for n := range obs.Instances {
		i := &obs.Instances[n]
		r := &i.Report
		if i.Err != nil || !i.Live() || r.Keyset != name {
			continue
		}
		about := displayName(obs, i)
		line := fmt.Sprintf("revision %d, seen %s ago: holds a keyset of this name already", r.Revision, shortDuration(max(0, obs.Ended.Sub(r.Now)).Truncate(time.Second)))
		if r.Primary != "" {
			line += " and seals with " + r.Primary
		}
		all = append(all, reason{
			Code: rotation.OtherLineage, Text: about + " is at " + line, Instance: i.Name(), ID: r.ID, Address: i.Address, Source: i.Source,
			Revision: r.Revision, Seen: formatTime(r.Now), label: about, line: line, said: true,
		})
	}
	return all
}

// unheard says of whom it is not known whether they hold a keyset, and who holds another
// one: "" if there is nothing to say. First is for a keyset that is the first of its name,
// as far as anybody says.
func unheard(obs *fleet.Observation, name string, first bool) string {
	var silent, wrong, others, said []string
	for n := range obs.Instances {
		i := &obs.Instances[n]
		switch {
		case errors.Is(i.Err, fleet.ErrUnreachable):
			silent = append(silent, i.Address)
		case i.Err != nil:
			wrong = append(wrong, i.Address)
		case i.Report.Keyset != name:
			others = append(others, displayName(obs, i)+" holds "+i.Report.Keyset)
		}
	}
	if len(others) > 0 {
		said = append(said, list(few(others))+", which is another keyset: look whether --name and --fleet are right")
	}
	if len(wrong) > 0 {
		said = append(said, "what answers at "+list(few(wrong))+" is no server of this kind: look whether --fleet is right")
	}
	for _, f := range obs.Failures {
		said = append(said, "nobody can be asked through "+f.Error())
	}
	if len(silent) > 0 {
		what := "as it should be before there is a keyset"
		if !first {
			what = "and whoever runs there with the old keyset refuses a new one until it is started again"
		}
		said = append(said, "no report comes from "+list(few(silent))+", "+what)
	}
	return strings.Join(said, "; ")
}

// absent says what to do if there is nothing at a place.
func absent(source keyset.Source, place string) error {
	if _, ok := source.(keyset.Store); !ok {
		return fmt.Errorf("%w at %s, which can only be read: put it where that comes from; keytool init makes one in a store that can be written, such as a file", keyset.ErrNotExist, place)
	}
	return fmt.Errorf("%w at %s: if there was one, put its backup back; if there never was, keytool init makes one", keyset.ErrNotExist, place)
}

// damaged says what to do about a text at a place that is no keyset.
func damaged(place string, text []byte, err error) error {
	switch {
	case newerFormat(text):
		return fmt.Errorf("%s: %w", place, err) // which says to use a newer program
	case len(bytes.TrimSpace(text)) == 0:
		return fmt.Errorf("%s: %w: put the newest backup of the keyset back; if there never was one, remove what is there and make one with keytool init", place, err)
	default:
		return fmt.Errorf("%s: %w: put the newest backup of the keyset back, and check it first: keytool validate FILE; servers go on with what they hold", place, err)
	}
}

// newerFormat reports whether a document is of a format that only a newer program reads,
// which the error says.
func newerFormat(text []byte) bool {
	var format struct {
		Version int64 `json:"version"`
	}
	return json.Unmarshal(text, &format) == nil && format.Version > 1
}

// A hearsay is the report of status and fleet where there is no keyset to check reports with.
type hearsay struct {
	Verdict string `json:"verdict"`
	Summary string `json:"summary"`
	*fleetJSON
	Tag string `json:"tag"`
}

func newHearsay(obs *fleet.Observation) *hearsay {
	said := 0
	for n := range obs.Instances {
		if obs.Instances[n].Err == nil {
			said++
		}
	}
	h := &hearsay{
		Verdict: verdictBlocked, fleetJSON: newFleet(nil, obs), Tag: tagNotChecked,
		Summary: fmt.Sprintf("the keyset cannot be read, so nothing can check what %s", counted(said, "instance says", "instances say")),
	}
	if said == 0 {
		h.Summary = "the keyset cannot be read, and no instance reports"
	}
	return h
}

func (h *hearsay) text(p *printer) {
	p.linef("%s  %s", verdictText(p, h.Verdict, false), h.Summary)
	if len(h.Instances) > 0 || len(h.Failures) > 0 {
		p.linef("")
		h.fleetJSON.text(p, "")
	}
	p.linef("")
	p.linef("tag  %s: whoever answers in an instance's place can say anything", h.Tag)
}

// few leaves out most of what would fill the screen.
func few(all []string) []string {
	shown, more := sparingly(all, 3)
	if more > 0 {
		shown = append(shown, fmt.Sprintf("%d others", more))
	}
	return shown
}
