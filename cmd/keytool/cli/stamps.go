package cli

import (
	"fmt"
	"time"

	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

// What is wrong with this host's clock, or was with another's, as the document shows it.
const (
	codeClockBehind = rotation.Code("clock_behind") // it is from before the last change: nothing is changed by it
	codeStampAhead  = rotation.Code("stamp_ahead")  // a wait counts from a time to come
)

// clocks are the reasons that the document has against this clock, or against that of who
// made a change: the last change, or else what a wait counts from, is dated later than this
// clock shows, by more than any two clocks may be apart.
func (o *opened) clocks() (all []reason) {
	d, now := o.doc, o.app.Now()
	add := func(code rotation.Code, kid, text, fix string) {
		all = append(all, reason{Code: code, Text: text, Fix: "set this clock; or if it is right, " + fix, KID: kid, label: "why", line: text, change: text, head: text})
	}
	if late := o.behindHistory(); late != "" {
		return []reason{o.clockBehind(late)} // what else is dated later may be so by the same clock
	}
	for _, k := range d.Keys {
		if at, done := waitsFrom(k); ahead(at, now, d.Policy) {
			add(codeStampAhead, k.KID, fmt.Sprintf("%s was %s %s, in %s by this clock, and a wait counts from that", k.KID, done, formatTime(at), left(at, now)),
				"leave it at that, since no token is lost, or count anew: "+o.countAnew(now))
		}
	}
	return all
}

// countAnew is what to type to have waits count from another time than the stamps that are
// ahead. It is the same for all of them: what is open comes before a new rotation, which
// would wait for its stamp, too.
func (o *opened) countAnew(now time.Time) string {
	replace := "keytool rotate --replace " + o.doc.Primary().KID + " --wait"
	for _, k := range o.doc.Keys {
		switch at, _ := waitsFrom(k); {
		case !ahead(at, now, o.doc.Policy):
		case k.State == keyset.Staged:
			return "keytool abort, and then " + replace // which begins though it is not due
		case k.State == keyset.Retiring:
			return "keytool rollback, and then keytool rotate --wait"
		}
	}
	return replace
}

// waitsFrom returns the stamp of a key that the next wait counts from, and what was done then.
func waitsFrom(k keyset.Key) (at time.Time, done string) {
	switch {
	case k.State == keyset.Staged:
		return k.Staged, "staged"
	case k.State == keyset.Primary:
		return k.Promoted, "promoted"
	case k.State == keyset.Retiring && k.Drained.IsZero():
		return k.Demoted, "demoted"
	case k.State == keyset.Retiring:
		return k.Drained, "drained"
	default:
		return time.Time{}, ""
	}
}

// pastAhead are the other stamps of a document that are ahead of the clock, each with what
// it is of. Nothing counts from them.
func pastAhead(d *keyset.Document, now time.Time) (all []string) {
	for _, k := range d.Keys {
		waits, _ := waitsFrom(k)
		for _, s := range []struct {
			at   time.Time
			what string
		}{{k.Created, "created"}, {k.Staged, "staged"}, {k.Promoted, "promoted"}, {k.Demoted, "demoted"}, {k.Drained, "drained"}, {k.Revoked, "revoked"}} {
			if ahead(s.at, now, d.Policy) && !s.at.Equal(waits) {
				all = append(all, fmt.Sprintf("%s %s %s", k.KID, s.what, formatTime(s.at)))
			}
		}
	}
	for _, e := range d.History {
		if ahead(e.At, now, d.Policy) {
			all = append(all, fmt.Sprintf("%s by %s %s", e.Action, e.Actor, formatTime(e.At)))
		}
	}
	return all
}
