package keyset

import (
	"time"

	"github.com/echoseal/echoseal/internal/strict"
)

// Restamp dates the move that made the key of that key id what it is, staged or primary,
// anew: saving it took longer than settle allows for, and whoever waits counts from the
// stamp. A stamp that is later than n.At stays. A key that was drained by the earlier
// stamp is to be drained again.
func (d *Document) Restamp(n Note, kid string) error {
	return d.change(n, func(d *Document) error {
		at := strict.CeilTime(n.At)
		switch k := d.Key(kid); {
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

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
