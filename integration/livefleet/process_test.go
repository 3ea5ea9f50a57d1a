package livefleet

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/echoseal/echoseal/integration/peers"
)

// configVariable holds the configuration of a process, in JSON.
const configVariable = "LIVEFLEET_CONFIG"

// A process is this test binary in another role. It ends with its test, also when that is
// killed: its standard input ends then.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	log   *peers.Log // of standard error
	ended chan struct{}
	once  sync.Once
}

// start starts a process. line is called with each line that it writes to standard
// output.
func start(t *testing.T, role string, config any, line func([]byte), args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(self, args...), log: new(peers.Log), ended: make(chan struct{})}
	// Nothing of the environment of whoever runs the tests counts.
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "USER=operator", roleVariable + "=" + role, configVariable + "=" + string(text)}
	p.cmd.Stderr = p.log
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		lines := bufio.NewReader(stdout)
		for {
			text, err := lines.ReadBytes('\n')
			if text = bytes.TrimSuffix(text, []byte("\n")); len(text) > 0 {
				line(text)
			}
			if err != nil {
				break
			}
		}
		_ = p.cmd.Wait() // ProcessState tells
	}()
	t.Cleanup(p.kill)
	return p
}

func (p *process) signal(s syscall.Signal) {
	_ = p.cmd.Process.Signal(s) // it may have ended
}

// kill kills the process, and returns when it is no more.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
	p.once.Do(func() { _ = p.stdin.Close() })
}

// stop ends the process in an orderly way, and returns when it is no more.
func (p *process) stop() int {
	p.once.Do(func() { _ = p.stdin.Close() })
	return p.code()
}

// code waits for the end and returns the exit code, -1 after a signal.
func (p *process) code() int {
	<-p.ended
	return p.cmd.ProcessState.ExitCode()
}

// pause stops the process, as a machine that is out of memory does, until the function
// that is returned is called. If the test is killed, the process goes on and finds out.
func (p *process) pause(t *testing.T) (resume func()) {
	t.Helper()
	paused := make(chan struct{}, 1)
	pauser := start(t, pauseRole, nil, func([]byte) { paused <- struct{}{} }, strconv.Itoa(p.cmd.Process.Pid))
	select {
	case <-paused:
	case <-pauser.ended:
		t.Fatalf("pausing a process: %s", pauser.log)
	}
	return func() {
		if code := pauser.stop(); code != 0 {
			t.Errorf("resuming a process: %s", pauser.log)
		}
	}
}

// runPause stops the process that its argument names for as long as its standard input is
// open.
func runPause() int {
	pid, err := strconv.Atoi(os.Args[1])
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGSTOP)
	}
	if err == nil {
		_, _ = os.Stdout.WriteString("paused\n")
		_, _ = io.Copy(io.Discard, os.Stdin)
		err = syscall.Kill(pid, syscall.SIGCONT)
	}
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		_, _ = os.Stderr.WriteString(err.Error())
		return 1
	}
	return 0
}

// readConfig reads the configuration of this process.
func readConfig(config any) error {
	return json.Unmarshal([]byte(os.Getenv(configVariable)), config)
}
