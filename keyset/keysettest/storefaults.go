package keysettest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

// A storeOperation is one of what a store does.
type storeOperation struct {
	name string
	call func(context.Context) ([]byte, error) // a document, where it gives one
}

// storeOperations returns what s does with a document of the given version.
func storeOperations(s keyset.Store, version string) []storeOperation {
	return []storeOperation{
		{"Load", func(ctx context.Context) ([]byte, error) {
			doc, _, err := s.Load(ctx)
			return doc, err
		}},
		{"Save", func(ctx context.Context) ([]byte, error) {
			_, err := s.Save(ctx, []byte("new"), version)
			return nil, err
		}},
	}
}

// ends checks that an operation fails as its context does, which ends at the time given.
func (op storeOperation) ends(t *testing.T, ctx context.Context, at time.Time) { //nolint:revive // the context is what is tested
	t.Helper()
	doc, err := op.call(ctx)
	if late := time.Since(at); late > grace {
		t.Errorf("%s came back %v after its context had ended", op.name, late)
	}
	switch cause := ctx.Err(); {
	case err == nil || doc != nil:
		t.Errorf("%s gives %d bytes, %v, when its context has ended", op.name, len(doc), err)
	case errors.Is(err, keyset.ErrNotExist) || errors.Is(err, keyset.ErrConflict):
		t.Errorf("%s: %v tells of what it cannot know", op.name, err)
	case !errors.Is(err, cause):
		t.Errorf("%s: %v does not tell of %v", op.name, err, cause)
	}
}

// cancelled checks that nothing is done in a context that has ended.
func (k *storeKit) cancelled(t *testing.T) {
	name, s, version := k.holding(t, "old")
	for _, op := range storeOperations(s, version) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		op.ends(t, ctx, time.Now())
		ctx, cancel = context.WithDeadline(t.Context(), time.Now())
		op.ends(t, ctx, time.Now())
		cancel()
	}
	k.holds(t, name, s, "old", version)
}

// silence checks that nothing waits longer than it may.
func (k *storeKit) silence(t *testing.T) {
	name, s, version := k.holding(t, "old")
	for _, op := range storeOperations(s, version) {
		t.Run(op.name, func(t *testing.T) {
			k.Silence(t)
			ctx, at := shortly(t)
			op.ends(t, ctx, at)
			ctx, cancel := context.WithCancel(t.Context())
			at = time.Now().Add(soon)
			defer time.AfterFunc(soon, cancel).Stop()
			op.ends(t, ctx, at)
		})
	}
	if w, ok := s.(keyset.Watcher); ok {
		t.Run("Watch", func(t *testing.T) {
			k.Silence(t)
			ctx, at := shortly(t)
			_ = w.Watch(ctx, func() {})
			if late := time.Since(at); late > grace {
				t.Errorf("Watch came back %v after its context had ended", late)
			}
		})
	}
	k.eitherOf(t, name, "old", "new")
}

// eitherOf checks that one of the documents is there, "" for none, and that it can be
// replaced: the first may be replaced by the second, once, while this goes on.
func (k *storeKit) eitherOf(t *testing.T, name string, docs ...string) (found string) {
	t.Helper()
	s := k.New(t, name)
	doc, version, err := s.Load(within(t))
	found = string(doc)
	if err != nil && !errors.Is(err, keyset.ErrNotExist) {
		t.Fatalf("Load: %v", err)
	}
	if found != docs[0] && found != docs[1] {
		t.Errorf("there are %.100q, want %.100q or %.100q", found, docs[0], docs[1])
	}
	next, err := s.Save(within(t), []byte("next"), version)
	if errors.Is(err, keyset.ErrConflict) && found == docs[0] {
		// What was sent before has arrived only now.
		var late string
		if late, version = mustLoad(t, s); late != docs[1] {
			t.Errorf("there are then %.100q, want %.100q", late, docs[1])
		}
		next = mustSave(t, s, "next", version)
	} else if err != nil {
		t.Fatalf("Save with version %q: %v", version, err)
	}
	k.holds(t, name, s, "next", next)
	return found
}

// killedWriter checks that a writer that dies leaves the old document or the new one.
func (k *storeKit) killedWriter(t *testing.T) {
	const maxSteps = 1000
	fresh := large(min(k.MaxBytes, 64<<10))
	for _, old := range []string{"", "old"} { // "": none
		step := 0
		for alive := false; !alive; step++ {
			if step == maxSteps {
				t.Fatalf("a writer has died at each of %d steps", step)
			}
			name, version := place(), ""
			if old != "" {
				version = mustSave(t, k.New(t, name), old, "")
			}
			alive = !k.Kill(t, name, []byte(fresh), version, step)
			found := k.eitherOf(t, name, old, fresh)
			if alive && found != fresh {
				t.Errorf("a writer that did not come to step %d has not saved", step)
			}
		}
		if step == 1 {
			t.Error("no writer has died")
		}
	}
}

// restart checks that a document outlives its server, and that stores find back to it.
func (k *storeKit) restart(t *testing.T) {
	name, s, version := k.holding(t, "old")
	k.Restart(t)
	k.holds(t, name, s, "old", version)
	k.holds(t, name, s, "new", mustSave(t, s, "new", version))
	w, ok := s.(keyset.Watcher)
	if !ok {
		return
	}
	watched := k.watch(t, w)
	watched.begins(t, k.New(t, name))
	for range 2 {
		k.Restart(t)
		watched.settle()
		watched.begins(t, s)
	}
	watched.ends(t)
}
