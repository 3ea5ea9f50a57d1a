package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/echoseal/echoseal/keyset"
)

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

// mayBeLate reports whether a save may be carried out after its error: not one of a file,
// which this process writes or nobody.
func (o *opened) mayBeLate() bool { return !strings.HasPrefix(o.place(), "file:") }

// refusedForGood reports whether a save was not carried out, and will not be: the server has
// refused it, or it was never sent.
func refusedForGood(saveErr error) bool {
	var refusal keyset.Kind
	return errors.Is(saveErr, keyset.ErrConfig) || errors.As(saveErr, &refusal) && !refusal.Temporary()
}
