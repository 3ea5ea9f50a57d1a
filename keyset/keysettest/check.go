package keysettest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/keyset"
)

// Values of the encryption context that no error may show.
const (
	keysetName = "kit-canary-fleet"
	entryID    = "5c1d7e1e-9e0b-4a55-8a3b-c0ffee15900d"
)

// right is the encryption context under which the tests wrap.
func right() map[string]string { return keyset.EncryptionContext(keysetName, entryID, keyset.Data) }

// secret returns a data key of n bytes, which no error may show.
func secret(n int) []byte {
	dataKey := make([]byte, n)
	for i := range dataKey {
		dataKey[i] = byte(i*i*7 + i*31 + n)
	}
	return dataKey
}

func wrap(t *testing.T, s keyset.KeyService, dataKey []byte) keyset.WrappedKey {
	t.Helper()
	w, err := s.Wrap(within(t), dataKey, right())
	if err != nil {
		t.Fatalf("Wrap of %d bytes: %v", len(dataKey), err)
	}
	return w
}

// opens checks that s unwraps w to dataKey.
func opens(t *testing.T, s keyset.KeyService, w keyset.WrappedKey, dataKey []byte) {
	t.Helper()
	got, err := s.Unwrap(within(t), w, right())
	switch {
	case err != nil:
		t.Errorf("Unwrap: %v", err)
	case len(got) != len(dataKey):
		t.Errorf("Unwrap gives %d bytes, want the %d that were wrapped", len(got), len(dataKey))
	case !bytes.Equal(got, dataKey):
		t.Error("Unwrap gives another data key than was wrapped")
	}
}

// Kinds that an error about what was given to Unwrap can have.
var (
	mismatch = []keyset.Kind{keyset.ContextMismatch}
	unlisted = []keyset.Kind{keyset.WrongKey}
	damage   = []keyset.Kind{
		keyset.Corrupt, keyset.ContextMismatch, keyset.WrongKey,
		// The version of a key may be part of what was damaged.
		keyset.NotFound, keyset.Destroyed, keyset.VersionTooOld,
	}
)

// refuses checks that s refuses w, with an error of one of the kinds.
func refuses(t *testing.T, s keyset.KeyService, w keyset.WrappedKey, encryptionContext map[string]string, kinds []keyset.Kind, what string) {
	t.Helper()
	got, err := s.Unwrap(within(t), w, encryptionContext)
	if err == nil {
		t.Errorf("%s: unwrapped, to %d bytes", what, len(got))
		return
	}
	if got != nil {
		t.Errorf("%s: refused, but %d bytes came back", what, len(got))
	}
	speaks(t, err, kinds, what)
}

// speaks checks that an error tells what it has to, and nothing else.
func speaks(t *testing.T, err error, kinds []keyset.Kind, what string) {
	t.Helper()
	var e *keyset.KeyError
	if !errors.As(err, &e) {
		t.Errorf("%s: %v is no *keyset.KeyError", what, err)
		return
	}
	if !slices.Contains(kinds, e.Kind) || !errors.Is(err, e.Kind) {
		t.Errorf("%s: the kind is %q, want one of %q: %v", what, e.Kind, kinds, err)
	}
	text := err.Error()
	for part, value := range map[string]string{"Key": e.Key, "Operation": e.Operation, "Remedy": e.Remedy} {
		if value == "" || !strings.Contains(text, value) {
			t.Errorf("%s: the error has or says no %s: %v", what, part, err)
		}
	}
	if strings.Contains(text, "\n") {
		t.Errorf("%s: the error has several lines: %q", what, text)
	}
	silent(t, text)
}

// silent checks that a text shows neither a data key of these tests nor their context.
func silent(t *testing.T, text string) {
	t.Helper()
	for _, n := range sizes {
		dataKey := secret(n)[:16] // as good as the whole
		for _, form := range []string{
			string(dataKey),
			hex.EncodeToString(dataKey), fmt.Sprintf("%X", dataKey),
			base64.RawStdEncoding.EncodeToString(dataKey[:15]), base64.RawURLEncoding.EncodeToString(dataKey[:15]),
			strings.Trim(fmt.Sprint(dataKey), "[]"),
		} {
			if strings.Contains(text, form) {
				t.Errorf("a data key is shown: %q", text)
			}
		}
	}
	for _, value := range []string{keysetName, entryID} {
		if strings.Contains(text, value) {
			t.Errorf("a value of the encryption context is shown: %q", text)
		}
	}
}

// An operation is one of what a service does.
type operation struct {
	name string
	call func(context.Context) ([]byte, error) // a data key, where it gives one
}

// operations returns what s does, that of optional interfaces included.
func operations(s keyset.KeyService, w keyset.WrappedKey) []operation {
	all := []operation{
		{"Unwrap", func(ctx context.Context) ([]byte, error) { return s.Unwrap(ctx, w, right()) }},
		{"Wrap", func(ctx context.Context) ([]byte, error) {
			_, err := s.Wrap(ctx, secret(32), right())
			return nil, err
		}},
	}
	if g, ok := s.(keyset.Generator); ok {
		all = append(all, operation{"Generate", func(ctx context.Context) ([]byte, error) {
			dataKey, _, err := g.Generate(ctx, right())
			return dataKey, err
		}})
	}
	if r, ok := s.(keyset.Rewrapper); ok {
		all = append(all, operation{"Rewrap", func(ctx context.Context) ([]byte, error) {
			_, err := r.Rewrap(ctx, w, right())
			return nil, err
		}})
	}
	return all
}
