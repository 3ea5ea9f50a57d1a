package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

// store returns the place to write to.
func (o *opened) store() (keyset.Store, error) {
	if s, ok := o.source.(keyset.Store); ok {
		return s, nil
	}
	return nil, usagef("%s can only be read: write the keyset where it comes from", o.place())
}

// save writes next, which was stamped at a time, in the place of what was loaded. It ends
// within the share of settle that a save may take; if it took longer nevertheless and
// the stamp counts, which key kid has from it, or the policy if kid is "", that is written
// anew.
func (o *opened) save(ctx context.Context, next *keyset.Document, stamped time.Time, counts bool, kid string) error {
	within := rotation.SaveWithin(o.policyInForce(next))
	saving := ctx
	if within > 0 {
		var cancel context.CancelFunc
		saving, cancel = context.WithDeadlineCause(ctx, time.Now().Add(within-o.app.Now().Sub(stamped)),
			fmt.Errorf("the store took longer than %s, half of settle", shortDuration(within)))
		defer cancel()
	}
	if err := o.write(saving, next); err != nil {
		return err
	}
	took := o.app.Now().Sub(stamped)
	o.app.detail("saved revision %d in %s", next.Revision, shortDuration(took))
	if !counts || took <= within {
		return nil
	}
	return o.restamp(ctx, kid)
}

// policyInForce returns the policy that counts for a save: that of the document that is
// replaced, if there is one.
func (o *opened) policyInForce(next *keyset.Document) keyset.Policy {
	if o.doc != nil {
		return o.doc.Policy
	}
	return next.Policy
}

// restamp dates a change anew that took too long to save. It is there already, so however
// long this takes, its stamp is not too early.
func (o *opened) restamp(ctx context.Context, kid string) error {
	const tries = 5
	var err error
	for range tries {
		next := o.doc.Next()
		if err = next.Restamp(o.app.stamp(), kid); err != nil {
			break
		}
		if err = o.write(ctx, next); !errors.Is(err, keyset.ErrConflict) {
			break
		}
		if err = o.load(ctx); err != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("the change was saved, but later than settle allows, and its time could not be corrected: %w; wait %s before the next step, and see that the store is faster than half of settle",
			err, shortDuration(o.doc.Policy.Settle))
	}
	o.app.note("the store was slow: the change was dated anew, as revision %d", o.doc.Revision)
	return nil
}

// write writes next. After an error that does not tell which document is there it looks:
// nil means that it is next.
func (o *opened) write(ctx context.Context, next *keyset.Document) error {
	store, err := o.store()
	if err != nil {
		return err
	}
	text, err := o.auth.Encode(next)
	if err != nil {
		return err
	}
	version, err := store.Save(ctx, text, o.version)
	if err != nil {
		if version, err = o.isThere(ctx, text, err); err != nil {
			return err
		}
	}
	o.doc, o.version = next, version
	return nil
}

// lookAgain is how long it may take to see what is there after a failed save.
const lookAgain = 5 * time.Second

func (o *opened) isThere(ctx context.Context, text []byte, saveErr error) (version string, err error) {
	if errors.Is(saveErr, keyset.ErrConflict) {
		return "", fmt.Errorf("%w: nothing was changed; run the command again, it decides anew", saveErr)
	}
	if cause := context.Cause(ctx); cause != nil {
		saveErr = fmt.Errorf("%w (%w)", saveErr, cause)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookAgain)
	defer cancel()
	there, version, err := o.source.Load(ctx)
	switch {
	case err != nil && !errors.Is(err, keyset.ErrNotExist):
		return "", fmt.Errorf("saving: %w; whether the change was written is not known (%w): look with keytool status, and run the command again", saveErr, err)
	case err == nil && bytes.Equal(there, text):
		o.app.note("the store answered late or not at all (%v), but the change is there", saveErr)
		return version, nil
	default:
		return "", fmt.Errorf("saving: %w; nothing was changed", saveErr)
	}
}
