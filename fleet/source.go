package fleet

import (
	"context"
	"errors"
	"io"
	"time"
)

// A Source is where the signed reports of instances are collected. It is safe for
// concurrent use. One that holds a connection is an [io.Closer].
type Source interface {
	// Collect returns one answer for each instance that the source knows, in any
	// order. It checks no signature. What went wrong with one instance is in its
	// answer; an error means that there may be instances it has no answer for, and
	// comes with the answers it has. It returns soon after ctx ends, with what it has,
	// and waits for nobody much longer than five seconds without that.
	Collect(ctx context.Context) ([]Answer, error)

	// String returns the source's URI, without a credential.
	String() string
}

// A Registry is a [Source] that the instances write themselves. It is safe for
// concurrent use.
type Registry interface {
	Source

	// Publish puts a signed report in the place of the one with the same id, the
	// instance's [Report.ID], and returns when a Collect that begins afterwards finds
	// it. The registry drops it by itself when keep is over, not before; 0 means never.
	// The last Publish alone says how long. No error shows a credential.
	Publish(ctx context.Context, id string, signed []byte, keep time.Duration) error

	// Forget drops the report with the given id. There need not be one.
	Forget(ctx context.Context, id string) error
}

// An Answer is what a [Source] has found of one instance. It is not verified.
type Answer struct {
	// Address is the HOST:PORT that was asked, or the id under which a registry holds
	// the report.
	Address string

	// Registered says that the report was read from a registry, not fetched from the
	// instance.
	Registered bool

	// Signed is the signed report as it came, at most [MaxBytes] long.
	Signed []byte

	// Err is why there is none: [ErrUnreachable] or [ErrMalformed].
	Err error
}

// MaxBytes is the most that a signed report may measure: 256 KiB.
const MaxBytes = 256 << 10

var (
	// ErrConfig is the error for a missing or malformed setting.
	ErrConfig = errors.New("invalid configuration")

	// ErrUnreachable is the error for an instance that does not answer, or that answers
	// that it has no report now, as before it has a keyset.
	ErrUnreachable = errors.New("unreachable")

	// ErrMalformed is the error for an answer that is no signed report, as from another
	// server or at another path.
	ErrMalformed = errors.New("malformed report")

	// ErrMAC is the error for a report that no holder of the key has signed.
	ErrMAC = errors.New("the report is not signed with this keyset's key")
)

// Sources are those that a program collects from.
type Sources []Source

// Close closes those that are an [io.Closer].
func (s Sources) Close() error {
	var errs []error
	for _, source := range s {
		if closer, ok := source.(io.Closer); ok {
			errs = append(errs, closer.Close())
		}
	}
	return errors.Join(errs...)
}
