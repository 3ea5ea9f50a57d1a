//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package keyset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

const withoutWaiting = 0

// ownerOf reports that modes and owners do not tell who may write a file.
func ownerOf(fs.FileInfo) (owner, bool) { return owner{}, false }

// tryLock fails, so that nothing is ever written.
func tryLock(path string) (*os.File, error) {
	return nil, fmt.Errorf("writing a keyset needs the lock %s, and there is no flock on %s: write it on Linux, macOS or BSD, or keep it in another store: %w", path, runtime.GOOS, errors.ErrUnsupported)
}

func syncFolder(string) error { return nil }

var writeRemedies map[error]string
