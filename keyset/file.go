package keyset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// A File is a [Store] in one file of a local file system. It is safe for concurrent use.
// [NewFile] makes one; there is nothing to close.
//
// # Reading
//
// The version is a hash of the content: what the file holds decides, not its time. It
// may be replaced by any program in any way. One that writes into it in place, as cp
// does, can be overtaken by a reader, who then gets a part of a document; the
// document's tag tells.
//
// Links are followed, as they are in a ConfigMap that Kubernetes mounts. A file that is
// mounted by itself into a container stays what it was at the start of the container,
// whatever is written outside: mount its folder.
//
// A file that others than its owner can write is refused; who may read it does not
// matter. In a folder that others than its owner can write, such as /tmp, the file has
// to belong to root, to the owner of the folder or to the user of this process. On
// Windows neither is looked at, and access is the operator's concern.
//
// # Writing
//
// A new file, named like the old one with a dot before and .new after, is written to
// the disk and given the old one's name. Mode and owner stay as they are (access control
// lists do not); a file that was not there gets mode 0644 less the umask. What a link
// leads to is replaced, not the link.
//
// A writer holds a lock (flock) on a file beside it, with .lock after the name, which
// stays there. A writer's death frees it, and the next writer removes what the dead one
// left. The lock is for writers of this package on one host: on a network file system,
// where other hosts may not know of it, let one host write. Where there is no flock, as
// on Windows, Save fails with [errors.ErrUnsupported].
type File struct {
	path string // absolute
	hang hang

	// step is called before each step of a Save, and before a Load reads, by tests that end
	// or wait there.
	step func(name string)
}

var _ Store = (*File)(nil)

// NewFile returns the store in the file with the given path, which need not be there. A
// relative path is taken from the working directory as it is now. The error is
// [ErrConfig].
func NewFile(path string) (*File, error) {
	if path == "" {
		return nil, fmt.Errorf("%w: the path of the keyset's file is empty: set it, as to /etc/echoseal/keyset.json; if it comes from an environment variable such as ECHOSEAL_STORE, that is not set", ErrConfig)
	}
	name := filepath.Base(path)
	if name == "." || name == ".." || os.IsPathSeparator(path[len(path)-1]) || strings.Contains(path, "\x00") {
		return nil, fmt.Errorf("%w: %q is not the path of a file", ErrConfig, path)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("%w: the path %q: %w", ErrConfig, path, err)
	}
	return &File{path: absolute}, nil
}

// String returns the URI of the file, file:///path.
func (f *File) String() string {
	path := filepath.ToSlash(f.path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive
	}
	return (&url.URL{Scheme: fileScheme, Path: path}).String()
}

const fileScheme = "file"

// openFile opens the file that a URI or a path names.
func openFile(_ context.Context, uri string) (*File, error) {
	if !strings.Contains(uri, "://") {
		if scheme, _, ok := strings.Cut(uri, ":"); ok && strings.EqualFold(scheme, fileScheme) {
			return nil, errFileURI
		}
		return NewFile(uri)
	}
	u, err := url.Parse(uri)
	if err != nil || u.User != nil || u.Host != "" && u.Host != "localhost" || u.RawQuery != "" || u.Fragment != "" || !strings.HasPrefix(u.Path, "/") {
		return nil, errFileURI
	}
	path := u.Path
	if runtime.GOOS == "windows" {
		path = filepath.FromSlash(strings.TrimPrefix(path, "/"))
	}
	return NewFile(path)
}

var errFileURI = fmt.Errorf("%w: a file is named by its path, or by a URI with three slashes and an absolute path, percent-encoded and without parameters: file:///path/to/keyset.json", ErrConfig)

// Load reads the file. It returns an error, and not a part of it, if it is larger than
// [MaxBytes]; the error says what to do, as it does for a file that is not accepted
// ([ErrConfig]).
//
// If the file system does not answer, as where a server of files is gone, Load returns soon
// after ctx has ended, with its error. What hangs goes on by itself, and nothing else of this
// File begins before it has ended.
func (f *File) Load(ctx context.Context) (doc []byte, version string, err error) {
	const reading = "reading"
	if err := ctx.Err(); err != nil {
		return nil, "", fmt.Errorf("%s %s: %w", reading, f, err)
	}
	var there []byte // which is not to be looked at if the call was left behind
	if err := f.call(ctx, reading, func() (err error) {
		f.at("read")
		there, _, err = f.read()
		return err
	}); err != nil {
		return nil, "", err
	}
	return there, contentVersion(there), nil
}

// read returns the content of the file.
func (f *File) read() (doc []byte, info fs.FileInfo, err error) {
	// Kubernetes removes a folder as soon as the link to it leads elsewhere: whoever
	// followed the link before looks there again.
	const looks = 10
	for range looks {
		doc, info, err = readFile(f.path)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if _, noName := os.Lstat(f.path); noName != nil {
			break
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("%w: %w", ErrNotExist, err)
	case errors.Is(err, fs.ErrPermission):
		return nil, nil, fmt.Errorf("%w; let this user read the file and search the folders above it", err)
	}
	return doc, info, err
}

func readFile(path string) ([]byte, fs.FileInfo, error) {
	// Without waiting: a FIFO may have nobody at its other end, and is refused.
	file, err := os.OpenFile(path, os.O_RDONLY|withoutWaiting, 0)
	if err != nil {
		if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() {
			return nil, nil, irregular(path) // a socket, which nobody can open
		}
		return nil, nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if err := checkAccess(path, info); err != nil {
		return nil, nil, err
	}
	doc, err := io.ReadAll(io.LimitReader(file, MaxBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if len(doc) > MaxBytes {
		return nil, nil, fmt.Errorf("%w: %s is larger than %d bytes, so that it is no keyset: name another file", ErrConfig, path, MaxBytes)
	}
	return doc, info, nil
}

func irregular(path string) error {
	return fmt.Errorf("%w: %s is not a regular file: name the file that holds the keyset", ErrConfig, path)
}

// othersMayWrite are the bits of a mode that let others than the owner write.
const othersMayWrite = 0o022

// checkAccess refuses a file that was not put there by somebody who may.
func checkAccess(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return irregular(path)
	}
	owner, ok := ownerOf(info)
	if !ok {
		return nil // modes mean nothing here
	}
	if mode := info.Mode().Perm(); mode&othersMayWrite != 0 {
		return fmt.Errorf("%w: %s can be written by others than its owner (mode %#o): chmod go-w it, and look whether it is what it was", ErrConfig, path, mode)
	}
	end, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	for _, folder := range []string{filepath.Dir(path), filepath.Dir(end)} {
		info, err := os.Stat(folder)
		if err != nil {
			return err
		}
		if keeper, _ := ownerOf(info); !isTrusted(owner, keeper, info.Mode()) {
			return fmt.Errorf("%w: %s belongs to user %d, and others than its owner can write the folder %s (mode %#o): chmod go-w the folder, or chown the file",
				ErrConfig, path, owner.user, folder, info.Mode().Perm())
		}
	}
	return nil
}

// An owner is the user and the group that a file belongs to.
type owner struct{ user, group int }

// isTrusted reports whether a file was put into its folder by the folder's keeper, this
// user or root, as far as owners tell.
func isTrusted(file, keeper owner, folder fs.FileMode) bool {
	return folder&othersMayWrite == 0 || file.user == 0 || file.user == keeper.user || file.user == os.Geteuid()
}
