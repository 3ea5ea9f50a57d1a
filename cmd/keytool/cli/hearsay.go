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

// hear asks the fleet without a key.
func (o *opened) hear(ctx context.Context) fleet.Observation {
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
// one: "" if there is nothing to say.
func unheard(obs *fleet.Observation, name string) string {
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
		said = append(said, "no report comes from "+list(few(silent))+", as it should be before there is a keyset")
	}
	return strings.Join(said, "; ")
}

// absent says what to do if there is nothing at a place.
func absent(place string) error {
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
		return fmt.Errorf("%s: %w: put the newest backup of the keyset back, and check it first: keytool validate FILE; servers go on with what they hold: keytool fleet", place, err)
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

// A hearsay is the report of fleet where there is no keyset to check reports with.
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
	return &hearsay{
		Verdict: verdictBlocked, fleetJSON: newFleet(nil, obs), Tag: tagNotChecked,
		Summary: fmt.Sprintf("the keyset cannot be read, so nothing can check what %s", counted(said, "instance says", "instances say")),
	}
}

func (h *hearsay) text(p *printer) {
	p.linef("%s  %s", verdictText(p, h.Verdict, false), h.Summary)
	p.linef("")
	h.fleetJSON.text(p, "")
	p.linef("")
	p.linef("tag  %s: whoever answers in an instance's place can say anything", h.Tag)
}

// few leaves out most of what would fill the screen.
func few(all []string) []string {
	const most = 3
	if len(all) <= most+1 {
		return all
	}
	return append(all[:most:most], fmt.Sprintf("%d others", len(all)-most))
}
