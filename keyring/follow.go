package keyring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

const (
	readTimeout   = 10 * time.Second // of one read in the background
	unwrapTimeout = 30 * time.Second // of one attempt at a key
)

// follow reads the document again and again, and tries what is due of what has failed.
func (r *Ring) follow(ctx context.Context) {
	poll := time.NewTimer(r.interval())
	defer poll.Stop()
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		if wait, ok := r.nextRetry(); ok {
			retry.Reset(wait)
		} else {
			retry.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-r.settled:
			continue
		case <-retry.C:
			r.launch(false) //nolint:contextcheck // attempts end with the ring
			continue
		case <-poll.C:
		case <-r.wakes:
		}
		r.poll(ctx)
		poll.Reset(r.interval())
	}
}

// interval returns the time to the next read: no instance is late, and those that were
// started at once do not stay in step.
func (r *Ring) interval() time.Duration {
	return r.config.Every - rand.N(r.config.Every/8+1) //nolint:gosec // G404: nothing depends on it being hard to guess
}

// poll reads the document once, for an unknown key id too if one was searched for.
func (r *Ring) poll(ctx context.Context) {
	s := r.search.Load()
	mine := s != nil && !s.taken
	_ = r.reload(ctx)        // it is in the status
	quiet := r.launch(false) //nolint:contextcheck // attempts end with the ring
	if !mine {
		return
	}
	s.taken = true
	r.wait.Go(func() {
		defer close(s.done)
		timer := time.NewTimer(searchWait) // nobody waits for longer
		defer timer.Stop()
		select {
		case <-quiet:
		case <-timer.C:
		case <-ctx.Done():
		}
	})
}

// watch makes the ring read when its source tells of a change.
func (r *Ring) watch(ctx context.Context, w keyset.Watcher) {
	for wait := time.Second; ; {
		r.wake() // a change since the last call is not told of
		began := time.Now()
		err := w.Watch(ctx, r.wake)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > r.config.Every {
			wait = time.Second
		}
		r.config.Logger.LogAttrs(ctx, slog.LevelDebug, "the keyset's source ended its watch; reading at intervals goes on", r.logName(), slog.Any("error", err))
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		wait = min(2*wait, max(r.config.Every, time.Second))
	}
}

// reload reads the document and applies it if it is the ring's next. Of those that wait
// here for one another one reads for all.
func (r *Ring) reload(ctx context.Context) error {
	asked := r.reads.Load()
	select {
	case r.reading <- struct{}{}:
		defer func() { <-r.reading }()
	case <-ctx.Done():
		return fmt.Errorf("keyring: keyset %s: waiting for another read: %w", r.config.Name, ctx.Err())
	}
	if r.reads.Load() > asked && r.readWell {
		return nil // a read that began after this one was asked for
	}
	r.reads.Add(1)
	r.readWell = false
	r.mu.Lock()
	epoch := r.epoch
	r.mu.Unlock()
	began := r.config.Now()
	text, err := r.load(ctx)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) && r.life.Err() == nil {
		return err // whoever asked has left, which says nothing of the source
	}
	var d *keyset.Document
	if err == nil && (r.loaded.IsZero() || !bytes.Equal(text, r.text)) {
		d, err = r.check(text)
	}
	if r.life.Err() != nil {
		return ErrClosed
	}
	r.commit(ctx, d, text, began, epoch, err)
	r.readWell = err == nil
	return err
}

// commit notes what came of a read. d is nil if the document is the one that the ring has.
func (r *Ring) commit(ctx context.Context, d *keyset.Document, text []byte, began time.Time, epoch int, err error) {
	r.mu.Lock()
	defer r.tell(ctx)
	defer r.mu.Unlock()
	if r.readErr = err; err != nil {
		r.noteError(err)
		return
	}
	r.noteRead(began, epoch)
	switch {
	case d == nil:
	case !r.loaded.IsZero() && d.Revision == r.doc.Revision:
		r.text = text // written in another way
	default:
		r.apply(d, text, r.config.Now())
		return
	}
	r.rebuild()
}

// load reads the text of the document.
func (r *Ring) load(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	text, _, err := r.config.Source.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("keyring: reading keyset %s from %s: %w", r.config.Name, placeOf(r.config.Source), err)
	}
	return text, nil
}

