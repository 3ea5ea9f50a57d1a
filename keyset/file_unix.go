//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package keyset

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// withoutWaiting opens a file at once, whatever it is.
const withoutWaiting = syscall.O_NONBLOCK

// ownerOf returns whom a file belongs to.
func ownerOf(info fs.FileInfo) (owner, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{}, false
	}
	return owner{int(stat.Uid), int(stat.Gid)}, true
}

// tryLock locks a file, which it makes if it is not there. It returns nil if somebody
// else has locked it. To close the file is to unlock it.
func tryLock(path string) (*os.File, error) {
	file, err := openLock(path)
	if file == nil {
		return nil, err
	}
	locked, err := lock(file, path)
	if !locked {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// openLock opens the lock, or makes it. It returns nil if somebody has removed it
// meanwhile.
func openLock(path string) (*os.File, error) {
	// For writing, which flock on NFS asks for.
	const flags = os.O_RDWR | syscall.O_NOFOLLOW | withoutWaiting
	file, err := os.OpenFile(path, flags|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if file, err = os.OpenFile(path, flags, 0); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return file, err
	}
	if err != nil {
		return nil, err
	}
	if err := shareLock(file, path); err != nil {
		_ = os.Remove(path)
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func lock(file *os.File, path string) (bool, error) {
	mine, err := file.Stat()
	if err != nil {
		return false, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, &fs.PathError{Op: "flock", Path: path, Err: err}
	}
	// Whoever removed the file meanwhile has let the next writer make another.
	there, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(mine, there) {
		return false, nil
	}
	return err == nil, err
}

// shareLock gives a lock that root has just made to the owner of the folder, who could
// not take it otherwise. One that was there already is left alone: whoever can write the
// folder may have put a link to any file of root's there.
func shareLock(file *os.File, path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	mine, _ := ownerOf(info)
	if keeper, _ := ownerOf(folder); keeper != mine {
		return file.Chown(keeper.user, keeper.group)
	}
	return nil
}

// syncFolder makes a new name in a folder survive a crash.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	if err := folder.Sync(); !errors.Is(err, syscall.EINVAL) { // a file system that does not do it
		return err
	}
	return nil
}

var writeRemedies = map[error]string{
	syscall.EACCES:    "let this user write the folder, and the lock file if it is there",
	syscall.EROFS:     "nothing can be written there, as in a mounted ConfigMap: change the keyset where it comes from",
	syscall.EBUSY:     "a file that is mounted by itself cannot be replaced: mount its folder",
	syscall.ELOOP:     "remove the link, which is in the place of a file of this program",
	syscall.EISDIR:    inPlaceOfFile,
	syscall.ENOTEMPTY: inPlaceOfFile,
}

const inPlaceOfFile = "move the folder away, which is in the place of a file of this program"
