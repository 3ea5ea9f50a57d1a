package moto_test

import (
	"context"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/echoseal/echoseal/integration/peers"
)

var listening = regexp.MustCompile(`Running on (http://127\.0\.0\.1:\d+)`)

// startMoto starts a moto_server on a free port that ends with the test, and returns
// its URL. Without the peers the test skips.
func startMoto(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), peers.Program(t, "moto_server"), "-H", "127.0.0.1", "-p", "0")
	cmd.WaitDelay = 5 * time.Second
	log := peers.Start(t, cmd)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// The line ends with what tells how to stop it.
	if !log.Await(ctx, 0, "CTRL+C") {
		t.Fatal("moto does not listen")
	}
	url := listening.FindStringSubmatch(log.String())
	if url == nil {
		t.Fatalf("moto does not say where it listens: %s", log)
	}
	return url[1]
}
