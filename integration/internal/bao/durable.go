package bao

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/echoseal/echoseal/integration/internal/loopback"
	"github.com/echoseal/echoseal/integration/peers"
)

// A Durable is an OpenBao as it runs in production: it keeps its data on disk, so that it
// can be stopped and started again, and it can be sealed. It ends with its test, also when
// that is killed.
type Durable struct {
	Server

	program, config string
	unsealKey       string

	log   buffer
	cmd   *exec.Cmd
	stdin io.Closer // the server is killed when it is closed
}

// StartDurable starts a server and unseals it.
func StartDurable(tb testing.TB) *Durable {
	tb.Helper()
	folder := tb.TempDir()
	ports := [2]string{loopback.Free(tb), loopback.Free(tb)}
	s := &Durable{
		Server: Server{Address: "http://" + ports[0], client: &http.Client{
			Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
		}},
		program: peers.Program(tb, "bao"),
		config:  filepath.Join(folder, "bao.hcl"),
	}
	config := fmt.Sprintf(`
		storage "raft" {
			path                   = %q
			node_id                = "one"
			performance_multiplier = 1
		}
		listener "tcp" {
			address         = %q
			cluster_address = %q
			tls_disable     = true
		}
		api_addr     = %q
		cluster_addr = %q
	`, folder, ports[0], ports[1], s.Address, "https://"+ports[1])
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		s.Stop(tb)
		if tb.Failed() {
			tb.Logf("log of OpenBao:\n%s", s.log.String())
		}
	})
	s.launch(tb)
	_, answer, err := s.Call(tb.Context(), http.MethodPut, "sys/init", map[string]any{"secret_shares": 1, "secret_threshold": 1})
	keys, _ := answer["keys"].([]any)
	token, _ := answer["root_token"].(string)
	if err != nil || len(keys) != 1 || token == "" {
		tb.Fatalf("initializing OpenBao: %v, %v", answer["errors"], err)
	}
	s.unsealKey, _ = keys[0].(string)
	s.Token = token
	s.Unseal(tb)
	return s
}

// launch starts the process and waits until it answers.
func (s *Durable) launch(tb testing.TB) {
	tb.Helper()
	// The shell kills the server when this process has closed the pipe, or is no more.
	s.cmd = exec.Command("/bin/sh", "-c", `"$0" server -config="$1" </dev/null & cat >/dev/null; kill -9 $!; wait`, s.program, s.config)
	s.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(s.config)}
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	stdin, err := s.cmd.StdinPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	s.stdin = stdin
	s.await(tb, "sys/init")
}

// await waits until a path can be read.
func (s *Durable) await(tb testing.TB, path string) {
	tb.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(25 * time.Millisecond) {
		status, _, err := s.Call(tb.Context(), http.MethodGet, path, nil)
		if err == nil && status == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("OpenBao does not answer: status %d, %v\n%s", status, err, s.log.String())
		}
	}
}

// Stop kills the server.
func (s *Durable) Stop(tb testing.TB) {
	tb.Helper()
	if s.stdin == nil {
		return
	}
	if err := s.stdin.Close(); err != nil {
		tb.Error(err)
	}
	_ = s.cmd.Wait() // its status is that of who was killed
	s.stdin = nil
}

// Start starts the server again after [Durable.Stop], and unseals it.
func (s *Durable) Start(tb testing.TB) {
	tb.Helper()
	s.launch(tb)
	s.Unseal(tb)
}

// Seal seals the server.
func (s *Durable) Seal(tb testing.TB) {
	tb.Helper()
	s.Do(tb, http.MethodPut, "sys/seal", map[string]any{})
}

// Unseal unseals the server.
func (s *Durable) Unseal(tb testing.TB) {
	tb.Helper()
	s.Do(tb, http.MethodPut, "sys/unseal", map[string]any{"key": s.unsealKey})
	s.await(tb, "sys/health") // not before it is the active node
	s.await(tb, "auth/token/lookup-self")
}
