//go:build unix

package keyset_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
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
)

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

// TestFileWriter is the writer that killWriter runs.
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
