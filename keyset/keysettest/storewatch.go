package keysettest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

// quiet is how long nothing is told when nothing more will be.
const quiet = 200 * time.Millisecond

func (k *storeKit) watcher(t *testing.T) {
	name, s, _ := k.holding(t, "old")
	w, ok := s.(keyset.Watcher)
	if !ok {
		t.Log(optional)
		return
	}
	other := k.New(t, name)
	watched := k.watch(t, w)
	watched.begins(t, other)
	for i := range 4 {
		watched.settle()
		_, version := mustLoad(t, other)
		mustSave(t, other, fmt.Sprint("change ", i), version)
		watched.tells(t, fmt.Sprintf("change %d", i))
		if doc, _ := mustLoad(t, s); doc != fmt.Sprint("change ", i) {
			t.Errorf("what is told of is not there yet: %q", doc)
		}
	}
	watched.ends(t)
	if len(watched.errs) > 0 {
		t.Errorf("Watch has returned %d times though nothing was wrong: %v", len(watched.errs), watched.errs[0])
	}
	_, version := mustLoad(t, other)
	mustSave(t, other, "when nobody watches", version)
	watched.silent(t)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	start := time.Now()
	_ = w.Watch(ctx, func() {})
	if late := time.Since(start); late > grace {
		t.Errorf("Watch came back %v after its context had ended", late)
	}

	// A place that does not exist yet can be watched.
	name = place()
	early := k.New(t, name)
	watched = k.watch(t, early.(keyset.Watcher))
	watched.settle() // until it watches
	watched.begins(t, k.New(t, name))
	watched.ends(t)
}

// A watched store is one that is watched as its user would: again after each error.
type watched struct {
	prompt  time.Duration
	changes chan struct{} // there was a change, or several
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	over    atomic.Bool  // Watch has returned for good
	late    atomic.Int32 // changes that were told afterwards
	errs    []error      // of the calls that returned before they had to
}

func (k *storeKit) watch(t *testing.T, w keyset.Watcher) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	watched := &watched{prompt: k.prompt, changes: make(chan struct{}, 1), cancel: cancel}
	changed := func() {
		if watched.over.Load() {
			watched.late.Add(1)
		}
		select {
		case watched.changes <- struct{}{}:
		default:
		}
	}
	watched.wg.Go(func() {
		defer watched.over.Store(true)
		for ctx.Err() == nil {
			err := w.Watch(ctx, changed)
			if ctx.Err() == nil {
				watched.errs = append(watched.errs, err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(soon):
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		watched.wg.Wait()
	})
	return watched
}

// begins changes the place until that is noticed: when a call of Watch has begun cannot be
// seen from outside.
func (w *watched) begins(t *testing.T, s keyset.Store) {
	t.Helper()
	version := ""
	if _, v, err := s.Load(within(t)); err == nil {
		version = v
	}
	deadline := time.After(w.prompt)
	for i := 0; ; i++ {
		version = mustSave(t, s, fmt.Sprint("beginning ", i), version)
		select {
		case <-w.changes:
			return
		case <-time.After(quiet):
		case <-deadline:
			t.Fatalf("no change was told in %v", w.prompt)
		}
	}
}

// settle waits until all changes have been told.
func (w *watched) settle() {
	for {
		select {
		case <-w.changes:
		case <-time.After(quiet):
			return
		}
	}
}

// tells checks that a change is told.
func (w *watched) tells(t *testing.T, what string) {
	t.Helper()
	select {
	case <-w.changes:
	case <-time.After(w.prompt):
		t.Fatalf("%s was not told in %v", what, w.prompt)
	}
}

// ends checks that Watch returns with its context.
func (w *watched) ends(t *testing.T) {
	t.Helper()
	w.cancel()
	done := make(chan struct{})
	go func() {
		w.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(grace):
		t.Fatalf("Watch has not returned %v after its context had ended", grace)
	}
}

// silent checks that nothing is told any more.
func (w *watched) silent(t *testing.T) {
	t.Helper()
	time.Sleep(quiet)
	if n := w.late.Load(); n > 0 {
		t.Errorf("%d changes were told after Watch had returned", n)
	}
}
