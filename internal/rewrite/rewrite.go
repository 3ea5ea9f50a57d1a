// Package rewrite replaces a file in the ways in which other programs do, for tests of
// whoever reads it meanwhile.
package rewrite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A Way is how a program replaces a file.
type Way struct {
	Name  string
	Torn  bool // a reader may meet the beginning of the new content, or nothing of it
	Moved bool // a reader may meet no file

	replace func(f *file, content []byte) error
}

// Ways returns all of them.
func Ways() []Way {
	return []Way{
		{Name: "Kubernetes", replace: (*file).swing},
		{Name: "rename", replace: (*file).rename},
		{Name: "cp", Torn: true, replace: (*file).copyOver},
		{Name: "truncate and write", Torn: true, replace: (*file).truncate},
		{Name: "move away and write", Torn: true, Moved: true, replace: (*file).moveAway},
	}
}

// Start makes a file in an empty folder, and returns its path and the function that
// replaces its content. That is for one goroutine at a time.
func (w Way) Start(folder string, content []byte) (path string, replace func(content []byte) error, err error) {
	f := &file{folder: folder, path: filepath.Join(folder, "keyset.json")}
	start := f.rename
	if w.Name == "Kubernetes" {
		start = f.mount
	}
	if err := start(content); err != nil {
		return "", nil, err
	}
	return f.path, func(content []byte) error { return w.replace(f, content) }, nil
}

const mode = 0o644

type file struct {
	folder, path string
	revision     int // of a mounted ConfigMap
}

// mount makes what the kubelet mounts: keyset.json leads to ..data/keyset.json, and
// ..data to a folder.
func (f *file) mount(content []byte) error {
	if err := f.swing(content); err != nil {
		return err
	}
	return os.Symlink(filepath.Join("..data", filepath.Base(f.path)), f.path)
}

// swing turns ..data to a new folder, and removes the old one at once.
func (f *file) swing(content []byte) error {
	old := f.version()
	f.revision++
	fresh := f.version()
	data := filepath.Join(f.folder, "..data")
	return errors.Join(
		os.Mkdir(fresh, 0o755), //nolint:gosec // as the kubelet does
		os.WriteFile(filepath.Join(fresh, filepath.Base(f.path)), content, mode),
		os.Symlink(filepath.Base(fresh), data+"_tmp"),
		os.Rename(data+"_tmp", data),
		os.RemoveAll(old),
	)
}

func (f *file) version() string {
	return filepath.Join(f.folder, fmt.Sprintf("..2026_12_02_03_00_00.%d", f.revision))
}

// rename writes another file and gives it the name, as most editors do.
func (f *file) rename(content []byte) error {
	return errors.Join(os.WriteFile(f.path+"~", content, mode), os.Rename(f.path+"~", f.path))
}

// copyOver lets cp write into the file.
func (f *file) copyOver(content []byte) error {
	source := filepath.Join(f.folder, "source")
	if err := os.WriteFile(source, content, mode); err != nil {
		return err
	}
	var said bytes.Buffer
	cmd := exec.Command("cp", source, f.path) //nolint:gosec,noctx // the paths are of a test, and it does not last
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, said.Bytes())
	}
	return nil
}

// truncate empties the file and writes into it piece by piece.
func (f *file) truncate(content []byte) error {
	if err := os.Truncate(f.path, 0); err != nil {
		return err
	}
	return f.write(os.O_WRONLY, content)
}

// moveAway makes the old file a backup and writes a new one, as vim can be told to.
func (f *file) moveAway(content []byte) error {
	if err := os.Rename(f.path, f.path+"~"); err != nil {
		return err
	}
	return errors.Join(f.write(os.O_WRONLY|os.O_CREATE, content), os.Remove(f.path+"~"))
}

func (f *file) write(flags int, content []byte) error {
	const pieces = 8
	out, err := os.OpenFile(f.path, flags, mode)
	if err != nil {
		return err
	}
	for left := content; len(left) > 0; {
		n := min(len(left), len(content)/pieces+1)
		if _, err := out.Write(left[:n]); err != nil {
			return errors.Join(err, out.Close())
		}
		left = left[n:]
	}
	return out.Close()
}
