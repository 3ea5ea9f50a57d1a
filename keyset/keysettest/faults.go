package keysettest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

const (
	// grace is how much longer than its context a call may take.
	grace = time.Second

	// soon is a deadline for calls that will not succeed.
	soon = 250 * time.Millisecond

	// maxAttempts is how often one call may be repeated while there is time; more of
	// them add to what keeps a back end from answering.
	maxAttempts = 20

	// maxRefused allows, beside the call that was refused for good, one that finds out
	// more about the reason.
	maxRefused = 2
)

var timeout = []keyset.Kind{keyset.Unavailable}

// noStrayCall checks that what can be known without a call takes none, and above all
// that nobody calls what a stored name points to.
func (k *kit) noStrayCall(t *testing.T) {
	s := k.New(t, 0)
	w := wrap(t, s, secret(32))
	strangers := k.strangers(t)
	calls := k.Calls()
	for _, name := range strangers {
		s.Opens(name)
		w.Service = name
		refuses(t, s, w, right(), unlisted, fmt.Sprintf("wrapped under %q", name))
		if r, ok := s.(keyset.Rewrapper); ok {
			_, err := r.Rewrap(within(t), w, right())
			speaks(t, err, unlisted, fmt.Sprintf("Rewrap of what is wrapped under %q", name))
		}
	}
	if more := k.Calls() - calls; more != 0 {
		t.Errorf("%d calls for keys that are not listed", more)
	}
}

func (k *kit) cancelled(t *testing.T) {
	s := k.New(t, 0)
	w := wrap(t, s, secret(32))
	for _, op := range operations(s, w) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		k.stops(t, op, ctx, time.Now(), context.Canceled)
	}
	opens(t, s, w, secret(32))
}

func (k *kit) silence(t *testing.T) {
	s := k.New(t, 0)
	w := wrap(t, s, secret(32))
	for _, op := range operations(s, w) {
		t.Run(op.name, func(t *testing.T) {
			k.Silence(t)
			start := time.Now()
			ctx, cancel := context.WithDeadline(t.Context(), start.Add(soon))
			defer cancel()
			k.stops(t, op, ctx, start.Add(soon), context.DeadlineExceeded)

			start = time.Now()
			ctx, cancel = context.WithCancel(t.Context())
			defer time.AfterFunc(soon, cancel).Stop()
			k.stops(t, op, ctx, start.Add(soon), context.Canceled)
		})
	}
	opens(t, s, w, secret(32))
}

// stops checks that an operation stops when ctx does, which is at the time given.
func (k *kit) stops(t *testing.T, op operation, ctx context.Context, at time.Time, cause error) { //nolint:revive // the context is what is tested
	t.Helper()
	dataKey, err := op.call(ctx)
	if late := time.Since(at); late > grace {
		t.Errorf("%s came back %v after its context had ended", op.name, late)
	}
	if err == nil || dataKey != nil {
		t.Errorf("%s gives %d bytes, %v", op.name, len(dataKey), err)
		return
	}
	if !errors.Is(err, cause) {
		t.Errorf("%s: %v does not tell of %v", op.name, err, cause)
	}
	speaks(t, err, timeout, op.name)
}

// retries checks that what may pass is waited for, as long as there is time and in
// bounds.
func (k *kit) retries(t *testing.T) {
	s := k.New(t, 0)
	w := wrap(t, s, secret(32))
	for _, kind := range k.Kinds {
		if !kind.Temporary() {
			continue
		}
		for _, op := range operations(s, w) {
			t.Run(fmt.Sprintf("%v passes, %s", kind, op.name), func(t *testing.T) {
				calls := k.Calls()
				k.Fail(t, kind, 2)
				if _, err := op.call(within(t)); err != nil {
					t.Errorf("after two failures: %v", err)
				}
				if n := k.Calls() - calls; n < 3 {
					t.Errorf("%d calls, of which two should have failed", n)
				}
			})
		}
		t.Run(fmt.Sprintf("%v lasts", kind), func(t *testing.T) {
			k.Fail(t, kind, -1)
			calls, start := k.Calls(), time.Now()
			ctx, cancel := context.WithDeadline(t.Context(), start.Add(4*soon))
			defer cancel()
			dataKey, err := s.Unwrap(ctx, w, right())
			if late := time.Since(start.Add(4 * soon)); late > grace {
				t.Errorf("Unwrap came back %v after its deadline", late)
			}
			if err == nil || dataKey != nil {
				t.Fatalf("Unwrap gives %d bytes, %v", len(dataKey), err)
			}
			// Which of the two is told when the time is up is up to the service.
			speaks(t, err, []keyset.Kind{kind, keyset.Unavailable}, "Unwrap")
			if n := k.Calls() - calls; n < 1 || n > maxAttempts {
				t.Errorf("%d calls in %v, want at most %d", n, 4*soon, maxAttempts)
			}
		})
	}
	opens(t, s, w, secret(32))
}

// refusals checks that what does not pass is told at once.
func (k *kit) refusals(t *testing.T) {
	s := k.New(t, 0)
	w := wrap(t, s, secret(32))
	for _, kind := range k.Kinds {
		if kind.Temporary() {
			continue
		}
		for _, op := range operations(s, w) {
			t.Run(fmt.Sprintf("%v, %s", kind, op.name), func(t *testing.T) {
				k.Fail(t, kind, -1)
				calls := k.Calls()
				dataKey, err := op.call(within(t))
				if err == nil || dataKey != nil {
					t.Fatalf("%s gives %d bytes, %v", op.name, len(dataKey), err)
				}
				speaks(t, err, []keyset.Kind{kind}, op.name)
				if n := k.Calls() - calls; n > maxRefused {
					t.Errorf("%d calls, want one", n)
				}
			})
		}
	}
	opens(t, s, w, secret(32))
}
