package keyset

import (
	"fmt"
	"time"

	"github.com/echoseal/echoseal/internal/strict"
)

// Restamp dates the move that made the key of that key id what it is, staged or primary,
// anew: saving it took longer than settle allows for, and whoever waits counts from the
// stamp. A stamp that is later than n.At stays. A key that was drained by the earlier
// stamp is to be drained again.
//
// With kid "" it dates the last change of the policy anew: what counted until then goes on
// counting for as much longer as n.At is after that change.
func (d *Document) Restamp(n Note, kid string) error {
	return d.change(n, func(d *Document) error {
		at := strict.CeilTime(n.At)
		switch k := d.Key(kid); {
		case kid == "":
			if err := d.restampPolicy(at); err != nil {
				return err
			}
		case k == nil:
			return &MoveError{KID: kid, To: "dated anew"}
		case k.State == Staged:
			k.Staged = later(k.Staged, at)
		case k.State == Primary:
			for down := range d.in(Retiring) {
				if down.Demoted.Equal(k.Promoted) && at.After(down.Demoted) {
					down.Demoted, down.Drained = at, time.Time{}
				}
			}
			k.Promoted = later(k.Promoted, at)
		default:
			return &MoveError{KID: kid, From: k.State, To: "dated anew"}
		}
		d.note(n, "restamp", kid)
		return nil
	})
}

// restampPolicy counts from the last stamp of the policy, which may be one of Restamp.
func (d *Document) restampPolicy(at time.Time) error {
	for i := len(d.History) - 1; i >= 0; i-- {
		e := d.History[i]
		if e.Action != "policy" && (e.Action != "restamp" || e.KID != "") {
			continue
		}
		if was := d.Policy.Was; was != nil && at.After(e.At) {
			was.Until = strict.CeilTime(was.Until.Add(at.Sub(e.At)))
		}
		return nil
	}
	return fmt.Errorf("keyset %s: its history has no change of the policy to date anew", d.Name)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
