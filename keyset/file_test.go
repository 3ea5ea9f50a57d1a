//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package keyset_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

func TestFile(t *testing.T) {
	dir, list := folder(t)
	path := filepath.Join(dir, "keyset.json")
	f := newFile(t, path)
	if _, _, err := f.Load(t.Context()); !errors.Is(err, keyset.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("Load: %v", err)
	}
	saves(t, f, "one")
	saves(t, f, "two")
	loads(t, newFile(t, path), "two")
	if got := list(); got != ".keyset.json.lock keyset.json" {
		t.Errorf("in the folder are %s", got)
	}
	if _, err := f.Save(t.Context(), make([]byte, keyset.MaxBytes+1), loads(t, f, "two")); !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), path) {
		t.Errorf("a document that is too large: %v", err)
	}
	loads(t, f, "two")
}

func TestFileKeepsModeAndOwner(t *testing.T) {
	dir, _ := folder(t)
	path := filepath.Join(dir, "keyset.json")
	put(t, path, "one", 0o440)
	if os.Geteuid() == 0 { // the only one who may
		if err := os.Chown(path, 1234, 5678); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	saves(t, newFile(t, path), "two")
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	was, is := before.Sys().(*syscall.Stat_t), after.Sys().(*syscall.Stat_t)
	if before.Mode() != after.Mode() || was.Uid != is.Uid || was.Gid != is.Gid {
		t.Errorf("%v of %d:%d became %v of %d:%d", before.Mode(), was.Uid, was.Gid, after.Mode(), is.Uid, is.Gid)
	}
	fresh := filepath.Join(dir, "fresh.json")
	saves(t, newFile(t, fresh), "one")
	if info, err := os.Stat(fresh); err != nil || info.Mode().Perm()&^0o644 != 0 || info.Mode().Perm()&0o600 != 0o600 {
		t.Errorf("a new file is %v, %v", info.Mode(), err)
	}
}

func TestFileModes(t *testing.T) {
	for mode, accepted := range map[fs.FileMode]bool{
		0o400: true, 0o440: true, 0o444: true, 0o600: true, 0o640: true, 0o644: true, 0o755: true,
		0o620: false, 0o660: false, 0o664: false, 0o602: false, 0o646: false, 0o666: false, 0o777: false,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			dir, _ := folder(t)
			path := filepath.Join(dir, "keyset.json")
			put(t, path, "one", mode)
			f := newFile(t, path)
			doc, version, err := f.Load(t.Context())
			if accepted {
				if err != nil || string(doc) != "one" {
					t.Errorf("%q, %v", doc, err)
				}
				return
			}
			if !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), path+" can be written by others than its owner") || !strings.Contains(err.Error(), "chmod go-w it, ") || doc != nil || version != "" {
				t.Errorf("%q, %q, %v", doc, version, err)
			}
			if _, err := f.Save(t.Context(), []byte("two"), "whatever"); !errors.Is(err, keyset.ErrConfig) {
				t.Errorf("Save: %v", err)
			}
		})
	}
}

// In a folder that anybody can write, anybody could have put the file there.
func TestFileInAFolderOfOthers(t *testing.T) {
	for _, mode := range []fs.FileMode{0o777, 0o775, 0o777 | fs.ModeSticky} {
		dir, _ := folder(t)
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "keyset.json")
		f := newFile(t, path)
		saves(t, f, "mine")
		saves(t, f, "mine again")
		loads(t, f, "mine again")
		if os.Geteuid() != 0 {
			continue // nothing can be given away; see TestIsTrusted
		}
		if err := os.Chown(path, 1234, 5678); err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Load(t.Context()); !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), "can write the folder "+dir+" (") || !strings.Contains(err.Error(), "chmod go-w the folder, ") {
			t.Errorf("%v: %v", mode, err)
		}
		safe, _ := folder(t)
		link := filepath.Join(safe, "link")
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		if _, _, err := newFile(t, link).Load(t.Context()); !errors.Is(err, keyset.ErrConfig) {
			t.Errorf("%v, through a link: %v", mode, err)
		}
		// Nor may anybody choose where a link leads.
		theirs, turned := filepath.Join(safe, "theirs"), filepath.Join(dir, "turned")
		put(t, theirs, "not mine", 0o644)
		if err := errors.Join(os.Chown(theirs, 1234, 5678), os.Symlink(theirs, turned)); err != nil {
			t.Fatal(err)
		}
		loads(t, newFile(t, theirs), "not mine")
		if _, _, err := newFile(t, turned).Load(t.Context()); !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%v, by a link: %v", mode, err)
		}
		if err := os.Chown(dir, 1234, 5678); err != nil {
			t.Fatal(err)
		}
		loads(t, f, "mine again")
	}
}

