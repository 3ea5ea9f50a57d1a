package keyset_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// A disk that does not take what was written leaves the old document, and nothing beside
// it.
func TestFileSyncFails(t *testing.T) {
	dir, list := folder(t)
	f := newFile(t, filepath.Join(dir, "keyset.json"))
	saves(t, f, "old")
	version := loads(t, f, "old")
	f.AtStep(func(step string) {
		if step == "sync" {
			turnToNull(t, filepath.Join(dir, ".keyset.json.new"))
		}
	})
	// /dev/null has nothing to sync, and says so.
	if _, err := f.Save(t.Context(), []byte("new"), version); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Save: %v", err)
	}
	f.AtStep(nil)
	loads(t, f, "old")
	if got := list(); got != ".keyset.json.lock keyset.json" {
		t.Errorf("in the folder are %s", got)
	}
	saves(t, f, "new")
}

// turnToNull makes the descriptor of an open file one of /dev/null.
func turnToNull(t *testing.T, path string) {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	const open = "/proc/self/fd"
	descriptors, err := os.ReadDir(open)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range descriptors {
		if to, err := os.Readlink(filepath.Join(open, d.Name())); err != nil || to != path {
			continue
		}
		fd, err := strconv.Atoi(d.Name())
		if err == nil {
			err = syscall.Dup3(int(null.Fd()), fd, syscall.O_CLOEXEC)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%s is not open", path)
}
