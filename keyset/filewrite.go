package keyset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Save writes the file. It waits for the lock as long as ctx allows, and replaces nothing once
// ctx has ended. A document larger than [MaxBytes] is refused, which is [ErrConfig] as in
// every store.
//
// If the file system does not answer, Save returns soon after ctx has ended. Whether the
// file was replaced is not known then, and is told by the next Load: that waits for
// what hangs.
func (f *File) Save(ctx context.Context, doc []byte, version string) (newVersion string, err error) {
	if len(doc) > MaxBytes {
		return "", fmt.Errorf("%w: %s: a document of %d bytes is larger than a keyset may be, which is %d", ErrConfig, f, len(doc), MaxBytes)
	}
	doc = bytes.Clone(doc) // the caller's again, if this is left behind
	if err := f.call(ctx, writing, func() error { return f.save(ctx, doc, version) }); err != nil {
		return "", err
	}
	return contentVersion(doc), nil
}

const writing = "writing"

func (f *File) save(ctx context.Context, doc []byte, version string) error {
	path, unlock, err := f.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	temporary := beside(path, ".new")
	f.at("remove what a writer left that died")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return writeError(err)
	}
	present := "" // the version
	old, info, err := f.read()
	switch {
	case err == nil:
		present = contentVersion(old)
	case !errors.Is(err, ErrNotExist):
		return err
	}
	if present != version {
		return fmt.Errorf("%s: %w", f, ErrConflict)
	}
	return writeError(f.replace(ctx, path, info, temporary, doc))
}

// inTime returns an error if nothing is to be begun any more.
func (f *File) inTime(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s %s: %w", writing, f, err)
	}
	return nil
}

// at tells a test how far a Save has got.
func (f *File) at(step string) {
	if f.step != nil {
		f.step(step)
	}
}

// lock locks the file at the end of the links, and returns its path.
func (f *File) lock(ctx context.Context) (path string, unlock func(), err error) {
	for {
		if err := f.inTime(ctx); err != nil {
			return "", nil, err
		}
		path, err = f.end()
		if err != nil {
			return "", nil, err
		}
		f.at("lock")
		unlock, err = lockFile(ctx, beside(path, ".lock"))
		if err != nil {
			return "", nil, writeError(err)
		}
		if now, err := f.end(); err == nil && now == path {
			return path, unlock, nil
		}
		unlock() // a link leads elsewhere than it did before the wait
	}
}

// end returns the path of the file that f is or leads to.
func (f *File) end() (string, error) {
	path, err := filepath.EvalSymlinks(f.path)
	if !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if to, err := os.Readlink(f.path); err == nil {
		return "", fmt.Errorf("%w: %s is a link to %s, where there is nothing: remove the link, or name the file that is to be made", ErrConfig, f.path, to)
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(f.path))
	if err != nil {
		return "", fmt.Errorf("%w; make the folder, or check the path", err)
	}
	return filepath.Join(folder, filepath.Base(f.path)), nil
}

// beside returns the path of a file that belongs to another.
func beside(path, suffix string) string {
	folder, name := filepath.Split(path)
	return folder + "." + name + suffix
}

// lockFile waits for the lock and returns what frees it.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	const shortest, longest = time.Millisecond, 50 * time.Millisecond
	for pause := shortest; ; pause = min(2*pause, longest) {
		file, err := tryLock(path)
		if err != nil {
			return nil, err
		}
		if file != nil {
			return func() { _ = file.Close() }, nil // which is what frees it
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("another writer holds the lock %s: %w; if it does not come to an end, find it with fuser or lslocks and end it, which frees the lock", path, ctx.Err())
		case <-timer.C:
		}
	}
}

// replace replaces the file at path, of which old tells unless it is nil. What is there once
// ctx has ended stays: whoever asked for it has been told, or decides anew.
func (f *File) replace(ctx context.Context, path string, old fs.FileInfo, temporary string, doc []byte) (err error) {
	if err := f.inTime(ctx); err != nil {
		return err
	}
	f.at("create")
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a keyset is not secret, and others have to read it
	if err != nil {
		return err
	}
	// Not before the end, so that no other file looks like this one. What it could tell,
	// the sync has told.
	defer func() { _ = file.Close() }()
	mine, err := file.Stat()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && isStill(temporary, mine) { // else it was renamed
			_ = os.Remove(temporary)
		}
	}()
	for _, next := range []struct {
		step string
		do   func() error
	}{
		{"resemble", func() error { return resemble(file, old) }},
		{"write the first half", func() error { return write(file, doc[:len(doc)/2]) }},
		{"write the second half", func() error { return write(file, doc[len(doc)/2:]) }},
		{"sync", file.Sync},
		{"rename", func() error {
			if !isStill(temporary, mine) {
				return fmt.Errorf("another writer has begun beside this one: the lock %s was removed while it was held; leave it there", beside(path, ".lock"))
			}
			if err := f.inTime(ctx); err != nil {
				return err
			}
			return os.Rename(temporary, path)
		}},
		{"sync the folder", func() error { return syncFolder(filepath.Dir(path)) }},
	} {
		f.at(next.step)
		if err := next.do(); err != nil {
			return err
		}
	}
	f.at("unlock")
	return nil
}

// isStill reports whether at path is the file that it was.
func isStill(path string, was fs.FileInfo) bool {
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(was, there)
}

func write(file *os.File, part []byte) error {
	_, err := file.Write(part)
	return err
}

// resemble gives a new file the owner and the mode of the old one.
func resemble(file *os.File, old fs.FileInfo) error {
	if old == nil {
		return nil
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	mine, _ := ownerOf(info)
	if theirs, _ := ownerOf(old); theirs != mine {
		if err := file.Chown(theirs.user, theirs.group); err != nil {
			return fmt.Errorf("the file belongs to user %d and group %d, and a new one cannot be given to them: write as that user, or as root: %w", theirs.user, theirs.group, err)
		}
	}
	return file.Chmod(old.Mode().Perm()) // without the umask
}

// writeError adds to an error what to do.
func writeError(err error) error {
	for cause, remedy := range writeRemedies {
		if errors.Is(err, cause) {
			return fmt.Errorf("%w; %s", err, remedy)
		}
	}
	return err
}