func TestFileThatIsNone(t *testing.T) {
	dir, _ := folder(t)
	fifo, socket := filepath.Join(dir, "fifo"), filepath.Join(dir, "socket")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	for _, path := range []string{fifo, socket, dir, "/dev/null", "/dev/zero"} {
		f := newFile(t, path)
		if doc, _, err := f.Load(t.Context()); doc != nil || !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), path+" is not a regular file") {
			t.Errorf("%s: %q, %v", path, doc, err)
		}
	}
	if _, err := newFile(t, fifo).Save(t.Context(), []byte("one"), ""); !errors.Is(err, keyset.ErrConfig) {
		t.Errorf("Save: %v", err)
	}
}

func TestFileSizes(t *testing.T) {
	dir, _ := folder(t)
	path := filepath.Join(dir, "keyset.json")
	f := newFile(t, path)
	put(t, path, "", 0o600)
	loads(t, f, "")
	if _, err := f.Save(t.Context(), []byte("one"), ""); !errors.Is(err, keyset.ErrConflict) {
		t.Errorf("an empty file is none: %v", err)
	}
	whole := strings.Repeat("x", keyset.MaxBytes)
	put(t, path, whole, 0o600)
	loads(t, f, whole)
	put(t, path, whole+"x", 0o600)
	if doc, _, err := f.Load(t.Context()); doc != nil || !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), path) {
		t.Errorf("%d bytes, %v", len(doc), err)
	}
	if err := os.Truncate(path, 1<<40); err != nil { // no more is read than has to be
		t.Fatal(err)
	}
	if doc, _, err := f.Load(t.Context()); doc != nil || !errors.Is(err, keyset.ErrConfig) {
		t.Errorf("%d bytes, %v", len(doc), err)
	}
}

func TestFileBehindALink(t *testing.T) {
	dir, list := folder(t)
	other, listOther := folder(t)
	path, link, end := filepath.Join(dir, "keyset.json"), filepath.Join(dir, "link"), filepath.Join(other, "real.json")
	for from, to := range map[string]string{path: "link", link: end} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	f := newFile(t, path)
	if _, _, err := f.Load(t.Context()); !errors.Is(err, keyset.ErrNotExist) {
		t.Errorf("Load: %v", err)
	}
	if _, err := f.Save(t.Context(), []byte("one"), ""); !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), path) {
		t.Errorf("Save: %v", err)
	}
	put(t, end, "one", 0o644)
	saves(t, f, "two")
	loads(t, newFile(t, end), "two")
	if here, there := list(), listOther(); here != "keyset.json link" || there != ".real.json.lock real.json" {
		t.Errorf("here are %s, and there %s", here, there)
	}
	for _, link := range []string{path, link} {
		if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
			t.Errorf("the link %s is gone: %v, %v", link, info.Mode(), err)
		}
	}
}

