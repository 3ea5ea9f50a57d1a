//go:build linux

package localkek_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/keyset"
)

// Errors of the operating system that a mode alone does not give, least of all to root.
func TestUnreadableFiles(t *testing.T) {
	path, _ := keyFile(t)
	if err := os.Chmod(path, 0o000); err != nil {
		t.Fatal(err)
	}
	checkKeyError(t, asNobody(t, func() error {
		_, err := localkek.Open(t.Context(), uri(path))
		return err
	}), keyset.Denied)

	// A regular file with mode 0600, of which address 0 cannot be read.
	_, err := localkek.Open(t.Context(), uri("/proc/self/mem"))
	checkKeyError(t, err, keyset.Unavailable)

	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, "/dev/zero"} {
		if _, err := localkek.Open(t.Context(), uri(path)); !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// asNobody calls f without the right of root to read everything.
func asNobody(t *testing.T, f func() error) error {
	t.Helper()
	if os.Getuid() != 0 {
		return f()
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		const nobody = 65534
		if err := syscall.Setfsuid(nobody); err != nil {
			result <- err
			return
		}
		result <- f()
	}()
	return <-result
}

// Nothing is left of a file that could not be written.
func TestNoHalfKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kek")
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 16, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	_, err := localkek.NewKeyFile(path)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, syscall.EFBIG) {
		t.Errorf("of a file of 16 bytes at most: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a file: %v", err)
	}
}
