package keyset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/echoseal/echoseal/internal/within"
)

// A hang is what a file system does that does not answer, such as one whose server is gone:
// it keeps whoever calls it for as long as it likes, and the end of no context ends that.
type hang struct {
	mu   sync.Mutex
	left []<-chan struct{} // of each call that was left behind, closed when it has ended
}

// leave notes a call that is left behind.
func (h *hang) leave(ended <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = append(h.left, ended)
}

// goesOn returns what is closed when a call that was left behind has ended, and nil if none
// goes on.
func (h *hang) goesOn() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = slices.DeleteFunc(h.left, func(ended <-chan struct{}) bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	if len(h.left) == 0 {
		return nil
	}
	return h.left[0]
}

// call returns what do returns, or leaves it behind soon after ctx has ended. While any that
// was left behind goes on no other begins: each keeps a thread, and servers read for ever.
func (f *File) call(ctx context.Context, doing string, do func() error) error {
	for left := f.hang.goesOn(); left != nil; left = f.hang.goesOn() {
		select {
		case <-left:
		case <-ctx.Done():
			return f.hangs(ctx, doing)
		}
	}
	ended := make(chan struct{})
	err := within.Call(ctx, func() error {
		defer close(ended)
		return do()
	})
	if !errors.Is(err, within.ErrLeft) {
		return err
	}
	f.hang.leave(ended)
	return f.hangs(ctx, doing)
}

func (f *File) hangs(ctx context.Context, doing string) error {
	return fmt.Errorf("%s %s: the file system does not answer; look at the disk or the mount: %w", doing, f, ended(ctx))
}

// ended returns the error of a context that has ended, and its cause if that says more.
func ended(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}
