//go:build unix

package gcpkms_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec/gcpkms"
	"github.com/echoseal/echoseal/keyset"
)

// The search for credentials hangs in reading a file: opening ends in time, and says
// what it was waiting for.
func TestOpenHangs(t *testing.T) {
	pipe := filepath.Join(isolate(t), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", pipe)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	s, err := gcpkms.Open(ctx, "gcpkms://"+someKey)
	if took := time.Since(start); s != nil || took > 1100*time.Millisecond {
		t.Errorf("opening took %v", took)
	}
	wantError(t, err, keyset.Unavailable, someKey, "credentials.DetectDefault")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "finding credentials") {
		t.Error(err)
	}
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // lets the search go
	if err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
}
