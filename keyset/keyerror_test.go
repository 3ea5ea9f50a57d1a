package keyset_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/echoseal/echoseal/keyset"
)

func TestKeyError(t *testing.T) {
	err := fmt.Errorf("loading: %w", &keyset.KeyError{
		Kind: keyset.PendingDeletion, Key: "awskms:///arn", Operation: "kms:Decrypt",
		Remedy: "cancel it", Err: fmt.Errorf("after\n2 attempts: %w", context.DeadlineExceeded),
	})
	want := "loading: kms:Decrypt with awskms:///arn: pending deletion: after 2 attempts: context deadline exceeded; cancel it"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	var keyErr *keyset.KeyError
	if !errors.Is(err, keyset.PendingDeletion) || !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &keyErr) {
		t.Error("kind, cause or type cannot be found")
	}
	if errors.Is(err, keyset.Disabled) {
		t.Error("it is of another kind, too")
	}
	bare := &keyset.KeyError{Kind: keyset.Sealed, Key: "k", Operation: "o"}
	if bare.Error() != "o with k: sealed" || !errors.Is(bare, keyset.Sealed) {
		t.Errorf("without a cause: %v", bare)
	}
}

func TestTemporary(t *testing.T) {
	for kind, want := range map[keyset.Kind]bool{
		keyset.NotFound: false, keyset.Disabled: false, keyset.PendingDeletion: false, keyset.Destroyed: false,
		keyset.Denied: false, keyset.Throttled: true, keyset.Unavailable: true, keyset.Sealed: false,
		keyset.ContextMismatch: false, keyset.WrongKey: false, keyset.Corrupt: false, keyset.VersionTooOld: false,
	} {
		if kind.Temporary() != want {
			t.Errorf("%v: %v", kind, !want)
		}
	}
}
