package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A draft is a new file of keys that has no key in it yet. Whoever asks later where keys are
// goes by the records in the keyset: so the room for them is taken first, under
// another name, then the record is written, and the keys only after that. A record of what was
// never handed over only makes a promotion wait for the next export.
//
// Whatever ends the process in between leaves no keys without a record, and nothing under the
// file's own name but all of them.
type draft struct {
	path string
	file *os.File
	text []byte

	remove func(path string) error // os.Remove
}

// newDraft takes the room for a text, which publish clears, and so does discard.
func newDraft(path string, text []byte) (*draft, error) {
	temporary := draftOf(path)
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s is left of an export that was killed, or another one is at it now; it may hold keys, of which the keyset has a record: delete it, and run the command again", temporary)
	}
	if err != nil {
		clear(text)
		return nil, err
	}
	d := &draft{path, file, text, os.Remove}
	if _, err = file.Write(make([]byte, len(text))); err == nil {
		err = file.Sync()
	}
	if err != nil {
		return nil, d.discard(fmt.Errorf("writing %s: %w", path, err))
	}
	return d, nil
}

// absolute returns the path of a file that keys are written to, which is never standard
// output.
func absolute(path string) (string, error) {
	if path == "-" {
		return "", usagef("keys are not written to standard output: name a file; if - is to be its name, write ./-")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("the path %s: %w", path, err)
	}
	return abs, nil
}

// draftOf returns the name of the draft of a file.
func draftOf(path string) string {
	folder, name := filepath.Split(path)
	return folder + "." + name + ".new"
}

// publish writes the keys, and gives the file its name. What has got that name meanwhile is
// not replaced. If nothing fails but to remove the draft, the file is there nevertheless, as
// the error says.
func (d *draft) publish() error {
	_, err := d.file.WriteAt(d.text, 0)
	if err == nil {
		err = d.file.Sync()
	}
	if err == nil {
		err = d.named()
	}
	published := err == nil
	switch err = d.discard(err); {
	case err == nil:
		return nil
	case published:
		return fmt.Errorf("%s is written, whole, and the keyset has the record of this export; what is left is its draft: %w", d.path, err)
	default:
		return fmt.Errorf("writing %s: %w; the keyset has the record of this export already, and nobody has got the keys: run the command again, and choose another file", d.path, err)
	}
}

// named gives the file its name beside that of the draft.
func (d *draft) named() error {
	err := os.Link(d.file.Name(), d.path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// A file system without links.
	if _, there := os.Lstat(d.path); !errors.Is(there, fs.ErrNotExist) {
		return err
	}
	return os.Rename(d.file.Name(), d.path)
}

// discard removes the draft, if it is still there. It returns err, and why it cannot.
func (d *draft) discard(err error) error {
	clear(d.text)
	_ = d.file.Close() // what it could tell, the sync has told
	switch left := d.remove(d.file.Name()); {
	case left == nil || errors.Is(left, fs.ErrNotExist):
		return err
	case err == nil:
		return fmt.Errorf("%w: delete it, for it may hold keys", left)
	default:
		return fmt.Errorf("%w; and %w: delete it, for it may hold keys", err, left)
	}
}
