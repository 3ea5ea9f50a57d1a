package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/echoseal/echoseal/keyset"
)

// terminal returns the two ends of a pseudo-terminal.
func terminal(t *testing.T) (person, process *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = person.Close() })
	var number, lock int32
	for request, value := range map[uintptr]*int32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &lock} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, person.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	process, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Close() })
	return person, process
}

// A late person answers a question once the time of --timeout is over.
type late struct {
	io.Writer // where the question goes

	hand  io.Writer
	begun context.Context //nolint:containedctx // of the command that asks, which it ends with
	asked int
}

func (l *late) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte("[y/N]")) {
		l.asked++
		<-l.begun.Done()
		if _, err := io.WriteString(l.hand, "y\n"); err != nil {
			return 0, err
		}
	}
	return l.Writer.Write(text)
}

// However long people take to answer, the command has all of --timeout for what comes then.
func TestLateAnswer(t *testing.T) {
	for _, test := range []struct {
		name, before, line string
		behind             time.Duration // of the clock that the command has
	}{
		{name: "rewrap --drop", before: "rewrap --add OTHER", line: "rewrap --drop OTHER --force --reason test"},
		{name: "policy", line: "policy --max-age 2160h --force --reason test"},
		{name: "policy, by a clock that is behind", line: "policy --ttl 20m --force --reason test", behind: time.Hour},
		{name: "init --replace", line: "init --replace --reason test"},
		{name: "peer forget", before: "export --peer python-a --ttl 10m --out OUT", line: "peer forget python-a --reason test"},
		{name: "abort", before: "rotate --replace PRIMARY", line: "abort --force --reason test", behind: time.Hour},
		{name: "export", line: "export --peer python-a --ttl 10m --out OUT --force --reason test", behind: time.Hour},
		{name: "revoke", line: "revoke --all --reason test --no-wait"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "keyset.json")
			env := map[string]string{"ECHOSEAL_STORE": path, "ECHOSEAL_NAME": "fleet", "ECHOSEAL_KEY_SERVICES": "localkek://" + filepath.Join(dir, "kek.key")}
			person, process := terminal(t)
			var out bytes.Buffer
			answers := &late{Writer: &out, hand: person}
			store := func(ctx context.Context, uri string) (keyset.Source, error) {
				answers.begun = ctx
				return keyset.SourceOpeners{keyset.FileOpener()}.Open(ctx, uri)
			}
			s := System{
				Stdin: process, Stdout: &out, Stderr: answers, Getenv: func(name string) string { return env[name] },
				Stores: keyset.SourceOpeners{keyset.NewSourceOpener(store, "file")},
			}
			run := func(line string) {
				t.Helper()
				words := strings.NewReplacer("OTHER", "localkek://"+filepath.Join(dir, "other.key"), "OUT", filepath.Join(dir, "out.json"))
				if _, err := os.Stat(path); err == nil {
					line = strings.ReplaceAll(line, "PRIMARY", keysetIn(t, path).Primary().KID)
				}
				if code := Exit(Run(t.Context(), s, strings.Fields(words.Replace(line))...)); code != done {
					t.Fatalf("%s: %d\n%s", line, code, out.String())
				}
			}
			for _, line := range []string{"kek new " + filepath.Join(dir, "kek.key"), "kek new " + filepath.Join(dir, "other.key"), "init --proof settle", test.before} {
				if line != "" {
					run(line)
				}
			}
			s.Now = func() time.Time { return time.Now().Add(-test.behind) }
			run(test.line + " --timeout 2s")
			if answers.asked == 0 {
				t.Error("nothing was asked")
			}
		})
	}
}
