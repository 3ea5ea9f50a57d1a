package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

// restamp dates a change anew that took too long to save. It is there already, so however
// long this takes, its stamp is not too early.
func (o *opened) restamp(ctx context.Context, u undated) error {
	const tries = 5
	ctx, cancel := sparingALook(ctx)
	defer cancel()
	var err error
	for range tries {
		if !awaited(o.doc, u.kid) {
			return nil // another has taken the key back, and nobody counts from its stamp
		}
		next := o.doc.Next()
		if err = next.Restamp(o.stamp(), u.kid); err != nil {
			break
		}
		if err = o.write(ctx, next); !errors.Is(err, keyset.ErrConflict) {
			break
		}
		if lost := o.load(ctx); lost != nil {
			err = lost
			break
		}
	}
	if err != nil {
		o.undated = append(o.undated, u) // that a correction comes late does no harm
		var nothing *unchangedError
		if errors.As(err, &nothing) {
			err = nothing.cause // it is about the correction alone
		}
		// A conflict it is not: whoever runs the command again at once after one would count
		// from the time that is too early.
		return &exitError{failed, fmt.Errorf("the change was saved, but later than settle allows, and its time could not be corrected: %w; wait %s before the next step, and see that the store is faster than half of settle",
			err, shortDuration(o.countedFrom(u.kid == "")))}
	}
	o.app.note("the store was slow: the change was dated anew, as revision %d", o.doc.Revision)
	return nil
}

// awaited reports whether somebody may count from the stamp of a key, or of the policy.
func awaited(d *keyset.Document, kid string) bool {
	k := d.Key(kid)
	return kid == "" || k != nil && (k.State == keyset.Staged || k.State == keyset.Primary)
}

// An undated change is one whose stamp is too early: where load finds it in the history, the
// change of key kid, or of the policy, is dated anew.
type undated struct {
	change madeChange
	kid    string
}

// dateAnewIfLate remembers what may arrive after it was given up, if err is about such.
func (o *opened) dateAnewIfLate(err error, kid string) {
	var late *lateError
	if errors.As(err, &late) {
		o.undated = append(o.undated, undated{late.change, kid})
	}
}

// dateAnew does that if there are such changes in what was loaded, be it that others came
// after them.
func (o *opened) dateAnew(ctx context.Context) error {
	for _, u := range o.undated {
		if !u.change.in(o.doc) {
			continue
		}
		o.undated = slices.DeleteFunc(o.undated, func(other undated) bool { return other.kid == u.kid && other.change.in(o.doc) })
		return o.restamp(ctx, u)
	}
	return nil
}

// countedFrom returns how long a change that is there has to be there before what counts from
// its stamp is sure to be over. Servers that cannot read the store go on for max_stale:
// former values of a policy count as long, and where time stands in for proof so does a key.
func (o *opened) countedFrom(policy bool) time.Duration {
	p := o.doc.Policy.At(o.app.Now())
	if policy || p.Proof == keyset.ProofSettle {
		return p.Settle + p.MaxStale
	}
	return p.Settle
}
