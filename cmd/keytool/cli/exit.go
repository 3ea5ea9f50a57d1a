package cli

import (
	"errors"
	"fmt"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// An Exit is an exit code of keytool.
type Exit int

// The exit codes. A healthy wait is never a failed job.
const (
	done        Exit = 0   // done, nothing due, or waiting as it should
	failed      Exit = 1   // the command could not do what it was asked
	usage       Exit = 2   // it was asked in a wrong way
	pending     Exit = 3   // --wait ran out of time, or --exit-code: there is something to do or to wait for
	refused     Exit = 4   // a check says no: an invalid token, a bad document, a doctor's finding
	conflict    Exit = 5   // another writer was first
	blocked     Exit = 6   // something stands in the way; it is named
	interrupted Exit = 130 // by a signal
)

// An exitError gives an error its exit code, where that is not 1.
type exitError struct {
	code Exit
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &exitError{code: usage, err: fmt.Errorf(format, args...)}
}

// errSilent is the error of a command whose report says everything.
var errSilent = errors.New("")

// exit ends a command with a code other than 0 whose report tells why.
func exit(code Exit) error { return &exitError{code: code, err: errSilent} }

// exitOf returns the exit code of an error.
func exitOf(err error) Exit {
	var e *exitError
	switch {
	case err == nil:
		return done
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, keyset.ErrConflict):
		return conflict
	default:
		return failed
	}
}

// misconfigured makes an error about a setting a usage error, unless its code is known
// already. A key file that is damaged is named as it should be, and has failed.
func misconfigured(err error) error {
	var decided *exitError
	if errors.As(err, &decided) || errors.Is(err, keyset.Corrupt) {
		return err
	}
	if errors.Is(err, keyset.ErrConfig) || errors.Is(err, fleet.ErrConfig) || errors.Is(err, codec.ErrConfig) {
		return &exitError{code: usage, err: err}
	}
	return err
}
