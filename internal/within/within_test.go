package within_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/echoseal/echoseal/internal/within"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(within.Call(ctx, func() error { select {} }))
	// Output: a call does not end, though its context has: context canceled
}

func TestCall(t *testing.T) {
	errOwn := errors.New("its own")
	for _, c := range []struct {
		name  string
		takes time.Duration // of f; the context has a minute
		want  error
		after time.Duration
	}{
		{"in time", time.Second, errOwn, time.Second},
		{"a little late", time.Minute + time.Second/2, errOwn, time.Minute + time.Second/2},
		{"deaf", time.Hour, within.ErrLeft, time.Minute + time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				err := within.Call(ctx, func() error { time.Sleep(c.takes); return errOwn })
				if took := time.Since(began); !errors.Is(err, c.want) || took != c.after {
					t.Errorf("%v after %v", err, took)
				}
				if late := errors.Is(err, within.ErrLeft); late != errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v does not say why it was left", err)
				}
				time.Sleep(c.takes) // what is deaf comes to an end
			})
		})
	}
}