// A lock that is waited for ends with the context; another writer's work is not lost
// while it waits, nor where a link is turned.
func TestFileLock(t *testing.T) {
	dir, list := folder(t)
	path := filepath.Join(dir, "keyset.json")
	first, second := newFile(t, path), newFile(t, path)
	saves(t, first, "one")
	version := loads(t, first, "one")
	first.AtStep(func(step string) {
		if step != "rename" {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := second.Save(ctx, []byte("two by the other"), version)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), filepath.Join(dir, ".keyset.json.lock")) ||
			!strings.Contains(err.Error(), "find it with fuser or lslocks and end it, which frees the lock") {
			t.Errorf("Save beside another: %v", err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := second.Save(cancelled, []byte("two by the other"), version); !errors.Is(err, context.Canceled) {
			t.Errorf("Save when cancelled: %v", err)
		}
		loads(t, second, "one")
	})
	if _, err := first.Save(t.Context(), []byte("two"), version); err != nil {
		t.Errorf("Save: %v", err)
	}
	if _, err := second.Save(t.Context(), []byte("two by the other"), version); !errors.Is(err, keyset.ErrConflict) || !strings.Contains(err.Error(), second.String()) {
		t.Errorf("Save of what another has replaced: %v", err)
	}
	loads(t, second, "two")
	if got := list(); got != ".keyset.json.lock keyset.json" {
		t.Errorf("in the folder are %s", got)
	}
}

func TestFileLockIsRemoved(t *testing.T) {
	dir, _ := folder(t)
	path := filepath.Join(dir, "keyset.json")
	f := newFile(t, path)
	saves(t, f, "one")
	if err := os.Remove(filepath.Join(dir, ".keyset.json.lock")); err != nil {
		t.Fatal(err)
	}
	saves(t, f, "two")
	loads(t, f, "two")
}

// Who removes the lock of a writer lets another one begin. The first one does not give what
// the other has written until then the name of the keyset, and leaves it to the other.
func TestFileLockIsRemovedFromAWriter(t *testing.T) {
	dir, list := folder(t)
	path := filepath.Join(dir, "keyset.json")
	first, second := newFile(t, path), newFile(t, path)
	saves(t, first, "old")
	version := loads(t, first, "old")
	half, finish, done := make(chan struct{}), make(chan struct{}), make(chan error)
	second.AtStep(func(step string) {
		if step == "write the second half" {
			close(half)
			<-finish
		}
	})
	first.AtStep(func(step string) {
		if step != "rename" {
			return
		}
		if err := os.Remove(filepath.Join(dir, ".keyset.json.lock")); err != nil {
			t.Error(err)
		}
		go func() {
			_, err := second.Save(t.Context(), []byte("of the second"), version)
			done <- err
		}()
		<-half
	})
	if _, err := first.Save(t.Context(), []byte("of the first"), version); err == nil || !strings.Contains(err.Error(), "another writer has begun beside this one") {
		t.Errorf("Save: %v", err)
	}
	loads(t, first, "old")
	close(finish)
	if err := <-done; err != nil {
		t.Errorf("the second one: %v", err)
	}
	loads(t, first, "of the second")
	if got := list(); got != ".keyset.json.lock keyset.json" {
		t.Errorf("in the folder are %s", got)
	}
}

// What is in the place of the files beside the keyset is neither followed nor kept.
func TestFileTraps(t *testing.T) {
	dir, _ := folder(t)
	path, victim := filepath.Join(dir, "keyset.json"), filepath.Join(dir, "victim")
	put(t, victim, "precious", 0o600)
	lock, fresh := filepath.Join(dir, ".keyset.json.lock"), filepath.Join(dir, ".keyset.json.new")
	f := newFile(t, path)
	if err := os.Symlink(victim, fresh); err != nil {
		t.Fatal(err)
	}
	saves(t, f, "one")
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, lock); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Save(t.Context(), []byte("two"), loads(t, f, "one")); err == nil || !strings.Contains(err.Error(), "remove the link") {
		t.Errorf("Save: %v", err)
	}
	for _, taken := range []string{lock, fresh} {
		if err := errors.Join(os.RemoveAll(lock), os.MkdirAll(filepath.Join(taken, "of somebody"), 0o755)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Save(t.Context(), []byte("two"), loads(t, f, "one")); err == nil || !strings.Contains(err.Error(), taken) || !strings.Contains(err.Error(), "move the folder away") {
			t.Errorf("Save beside a folder: %v", err)
		}
	}
	if got, err := os.ReadFile(victim); err != nil || string(got) != "precious" {
		t.Errorf("%q, %v", got, err)
	}
}

// The lock that root makes belongs to the owner of the folder, who is to write there, too.
// What was in its place before is not given away: it can be a link to any file of root's.
func TestFileLockOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		return // nobody else can give anything away
	}
	const keeper = 1234
	dir, _ := folder(t)
	if err := os.Chown(dir, keeper, keeper); err != nil {
		t.Fatal(err)
	}
	belongs := func(name string, want uint32) {
		t.Helper()
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; got != want {
			t.Errorf("%s belongs to user %d, want %d", name, got, want)
		}
	}
	f := newFile(t, filepath.Join(dir, "keyset.json"))
	lock := filepath.Join(dir, ".keyset.json.lock")
	saves(t, f, "one")
	belongs(lock, keeper)

	other, _ := folder(t)
	victim := filepath.Join(other, "victim")
	put(t, victim, "precious", 0o600)
	if err := errors.Join(os.Remove(lock), os.Link(victim, lock)); err != nil {
		t.Fatal(err)
	}
	saves(t, f, "two")
	belongs(victim, 0)
	if got, err := os.ReadFile(victim); err != nil || string(got) != "precious" {
		t.Errorf("%q, %v", got, err)
	}
}

