package moto_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

var listening = regexp.MustCompile(`Running on (http://127\.0\.0\.1:\d+)`)

// startMoto starts a moto_server on a free port that ends with the test, and returns
// its URL. Without the peers the test skips.
func startMoto(t *testing.T) string {
	t.Helper()
	peers := os.Getenv("ECHOSEAL_PEERS")
	if peers == "" {
		t.Skip("needs the peers that make test installs; run: make test")
	}
	program := filepath.Join(peers, "python", "bin", "moto_server")
	if _, err := os.Stat(program); err != nil {
		program = filepath.Join(peers, "venv", "bin", "moto_server")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "-H", "127.0.0.1", "-p", "0")
	cmd.WaitDelay = 5 * time.Second
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		t.Fatalf("starting moto: %v; is %s complete?", err, peers)
	}
	found, ended := make(chan string, 1), make(chan struct{})
	go func() { // reads to the end, so that moto never waits for it
		defer close(ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if m := listening.FindSubmatch(lines.Bytes()); m != nil {
				found <- string(m[1])
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = cmd.Wait() // it was killed, and says so
	})
	select {
	case url := <-found:
		return url
	case <-ended:
		t.Fatal("moto ended before it listened")
	case <-time.After(60 * time.Second):
		t.Fatal("moto does not listen")
	}
	return ""
}
