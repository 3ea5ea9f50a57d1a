// Package livefleet rotates the keys of fleets that run. Each has at least six servers,
// processes of their own that follow one keyset, behind a balancer, and clients that call
// all the time, some of which hold their token almost as long as it lives. Meanwhile
// keytool, a process of its own as well, replaces the key, and everything goes wrong that
// can: processes are killed, paused, restarted, added; the store and the key service are
// lost for a while. No round whose token is still alive may be refused.
//
// This test binary is also the servers and keytool.
package livefleet

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

// roleVariable says what this process is: one of the roles, or if it is not set the
// tests.
const roleVariable = "LIVEFLEET_ROLE"

const (
	serverRole  = "server"
	keytoolRole = "keytool"
	pauseRole   = "pause"
)

// longVariable says how long each fleet lives, such as 10m; make test-fleet sets it. In
// that time everything happens to it, again and again. If it is not set, a choice of it
// happens once.
const longVariable = "ECHOSEAL_FLEET_TIME"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
	case serverRole:
		os.Exit(serve())
	case keytoolRole:
		os.Exit(runKeytool())
	case pauseRole:
		os.Exit(runPause())
	default:
		fmt.Fprintln(os.Stderr, "there is no role", role)
		os.Exit(2)
	}
	code := m.Run()
	var status syscall.WaitStatus
	if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		fmt.Fprintln(os.Stderr, "a process is left behind:", pid, err)
		code = 1
	}
	if totals.rounds.Load() > 0 {
		fmt.Printf("%d rounds finished; valid rounds refused: %d\n", totals.rounds.Load(), totals.refused.Load())
	}
	os.Exit(code)
}

// lifetime returns how long each fleet lives; 0 if things happen to it once.
func lifetime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(longVariable)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", longVariable, err)
	}
	return d
}

// endWithParent calls end when standard input is closed: by the test, or because the test
// is no more.
func endWithParent(end func()) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
}
