package cli

import (
	"context"
	"errors"
	"fmt"
)

// errLeft is the error of a call that was left behind.
var errLeft = errors.New("it was left behind")

// orLeave returns what read returns, or leaves it behind once a channel is closed. What
// waits for a person, or for the other end of a pipe, heeds no signal and no --timeout; the
// process, which ends soon after, ends it.
func orLeave[T any](ended <-chan struct{}, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	got := make(chan result, 1)
	go func() {
		value, err := read()
		got <- result{value, err}
	}()
	select {
	case r := <-got:
		return r.value, r.err
	case <-ended:
		var none T
		return none, errLeft
	}
}

// reading is [orLeave] for what has a name, until ctx ends.
func reading[T any](ctx context.Context, name string, read func() (T, error)) (T, error) {
	value, err := orLeave(ctx.Done(), read)
	if errors.Is(err, errLeft) {
		err = fmt.Errorf("reading %s: it has not come to an end: %w", name, context.Cause(ctx))
	}
	return value, err
}
