package localkek

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/echoseal/echoseal/keyset"
)

// maxKeyFile is more than any key file has, in bytes.
const maxKeyFile = 4096

// NewKeyFile makes a key file with a random key, and returns the name under which the key
// will be stored: localkek://ID. Its owner alone may read and write it (mode 0600), and it
// is on the disk when NewKeyFile returns.
//
// A file that is there already is left alone: the error is then [fs.ErrExist]. After any
// other error there is no file.
func NewKeyFile(path string) (service string, err error) {
	kek := make([]byte, keySize)
	defer clear(kek)
	_, _ = rand.Read(kek) // never fails: it ends the process instead
	if err := create(path, kek); err != nil {
		return "", err
	}
	return nameOf(kek), nil
}

// create writes a new file, or none.
func create(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("localkek: %w; it is not overwritten, since what was wrapped under it would be lost: take another name", err)
	}
	if err != nil {
		return fmt.Errorf("localkek: %w", err)
	}
	_, err = f.Write(content)
	for _, next := range []func() error{f.Sync, f.Close, func() error { return syncFolder(filepath.Dir(path)) }} {
		if failed := next(); err == nil {
			err = failed
		}
	}
	if err != nil {
		_ = os.Remove(path) // it is this function's own
		return fmt.Errorf("localkek: %w", err)
	}
	return nil
}

// syncFolder makes a new name in a folder survive a crash.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // it cannot, and keeps names in order by itself
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); !errors.Is(err, syscall.EINVAL) { // a file system that does not do it
		return err
	}
	return nil
}

// read returns the content of a file that holds a secret, at most limit bytes. The remedy
// is for a file that is not there, or is another one.
func (l *location) read(path string, limit int64, remedy string) ([]byte, error) {
	// Without waiting: a FIFO has nobody at its other end, and is refused.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, l.unreadable(err, remedy)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, l.unreadable(err, remedy)
	}
	if err := l.checkMode(path, info); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = configError("%w: %s is longer than %d bytes: it is another file: move it away, and %s", keyset.Corrupt, path, limit, remedy)
		clear(content)
		return nil, err
	}
	if err != nil {
		clear(content)
		return nil, l.unreadable(err, remedy)
	}
	return content, nil
}

// unreadable returns the error for a file that cannot be read, of which the operating
// system says err.
func (l *location) unreadable(err error, remedy string) error {
	e := &keyset.KeyError{Kind: keyset.Unavailable, Key: l.uri(), Operation: opOpen, Remedy: "look at the disk or the mount", Err: err}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		e.Kind, e.Remedy = keyset.NotFound, remedy
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Remedy = keyset.Denied, "make the user of this process its owner"
	}
	return e
}

// checkMode refuses a file that others may read.
func (l *location) checkMode(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return configError("%s is not a regular file", path)
	}
	if runtime.GOOS == "windows" {
		return nil
	}
	const others, groupRead = 0o077, 0o040
	switch mode := info.Mode().Perm(); {
	case mode&others == 0, l.groupMayRead && mode&others == groupRead:
		return nil
	case mode&others == groupRead:
		return configError("%s can be read by its group (mode %#o): chmod 0400, or add allow-group-read=true to its URI if that is meant", path, mode)
	case l.groupMayRead:
		return configError("%s is open to more than the reading by its owner and group (mode %#o): chmod 0440; if others could read it, replace it", path, mode)
	default:
		return configError("%s is open to others than its owner (mode %#o): chmod 0400; if they could read it, replace it", path, mode)
	}
}

// checkKey returns an error that helps if the content of a key file is not a key.
func (l *location) checkKey(content []byte) error {
	path, n := l.path, len(content)
	text := bytes.TrimSpace(content)
	switch {
	case n == keySize && subtle.ConstantTimeCompare(content, make([]byte, keySize)) == 1:
		return l.damaged("%s holds %d zero bytes, which is no key", path, n)
	case n == keySize:
		return nil
	case n == 0:
		return l.damaged("%s is empty", path)
	case n == keySize+1 && content[keySize] == '\n':
		return configError("%s is %d bytes long, of which the last is a line end that an editor or echo has added: cut it off with head -c %d %s > NEW", path, n, keySize, quoted(path))
	case len(text) == 2*keySize && only(text, "0123456789abcdefABCDEF"):
		return configError("%s holds a key in hex, and the %d bytes themselves are needed: xxd -r -p %s > NEW", path, keySize, quoted(path))
	case (len(text) == 43 || len(text) == 44) && only(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="):
		return configError("%s holds a key in base64, and the %d bytes themselves are needed: base64 -d %s > NEW", path, keySize, quoted(path))
	}
	return l.damaged("%s is %d bytes long, and a key is %d", path, n, keySize)
}

func only(text []byte, characters string) bool {
	return len(bytes.Trim(text, characters)) == 0
}
