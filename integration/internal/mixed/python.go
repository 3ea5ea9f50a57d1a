package mixed

import (
	"bufio"
	"context"
	_ "embed" // the server
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/integration/peers"
)

//go:embed server.py
var serverPy []byte

// A Python is a server of the Python SDK, a process of its own. It ends with its test, also
// when that is killed.
type Python struct {
	URL string
	Log *peers.Log

	stdin io.Closer
	cmd   *exec.Cmd
}

// StartPython starts server.py.
func StartPython(tb testing.TB, name string, c Config) *Python {
	tb.Helper()
	text, err := json.Marshal(struct {
		Name string `json:"name"`
		Config
	}{name, c})
	if err != nil {
		tb.Fatal(err)
	}
	script := filepath.Join(tb.TempDir(), "server.py")
	if err := os.WriteFile(script, serverPy, 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := peers.Python(context.WithoutCancel(tb.Context()), tb, script)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	log := peers.Start(tb, cmd)
	if _, err := stdin.Write(append(text, '\n')); err != nil {
		tb.Fatalf("configuring the Python server: %v\n%s", err, log)
	}
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		tb.Fatalf("the Python server did not start: %v\n%s", err, log)
	}
	return &Python{strings.TrimSpace(url), log, stdin, cmd}
}

// Stop ends the server in an orderly way, and waits until it has.
func (p *Python) Stop() error {
	if err := p.stdin.Close(); err != nil {
		return err
	}
	return p.cmd.Wait()
}
