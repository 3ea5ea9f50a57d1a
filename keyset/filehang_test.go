//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package keyset_test

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

// stuck makes every call of a File that comes to a step hang until the test says otherwise, as on
// a mount whose server is gone, and counts them.
func stuck(f *keyset.File, step string) (calls *atomic.Int32, mend func()) {
	calls = new(atomic.Int32)
	mended, ended := make(chan struct{}), make(chan struct{}, 100)
	f.AtStep(func(at string) {
		if at != step {
			return
		}
		calls.Add(1)
		<-mended
		ended <- struct{}{}
	})
	return calls, func() {
		close(mended)
		for range calls.Load() {
			<-ended
		}
	}
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errAskedFor)
	t.Cleanup(cancel)
	return ctx
}

func checkHangs(t *testing.T, err error, path string) {
	t.Helper()
	for _, want := range []error{context.DeadlineExceeded, errAskedFor} {
		if !errors.Is(err, want) {
			t.Errorf("%v is not %v", err, want)
		}
	}
	if err == nil || !strings.Contains(err.Error(), path+": the file system does not answer; look at the disk or the mount: ") {
		t.Errorf("%v", err)
	}
}

// A file system that does not answer is left behind when time is up, once: whoever reads for
// ever does not leave a call behind each time.
func TestFileHangs(t *testing.T) { synctest.Test(t, testFileHangs) }

func testFileHangs(t *testing.T) {
	dir, _ := folder(t)
	path := filepath.Join(dir, "keyset.json")
	f := newFile(t, path)
	saves(t, f, "one")
	calls, mend := stuck(f, "read")
	for range 3 {
		doc, version, err := f.Load(soon(t))
		if doc != nil || version != "" {
			t.Errorf("%q, version %q", doc, version)
		}
		checkHangs(t, err, path)
	}
	if _, err := f.Save(soon(t), []byte("two"), ""); err == nil {
		t.Error("saved beside what hangs")
	} else {
		checkHangs(t, err, path)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls were begun", n)
	}
	mend()
	loads(t, f, "one")
}

// Where several calls were left behind at once, all of them have to end before another begins,
// whichever ends first.
func TestFileHangsForSeveral(t *testing.T) {
	for first := range 2 {
		t.Run(strconv.Itoa(first), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testHangsForSeveral(t, first) })
		})
	}
}

func testHangsForSeveral(t *testing.T, first int) {
	dir, _ := folder(t)
	path := filepath.Join(dir, "keyset.json")
	f := newFile(t, path)
	saves(t, f, "one")
	ends := []chan struct{}{make(chan struct{}), make(chan struct{})}
	var begun atomic.Int32
	f.AtStep(func(at string) {
		if at != "read" {
			return
		}
		if n := int(begun.Add(1)); n <= len(ends) {
			<-ends[n-1]
		}
	})
	failed := make(chan error, len(ends))
	for range ends { // each is left behind a second after the one before
		go func() {
			_, _, err := f.Load(soon(t))
			failed <- err
		}()
		time.Sleep(time.Second)
	}
	for range ends {
		checkHangs(t, <-failed, path)
	}
	close(ends[first])
	synctest.Wait()
	_, _, err := f.Load(soon(t))
	checkHangs(t, err, path)
	if n := begun.Load(); n != 2 {
		t.Errorf("%d calls were begun", n)
	}
	close(ends[1-first])
	loads(t, f, "one")
}

// A Save that was left behind replaces nothing afterwards: whoever was told that it has failed has
// decided anew.
func TestFileHangsInSave(t *testing.T) {
	for _, step := range []string{"lock", "create", "write the second half", "sync", "rename"} {
		t.Run(step, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testHangsInSave(t, step, "one") }) })
	}
	// What has its new name already is told by the next Load.
	t.Run("renamed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { testHangsInSave(t, "sync the folder", "two") })
	})
}

func testHangsInSave(t *testing.T, step, want string) {
	dir, list := folder(t)
	path := filepath.Join(dir, "keyset.json")
	f := newFile(t, path)
	saves(t, f, "one")
	version := loads(t, f, "one")
	_, mend := stuck(f, step)
	doc := []byte("two")
	_, err := f.Save(soon(t), doc, version)
	checkHangs(t, err, path)
	copy(doc, "???")
	mend()
	loads(t, f, want) // which waits for what was left behind
	if got := list(); got != ".keyset.json.lock keyset.json" {
		t.Errorf("in the folder are %s", got)
	}
}
