//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package keyset_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/keysettest"
)

func TestFileKit(t *testing.T) {
	dir, list := folder(t)
	keysettest.Store(t, keysettest.StoreHarness{
		New: func(_ testing.TB, place string) keyset.Store { return newFile(t, filepath.Join(dir, place)) },
		Kill: func(t testing.TB, place string, doc []byte, version string, step int) bool {
			return killWriter(t, filepath.Join(dir, place), doc, version, step)
		},
		Without: map[string]string{
			"silence": "a call of the file system does not end with a context",
			"restart": "there is no server",
		},
	})
	if left := list(); strings.Contains(left, ".new") {
		t.Errorf("what dead writers left is still there: %s", left)
	}
}

// Variables for a writer that is a process of its own.
const (
	envPath    = "KEYSET_TEST_PATH"
	envVersion = "KEYSET_TEST_VERSION"
	envStep    = "KEYSET_TEST_STEP"
	envFull    = "KEYSET_TEST_FULL" // not empty: there is no more than room
)

// room is how many bytes a file of a writer can have.
const room = 10_000

// killWriter runs a writer that is killed by SIGKILL when it comes to a step.
func killWriter(t testing.TB, path string, doc []byte, version string, step int) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestFileWriter$")
	cmd.Env = append(os.Environ(), envPath+"="+path, envVersion+"="+version, envStep+"="+strconv.Itoa(step))
	cmd.Stdin = bytes.NewReader(doc)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the writer: %v\n%s", err, out)
	}
	return true
}

// A disk that is full in the middle of a document leaves the old one, and nothing beside
// it. The limit of a process does what a full disk does: it ends a write half-way.
func TestFileWithoutRoom(t *testing.T) {
	dir, list := folder(t)
	path := filepath.Join(dir, "keyset.json")
	f := newFile(t, path)
	saves(t, f, "old")
	for _, size := range []int{room + 1, 2*room - 1, 3 * room} { // the last one ends in the first half
		cmd := exec.Command(os.Args[0], "-test.run=^TestFileWriter$")
		cmd.Env = append(os.Environ(), envPath+"="+path, envVersion+"="+loads(t, f, "old"), envStep+"=-1", envFull+"=yes")
		cmd.Stdin = strings.NewReader(strings.Repeat("x", size))
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), syscall.EFBIG.Error()) {
			t.Errorf("a writer of %d bytes: %v\n%s", size, err, out)
		}
		loads(t, f, "old")
		if got := list(); got != ".keyset.json.lock keyset.json" {
			t.Errorf("in the folder are %s", got)
		}
	}
	saves(t, f, "new")
}

// TestFileWriter is the writer that killWriter and TestFileWithoutRoom run.
func TestFileWriter(t *testing.T) {
	path := os.Getenv(envPath)
	if path == "" {
		return // another process has a test for it: TestFileKit
	}
	last, err := strconv.Atoi(os.Getenv(envStep))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := io.ReadAll(os.Stdin)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(envFull) != "" {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: room, Max: room}); err != nil {
			t.Fatal(err)
		}
	}
	f := newFile(t, path)
	step := 0
	f.AtStep(func(string) {
		if step == last {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // it takes a moment
		}
		step++
	})
	if _, err := f.Save(t.Context(), doc, os.Getenv(envVersion)); err != nil {
		t.Fatal(err)
	}
}
