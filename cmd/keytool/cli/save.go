package cli

import (
	"context"
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
	saving, cancel := sparingALook(ctx)
	defer cancel()
	if within > 0 {
		saving, cancel = context.WithDeadlineCause(saving, time.Now().Add(within-o.app.Now().Sub(stamped)),
			fmt.Errorf("the store took longer than %s, half of settle", shortDuration(within)))
		defer cancel()
	}
	if err := o.write(saving, next); err != nil {
		if counts {
			o.dateAnewIfLate(err, kid)
		}
		return err
	}
	took := o.app.Now().Sub(stamped)
	o.app.detail("saved revision %d in %s", next.Revision, shortDuration(took))
	if !counts || took <= within {
		return nil
	}
	return o.restamp(ctx, undated{lastChange(next), kid})
}

// policyInForce returns the policy that counts for a save: that of the document that is
// replaced, if there is one.
func (o *opened) policyInForce(next *keyset.Document) keyset.Policy {
	if o.doc != nil {
		return o.doc.Policy
	}
	return next.Policy
}

// write writes next. After an error that does not tell which document is there it looks:
// nil means that it is next, or one that came after next.
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
		return o.afterError(ctx, store, next, text, err)
	}
	o.saved(next, text, version)
	return nil
}

// saved takes what is there after a save, with the change in it.
func (o *opened) saved(doc *keyset.Document, text []byte, version string) {
	o.doc, o.text, o.version = doc, text, version
	o.app.made = fmt.Sprintf("the keyset was changed, and is at revision %d: keytool status shows it", doc.Revision)
}

// lookAgain is how long it may take to see what is there after a failed save.
const lookAgain = 5 * time.Second

// sparingALook returns the context for a save, which leaves some of the time that there is
// to see what became of it.
func sparingALook(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	left := time.Until(deadline)
	within := left - min(lookAgain, left/4)
	return context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %s", shortDuration(within.Round(time.Millisecond))))
}
