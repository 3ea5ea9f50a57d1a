package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A draft holds nothing before it is published, and replaces nothing.
func TestDraft(t *testing.T) {
	const text = "the keys"
	path := filepath.Join(t.TempDir(), "a.export")
	begin := func() *draft {
		t.Helper()
		d, err := newDraft(path, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if there, err := os.ReadFile(draftOf(path)); err != nil || strings.Trim(string(there), "\x00") != "" {
			t.Fatalf("%q, %v", there, err)
		}
		return d
	}
	holds := func(path, want string) {
		t.Helper()
		there, err := os.ReadFile(path)
		if want == "" && errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil || string(there) != want {
			t.Errorf("%s holds %q, %v; want %q", path, there, err, want)
		}
	}
	d := begin()
	holds(path, "")
	if _, err := newDraft(path, []byte(text)); err == nil || !strings.Contains(err.Error(), draftOf(path)+" is left of an export that was killed") {
		t.Errorf("a second one: %v", err)
	}
	if err := d.publish(); err != nil {
		t.Fatal(err)
	}
	holds(path, text)
	holds(draftOf(path), "")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || strings.Trim(string(d.text), "\x00") != "" {
		t.Errorf("%v, %v; %q", info, err, d.text)
	}

	d = begin()
	if err := d.discard(nil); err != nil {
		t.Error(err)
	}
	holds(draftOf(path), "")

	d = begin()
	if err := os.WriteFile(path, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.publish(); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "has the record of this export already") {
		t.Error(err)
	}
	holds(path, "another")
	holds(draftOf(path), "")

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	d = begin()
	d.remove = func(string) error { return fs.ErrPermission }
	switch err := d.publish(); {
	case !errors.Is(err, fs.ErrPermission):
		t.Error(err)
	case !strings.HasPrefix(err.Error(), path+" is written, whole, and the keyset has the record"), strings.Contains(err.Error(), "nobody has got the keys"),
		!strings.HasSuffix(err.Error(), "delete it, for it may hold keys"):
		t.Error(err)
	}
	holds(path, text)
}
