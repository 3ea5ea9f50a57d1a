package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/echoseal/echoseal/fleet"
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

// few leaves out most of what would fill the screen.
func few(all []string) []string {
	const most = 3
	if len(all) <= most+1 {
		return all
	}
	return append(all[:most:most], fmt.Sprintf("%d others", len(all)-most))
}
