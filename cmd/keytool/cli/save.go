package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// A madeChange is a change as histories tell it: the nth of those that look like it. Two may,
// where the clock is behind: each has the time of the one before it then.
type madeChange struct {
	event keyset.Event
	nth   int
}

// lastChange returns the change that has made a document what it is.
func lastChange(d *keyset.Document) madeChange { return changeAt(d.History, len(d.History)-1) }

func changeAt(history []keyset.Event, i int) madeChange {
	return madeChange{history[i], timesIn(history[:i+1], history[i])}
}

// in reports whether the history of a document has the change.
func (c madeChange) in(d *keyset.Document) bool { return timesIn(d.History, c.event) >= c.nth }

func timesIn(history []keyset.Event, event keyset.Event) (n int) {
	for _, e := range history {
		at := e.At
		if e.At = event.At; at.Equal(event.At) && e == event {
			n++
		}
	}
	return n
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

// A lateError is that of a save that was given up and may be carried out nevertheless.
type lateError struct {
	error

	change madeChange
}

func (e *lateError) Unwrap() error { return e.error }

// An unchangedError is that of a save that has changed nothing, and will not.
type unchangedError struct {
	cause error
	says  string
}

func (e *unchangedError) Error() string { return e.cause.Error() + e.says }
func (e *unchangedError) Unwrap() error { return e.cause }

// afterError tells which document is there after a save of next has failed: nil if it has
// the change, or an error with which nothing was changed, and will not be, unless the error
// says otherwise. What was sent without an answer may be on its way, as behind a proxy: the
// document that is there is saved again in its own place, which uses up the version that the
// other asks for.
func (o *opened) afterError(ctx context.Context, store keyset.Store, next *keyset.Document, text []byte, saveErr error) error {
	conflict := errors.Is(saveErr, keyset.ErrConflict)
	if conflict && !o.mayBeLate() {
		return conflicted(saveErr)
	}
	if cause := context.Cause(ctx); cause != nil {
		saveErr = fmt.Errorf("%w (%w)", saveErr, cause)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookAgain)
	defer cancel()
	if conflict {
		return o.afterConflict(ctx, next, saveErr)
	}
	unchanged := &unchangedError{fmt.Errorf("saving: %w", saveErr), "; nothing was changed"}
	if refusedForGood(saveErr) {
		return unchanged
	}
	const tries = 3
	for range tries {
		there, version, err := o.source.Load(ctx)
		switch {
		case err != nil && !errors.Is(err, keyset.ErrNotExist):
			return o.unknown(next, fmt.Errorf("%w; whether the change was written is not known (%w)", saveErr, err))
		case err == nil && bytes.Equal(there, text):
			o.app.note("the store answered late or not at all (%v), but the change is there", saveErr)
			o.saved(next, text, version)
			return nil
		case err == nil && !bytes.Equal(there, o.text):
			return o.afterAnother(next, there, version, saveErr)
		case !o.mayBeLate():
			return unchanged
		case err == nil && version != o.version:
			o.version = version // saved again, without an answer
			return unchanged
		case o.version == "":
			return o.unknown(next, saveErr) // there is nothing to save again
		}
		if version, err = store.Save(ctx, o.text, o.version); err == nil {
			o.version = version
			return unchanged
		}
	}
	return o.unknown(next, saveErr)
}

// afterConflict is afterError where the store has another version than the one to be replaced.
// That may be of the change itself: what is between here and a server, such as a proxy, may
// send anew what got no answer, and the server refuses the second one.
func (o *opened) afterConflict(ctx context.Context, next *keyset.Document, saveErr error) error {
	there, version, err := o.source.Load(ctx)
	if err != nil && !errors.Is(err, keyset.ErrNotExist) {
		return o.unseen(next, fmt.Errorf("%w; and what is there cannot be read (%w)", saveErr, err))
	}
	if err == nil {
		if doc, err := o.comesAfter(next, there); err == nil && lastChange(next).in(doc) {
			o.app.note("the store was asked twice for one change, as by a proxy that sends anew what gets no answer: it is there, and the keyset at revision %d", doc.Revision)
			o.saved(doc, there, version)
			return nil
		}
	}
	return conflicted(saveErr)
}

// afterAnother is afterError where another writer has been there, before the change or after
// it: what that wrote has the change then.
func (o *opened) afterAnother(next *keyset.Document, there []byte, version string, saveErr error) error {
	doc, err := o.comesAfter(next, there)
	before := len(next.History) - 2
	switch conflict := fmt.Errorf("saving: %w; %w", saveErr, keyset.ErrConflict); {
	case err == nil && lastChange(next).in(doc):
		o.app.note("the store answered late or not at all (%v), but the change is there, and another one after it: the keyset is at revision %d", saveErr, doc.Revision)
		o.saved(doc, there, version)
		return nil
	case err == nil && before >= 0 && changeAt(next.History, before).in(doc): // which goes back to before the change
		return conflicted(conflict)
	default:
		return o.unseen(next, conflict)
	}
}

// comesAfter reads a document that may have next in its past.
func (o *opened) comesAfter(next *keyset.Document, text []byte) (*keyset.Document, error) {
	doc, err := keyset.Parse(text)
	switch {
	case err != nil:
		return nil, err
	case doc.Name != next.Name || doc.Lineage != next.Lineage:
		return nil, errOtherLineage
	}
	return doc, o.auth.Verify(doc)
}

// conflicted is the error of a save where another writer was first.
func conflicted(err error) error {
	return &unchangedError{err, ": nothing was changed; run the command again, it decides anew"}
}

// unseen is the error of a save where another writer was there, and may have come after the
// change. It has failed, and is not to be run again at once as after a conflict.
func (o *opened) unseen(next *keyset.Document, conflict error) error {
	return &exitError{failed, &lateError{fmt.Errorf("%w: whether the change was written before that is not known: look with keytool status before the next step%s", conflict, o.patience(next)), lastChange(next)}}
}

// unknown says that a change may be written or not.
func (o *opened) unknown(next *keyset.Document, saveErr error) error {
	return &lateError{fmt.Errorf("saving: %w; the change may still arrive: look with keytool status before the next step%s", saveErr, o.patience(next)), lastChange(next)}
}

// patience says how long to wait with the next step if a change is found to be there.
func (o *opened) patience(next *keyset.Document) string {
	if o.doc == nil {
		return "" // nobody counts from the stamp of a revision that has none before it
	}
	wait := o.countedFrom(lastChange(next).event.KID == "" && next.Policy.Was != nil)
	if wait == 0 {
		return ""
	}
	return fmt.Sprintf(", and if it is there, wait %s before that", shortDuration(wait))
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

// mayBeLate reports whether a save may be carried out after its error: not one of a file,
// which this process writes or nobody.
func (o *opened) mayBeLate() bool { return !strings.HasPrefix(o.place(), "file:") }

// refusedForGood reports whether a save was not carried out, and will not be: the server has
// refused it, or it was never sent.
func refusedForGood(saveErr error) bool {
	var refusal keyset.Kind
	return errors.Is(saveErr, keyset.ErrConfig) || errors.As(saveErr, &refusal) && !refusal.Temporary()
}
