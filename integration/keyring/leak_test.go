// Package keyring_test looks for what a ring leaves behind.
package keyring_test

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/keyring"
	"github.com/echoseal/echoseal/keyset"
)

// A ring that followed a file, was told to read it and looked for unknown keys leaves no
// goroutine behind.
func TestClosedRingLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	kek := filepath.Join(t.TempDir(), "kek.key")
	if _, err := localkek.NewKeyFile(kek); err != nil {
		t.Fatal(err)
	}
	services, err := keyset.Openers{localkek.Opener()}.Open(t.Context(), "localkek://"+kek)
	if err != nil {
		t.Fatal(err)
	}
	file, err := keyset.NewFile(filepath.Join(t.TempDir(), "keyset.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, auth, err := keyset.Init(t.Context(), services, keyset.InitOptions{Name: "leak", Note: keyset.Note{At: time.Now()}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := auth.Encode(doc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Save(t.Context(), text, ""); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		ring, err := keyring.Open(ctx, keyring.Config{
			Name: "leak", Source: file, Services: services, Every: time.Millisecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		other, err := keyring.Open(t.Context(), keyring.Config{Name: "leak", Source: file, Services: services, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if err := ring.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
		_, _ = ring.Unseal("v1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
		for _, r := range []*keyring.Ring{ring, other} {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := services.Close(); err != nil {
		t.Error(err)
	}
}
