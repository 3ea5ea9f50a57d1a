package keyset_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/keyset"
)

func newFile(t *testing.T, path string) *keyset.File {
	t.Helper()
	f, err := keyset.NewFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// loads checks that a store holds a document, and returns its version.
func loads(t *testing.T, s keyset.Store, want string) (version string) {
	t.Helper()
	doc, version, err := s.Load(t.Context())
	if err != nil || string(doc) != want {
		t.Errorf("Load gives %.100q, %v; want %.100q", doc, err, want)
	}
	return version
}

// saves puts a document in the place of what is there.
func saves(t *testing.T, s keyset.Store, doc string) {
	t.Helper()
	_, version, err := s.Load(t.Context())
	if err != nil && !errors.Is(err, keyset.ErrNotExist) {
		t.Fatal(err)
	}
	if _, err := s.Save(t.Context(), []byte(doc), version); err != nil {
		t.Fatalf("Save: %v", err)
	}
}

// folder returns a folder that its owner alone can write, and what is in it.
func folder(t *testing.T) (path string, list func() string) {
	t.Helper()
	path, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path, func() string {
		entries, err := os.ReadDir(path)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return strings.Join(names, " ")
	}
}

// put writes a file as anybody would.
func put(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // WriteFile minds the umask
		t.Fatal(err)
	}
}
