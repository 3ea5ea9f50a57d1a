package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed boundary.py
var boundaryPy string

// errNoPython tells that the Python SDK was not set up.
var errNoPython = errors.New("the Python SDK is left out: it is not set up here; scripts/setup does that")

// A boundary is a Python process with the SDK in it. It does what it is told while this
// process waits, so that its batches take turns with those of the floor.
type boundary struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startPython(ctx context.Context) (*boundary, error) {
	dir := os.Getenv("ECHOSEAL_PEERS")
	if dir == "" {
		dir = ".cache"
	}
	python := filepath.Join(dir, "python", "bin", "python")
	if _, err := os.Stat(python); err != nil { //nolint:gosec // G703: whoever measures says where
		return nil, errNoPython
	}
	b := &boundary{cmd: exec.CommandContext(ctx, python, "-c", boundaryPy)} //nolint:gosec // G204: the interpreter that scripts/setup installed
	b.cmd.Stderr = os.Stderr
	var err error
	if b.in, err = b.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	b.out = bufio.NewReader(out)
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	if err := b.ready(map[string]any{"tool": tool, "audience": audience, "principal": principal, "arguments": arguments}); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// close ends the process and waits for it.
func (b *boundary) close() {
	_ = b.in.Close()
	_ = b.cmd.Wait() // what it has to say was on its standard error
}

func (b *boundary) subject() subject {
	return subject{"Python SDK (mcp), its boundary", true, func(w work, _ []byte) (seal, unseal runner, err error) {
		return b.run("seal"), b.run("unseal"), b.ready(map[string]any{"state": w.state})
	}}
}

func (b *boundary) run(what string) runner {
	return func(n int) (time.Duration, error) {
		answer, err := b.ask(map[string]any{"what": what, "count": n})
		if err != nil {
			return 0, err
		}
		took, err := strconv.ParseInt(answer, 10, 64)
		return time.Duration(took), err
	}
}

func (b *boundary) ready(question map[string]any) error {
	answer, err := b.ask(question)
	if err == nil && answer != "ready" {
		return fmt.Errorf("the Python process answers %q", answer)
	}
	return err
}

func (b *boundary) ask(question map[string]any) (string, error) {
	text, err := json.Marshal(question)
	if err != nil {
		return "", err
	}
	if _, err := b.in.Write(append(text, '\n')); err != nil {
		return "", fmt.Errorf("the Python process: %w", err)
	}
	answer, err := b.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the Python process: %w", err)
	}
	return strings.TrimSpace(answer), nil
}
