// Package within waits for calls that should heed their contexts, and leaves behind those
// that do not.
package within

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrLeft reports that a call was left behind: what it returns, and when, is not known.
var ErrLeft = errors.New("a call does not end, though its context has")

// overtime is how long a call may take to notice that its context has ended.
const overtime = time.Second

// Call returns what f returns. If ctx has ended and f has not a second later, f goes on by
// itself, and the error is [ErrLeft] and that of ctx. What f writes is not to be read then.
func Call(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(overtime)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("%w: %w", ErrLeft, ctx.Err())
	}
}