// A link that leads elsewhere once the lock is there is followed anew.
func TestFileLinkTurnsBeforeTheLock(t *testing.T) {
	dir, _ := folder(t)
	path, one, two := filepath.Join(dir, "keyset.json"), filepath.Join(dir, "one"), filepath.Join(dir, "two")
	put(t, one, "one", 0o600)
	put(t, two, "two", 0o600)
	turn := func(to string) {
		if err := errors.Join(os.Symlink(to, path+"~"), os.Rename(path+"~", path)); err != nil {
			t.Fatal(err)
		}
	}
	turn(one)
	f := newFile(t, path)
	version := loads(t, newFile(t, two), "two")
	turned := false
	f.AtStep(func(step string) {
		if step == "lock" && !turned {
			turned = true
			turn(two)
		}
	})
	if _, err := f.Save(t.Context(), []byte("three"), version); err != nil {
		t.Errorf("Save: %v", err)
	}
	loads(t, newFile(t, one), "one")
	loads(t, newFile(t, two), "three")
}

func TestFileErrors(t *testing.T) {
	dir, list := folder(t)
	nowhere := filepath.Join(dir, "missing", "keyset.json")
	if _, _, err := newFile(t, nowhere).Load(t.Context()); !errors.Is(err, keyset.ErrNotExist) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load: %v", err)
	}
	if _, err := newFile(t, nowhere).Save(t.Context(), []byte("one"), ""); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "make the folder") {
		t.Errorf("Save: %v", err)
	}
	put(t, filepath.Join(dir, "file"), "one", 0o600)
	below := newFile(t, filepath.Join(dir, "file", "keyset.json"))
	if _, _, err := below.Load(t.Context()); err == nil || errors.Is(err, keyset.ErrNotExist) {
		t.Errorf("Load below a file: %v", err)
	}

	// A step that fails leaves the old document, and nothing beside it.
	f := newFile(t, filepath.Join(dir, "file"))
	f.AtStep(func(step string) {
		if step == "rename" {
			if err := os.Remove(filepath.Join(dir, ".file.new")); err != nil {
				t.Error(err)
			}
		}
	})
	if _, err := f.Save(t.Context(), []byte("two"), loads(t, f, "one")); err == nil {
		t.Error("saved, without a new file")
	}
	loads(t, f, "one")
	if got := list(); got != ".file.lock file" {
		t.Errorf("in the folder are %s", got)
	}

	// Where the folder cannot be written to the disk the new document is there already.
	moved := filepath.Join(t.TempDir(), "moved")
	f = newFile(t, filepath.Join(dir, "file"))
	f.AtStep(func(step string) {
		if step == "sync the folder" {
			if err := os.Rename(dir, moved); err != nil {
				t.Error(err)
			}
		}
	})
	if _, err := f.Save(t.Context(), []byte("two"), loads(t, f, "one")); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, keyset.ErrNotExist) {
		t.Errorf("Save: %v", err)
	}
	loads(t, newFile(t, filepath.Join(moved, "file")), "two")
}