// check returns the document of a text if it may take the place of the one that the ring
// has. It calls no key service. Whoever calls it holds reading, without which doc does not
// change.
func (r *Ring) check(text []byte) (*keyset.Document, error) {
	fail := func(err error) (*keyset.Document, error) {
		return nil, fmt.Errorf("keyring: keyset %s: %w", r.config.Name, err)
	}
	d, err := keyset.Parse(text)
	switch {
	case err != nil:
		return fail(err)
	case d.Name != r.config.Name:
		return fail(fmt.Errorf("%w: the document is that of keyset %s: correct the name or the place", ErrForeign, d.Name))
	case d.Lineage != r.doc.Lineage || d.Auth.ID != r.auth.ID():
		return fail(fmt.Errorf("%w: the document has the same name but lineage %s and auth key %s, and not the ring's %s and %s: if it was replaced on purpose, restart this process",
			ErrForeign, d.Lineage, d.Auth.ID, r.doc.Lineage, r.auth.ID()))
	}
	if err := r.auth.Verify(d); err != nil {
		return fail(err)
	}
	switch {
	case d.Revision < r.doc.Revision:
		return fail(fmt.Errorf("%w: the document is revision %d, and %d was there before: something has brought back an old copy", ErrOlder, d.Revision, r.doc.Revision))
	case d.Revision == r.doc.Revision && !bytes.Equal(d.Tag, r.doc.Tag):
		return fail(fmt.Errorf("%w: the document is revision %d, with another tag than the one that the ring has: save the right one as the next revision", ErrFork, d.Revision))
	}
	return d, nil
}

// launch starts attempts at what is due: keys that are not held, every one of them if all
// is set, and the other wrappings of keys that are. The channel is closed when no attempt
// at a key is left.
func (r *Ring) launch(all bool) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.quiet
	}
	now := time.Now()
	for _, e := range r.entries {
		if !e.needed() || e.retry.busy || !all && !e.retry.due(now) {
			continue
		}
		e.retry.busy = true
		if r.busy++; r.busy == 1 {
			r.quiet = make(chan struct{})
		}
		r.wait.Go(func() { r.attempt(e) })
	}
	for e, w := range r.unopened {
		if w.retry.due(now) {
			w.retry.busy = true
			r.wait.Go(func() { r.compare(e, w) })
		}
	}
	return r.quiet
}

// unopened walks over the wrappings of keys that are held, and of the auth key, that
// were not opened.
func (r *Ring) unopened(yield func(*entry, *wrapping) bool) {
	for e := range r.wrapped {
		if e.held == nil && !e.isAuth() {
			continue
		}
		for _, w := range e.wraps {
			if !w.opened && !yield(e, w) {
				return
			}
		}
	}
}

// nextRetry returns the time until the next attempt is due, if there is one.
func (r *Ring) nextRetry() (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var next time.Time
	consider := func(t *retry) {
		if !t.busy && (next.IsZero() || t.at.Before(next)) {
			next = t.at
			if next.IsZero() {
				next = time.Now()
			}
		}
	}
	for _, e := range r.entries {
		if e.needed() {
			consider(&e.retry)
		}
	}
	for _, w := range r.unopened {
		consider(&w.retry)
	}
	return max(0, time.Until(next)), !next.IsZero()
}

// attempt tries to unwrap a key that is not held.
func (r *Ring) attempt(e *entry) {
	ctx, cancel := context.WithTimeout(r.life, unwrapTimeout)
	defer cancel()
	err := r.open(ctx, e)
	r.mu.Lock()
	e.retry.busy = false
	if err != nil {
		e.retry.failed(time.Now(), r.config.Every)
	}
	if r.busy--; r.busy == 0 {
		close(r.quiet)
	}
	r.mu.Unlock()
	r.tell(ctx)
	r.launch(false) // its other wrappings, if it is held now
	signal(r.settled)
}

// compare opens another wrapping of a key that is held.
func (r *Ring) compare(e *entry, w *wrapping) {
	ctx, cancel := context.WithTimeout(r.life, unwrapTimeout)
	defer cancel()
	r.mu.Lock()
	k := e.key
	r.mu.Unlock()
	_ = r.tryOne(ctx, e, k, w, 1) // it is in the status
	r.mu.Lock()
	w.retry.busy = false
	r.mu.Unlock()
	r.tell(ctx)
	signal(r.settled)
}
