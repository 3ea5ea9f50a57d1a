// Package peers finds and runs the programs that the tests need beside Go. make test
// installs them in pinned versions (the folders python and node beside this file) and
// names where in the environment variable ECHOSEAL_PEERS; without it the tests skip.
package peers

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Dir returns the folder of the peers, or skips the test.
func Dir(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv("ECHOSEAL_PEERS")
	if dir == "" {
		tb.Skip("needs the peers that make test installs; run: make test")
	}
	return dir
}

// Python returns a command that runs a script under the peers' CPython. It ends when
// ctx does.
func Python(ctx context.Context, tb testing.TB, script string, args ...string) *exec.Cmd {
	tb.Helper()
	python := filepath.Join(Dir(tb), "python", "bin", "python")
	return command(ctx, python, append([]string{"-u", script}, args...)...)
}

// Program returns the path of a program that one of the Python packages ships.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	path := filepath.Join(Dir(tb), "python", "bin", name)
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("there is no %s in %s; run: make test", name, Dir(tb))
	}
	return path
}

// Node returns a command that runs a script under the peers' Node. It finds their
// packages by
//
//	createRequire(process.env.ECHOSEAL_PEERS + "/node/")
//
// It ends when ctx does.
func Node(ctx context.Context, tb testing.TB, script string, args ...string) *exec.Cmd {
	tb.Helper()
	node := filepath.Join(Dir(tb), "node", "node_modules", ".bin", "node")
	return command(ctx, node, append([]string{script}, args...)...)
}

// Conformance returns a command that runs the official MCP conformance suite. It ends
// when ctx does.
func Conformance(ctx context.Context, tb testing.TB, args ...string) *exec.Cmd {
	tb.Helper()
	suite := filepath.Join(Dir(tb), "node", "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")
	return Node(ctx, tb, suite, args...)
}

func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = 5 * time.Second // for pipes that a child of the program holds open
	return cmd
}

// Start starts a peer that runs until the test ends, and shows what it wrote to
// standard error if the test fails.
func Start(tb testing.TB, cmd *exec.Cmd) *Log {
	tb.Helper()
	log := &Log{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		tb.Fatalf("starting a peer: %v; is %s complete?", err, Dir(tb))
	}
	tb.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			tb.Errorf("ending a peer: %v", err)
		}
		_ = cmd.Wait() // it was killed, and says so
		if tb.Failed() {
			tb.Logf("log of %s:\n%s", filepath.Base(cmd.Path), log)
		}
	})
	return log
}

// A Log keeps what a peer writes. It is safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	more chan struct{} // closed at the next write; nil if nobody waits
}

// Write appends to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
	return l.buf.Write(p)
}

// String returns what the log holds so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Len returns how long the log is, for [Log.Await].
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Len()
}

// Await waits for a text behind an offset of the log, and reports whether it came
// before ctx ended: a peer may answer before its log has come through the pipe.
func (l *Log) Await(ctx context.Context, offset int, text string) bool {
	for {
		l.mu.Lock()
		if bytes.Contains(l.buf.Bytes()[offset:], []byte(text)) {
			l.mu.Unlock()
			return true
		}
		if l.more == nil {
			l.more = make(chan struct{})
		}
		more := l.more
		l.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return false
		}
	}
}