// What a user may not do is told with what to do about it, and changes nothing.
func TestFileWithoutPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		runAsNobody(t) // root may everything
		return
	}
	dir, list := folder(t)
	path, fresh := filepath.Join(dir, "keyset.json"), filepath.Join(dir, "fresh.json")
	f := newFile(t, path)
	saves(t, f, "one")
	version := loads(t, f, "one")
	chmod := func(name string, mode fs.FileMode) {
		t.Helper()
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	defer chmod(dir, 0o755) // so that it can be removed
	chmod(dir, 0o555)
	for _, f := range []*keyset.File{f, newFile(t, fresh)} {
		if _, err := f.Save(t.Context(), []byte("two"), version); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "let this user write the folder") {
			t.Errorf("Save in a folder that cannot be written: %v", err)
		}
	}
	loads(t, f, "one")
	chmod(dir, 0o755)
	chmod(filepath.Join(dir, ".keyset.json.lock"), 0)
	if _, err := f.Save(t.Context(), []byte("two"), version); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), ".keyset.json.lock") || !strings.Contains(err.Error(), "the lock file") {
		t.Errorf("Save with a lock of somebody else: %v", err)
	}
	loads(t, f, "one")
	if got := list(); got != ".keyset.json.lock keyset.json" {
		t.Errorf("in the folder are %s", got)
	}
	chmod(path, 0o200)
	if _, _, err := f.Load(t.Context()); !errors.Is(err, fs.ErrPermission) || errors.Is(err, keyset.ErrNotExist) || !strings.Contains(err.Error(), "let this user read the file") {
		t.Errorf("Load of a file that cannot be read: %v", err)
	}
	chmod(dir, 0)
	if _, _, err := f.Load(t.Context()); !errors.Is(err, fs.ErrPermission) || errors.Is(err, keyset.ErrNotExist) {
		t.Errorf("Load in a folder that cannot be searched: %v", err)
	}
}

// runAsNobody runs a test in another process, as a user who may do little.
func runAsNobody(t *testing.T) {
	t.Helper()
	program := os.Args[0]
	if runtime.GOOS == "linux" {
		program = "/proc/self/exe" // which stands in a folder that nobody else can search
	}
	if err := os.Chmod(program, 0o755); err != nil { // whatever the umask was when it was built
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "TMPDIR=/tmp")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

func TestNewFile(t *testing.T) {
	for _, path := range []string{"", ".", "..", "/", "a/", "a/..", "a\x00b"} {
		if f, err := keyset.NewFile(path); f != nil || !errors.Is(err, keyset.ErrConfig) {
			t.Errorf("%q: %v, %v", path, f, err)
		}
	}
	if _, err := keyset.NewFile(""); !strings.Contains(fmt.Sprint(err), "is empty: set it") {
		t.Error(err)
	}
	dir, _ := folder(t)
	t.Chdir(dir)
	f := newFile(t, "a b%.json")
	t.Chdir("/")
	saves(t, f, "one")
	loads(t, newFile(t, filepath.Join(dir, "a b%.json")), "one")
	if got, want := f.String(), "file://"+dir+"/a%20b%25.json"; got != want {
		t.Errorf("it is called %s, want %s", got, want)
	}
	again, err := keyset.SourceOpeners{keyset.FileOpener()}.Open(t.Context(), f.String())
	if err != nil {
		t.Fatal(err)
	}
	loads(t, again.(keyset.Store), "one")
}

// Nobody else gets at what a store returns.
func TestFileReturnsCopies(t *testing.T) {
	dir, _ := folder(t)
	f := newFile(t, filepath.Join(dir, "keyset.json"))
	saves(t, f, "one")
	doc, _, err := f.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	clear(doc)
	loads(t, f, "one")
	if bytes.Equal(doc, []byte("one")) || fmt.Sprint(f) != f.String() {
		t.Error(f)
	}
}
