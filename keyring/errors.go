package keyring

import (
	"errors"
	"fmt"

	"github.com/echoseal/echoseal/codec"
)

var (
	// ErrNotReady is the error of a ring that should get no requests, see [Ring.Err].
	ErrNotReady = errors.New("the ring is not ready")

	// ErrClosed is the error of every use of a ring after [Ring.Close].
	ErrClosed = errors.New("the ring is closed")

	// ErrForeign is the error for a document of another keyset: another name, lineage or
	// auth key.
	ErrForeign = errors.New("another keyset")

	// ErrOlder is the error for a document whose revision is lower than one that was seen
	// or demanded.
	ErrOlder = errors.New("an older revision")

	// ErrFork is the error for a document of the revision that the ring holds, but with
	// other content: two hands have written it.
	ErrFork = errors.New("another document of the same revision")
)

var errNotARing = fmt.Errorf("%w: keyring: not a ring: use Open, and check its error", codec.ErrConfig)
