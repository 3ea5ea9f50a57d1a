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
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/echoseal/echoseal/cmd/keytool/internal/testfleet"
	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/fleet"
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
		{name: "policy, loosened by a clock that is behind", line: "policy --max-age 2160h --force --reason test", behind: time.Hour},
		{name: "policy, dated anew", line: "policy --force --reason test", behind: time.Hour},
		{name: "init --replace", line: "init --replace --reason test"},
		{name: "peer forget", before: "export --peer python-a --ttl 10m --out OUT", line: "peer forget python-a --reason test"},
		{name: "abort", before: "rotate --replace PRIMARY", line: "abort --force --reason test", behind: time.Hour},
		{name: "export", line: "export --peer python-a --ttl 10m --out OUT --force --reason test", behind: time.Hour},
		{name: "revoke", line: "revoke --all --reason test --no-wait"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { lateAnswer(t, test.before, test.line, test.behind) })
		})
	}
}

func lateAnswer(t *testing.T, before, line string, behind time.Duration) {
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
	for _, line := range []string{"kek new " + filepath.Join(dir, "kek.key"), "kek new " + filepath.Join(dir, "other.key"), "init --proof settle", before} {
		if line != "" {
			run(line)
		}
	}
	s.Now = func() time.Time { return time.Now().Add(-behind) }
	run(line + " --timeout 2s")
	if answers.asked != 1 {
		t.Errorf("it asked %d times", answers.asked)
	}
}

// A oneReport is a registry in memory that has one instance.
type oneReport struct {
	id     string
	signed []byte
}

func (*oneReport) String() string { return "one://registry" }

func (r *oneReport) Collect(context.Context) ([]fleet.Answer, error) {
	return []fleet.Answer{{Address: r.id, Registered: true, Signed: r.signed}}, nil
}

func (r *oneReport) Publish(_ context.Context, _ string, signed []byte, _ time.Duration) error {
	r.signed = signed
	return nil
}

func (r *oneReport) Forget(context.Context, string) error {
	r.signed = nil
	return nil
}

// A pondering person answers a question with yes once something has happened.
type pondering struct {
	io.Writer

	hand  io.Writer
	until func()
}

func (p *pondering) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte("[y/N]")) {
		p.until()
		if _, err := io.WriteString(p.hand, "y\n"); err != nil {
			return 0, err
		}
	}
	return p.Writer.Write(text)
}

// An instance that comes back while somebody thinks about the answer is not forgotten.
func TestForgetWhoComesBack(t *testing.T) {
	for _, test := range []struct {
		name      string
		back      bool
		flags     string
		want      Exit
		forgotten bool
	}{
		{"who is dead", false, "", done, true},
		{"who is back", true, "", blocked, false},
		{"who is back, by force", true, " --force", done, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			path, kek := filepath.Join(dir, "keyset.json"), "localkek://"+filepath.Join(dir, "kek.key")
			env := map[string]string{"ECHOSEAL_STORE": path, "ECHOSEAL_NAME": "fleet", "ECHOSEAL_KEY_SERVICES": kek, "ECHOSEAL_FLEET": "one://registry"}
			now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
			clock := func() time.Time { return now }
			registry := &oneReport{}
			person, process := terminal(t)
			var out bytes.Buffer
			answers := &pondering{Writer: &out, hand: person}
			s := System{
				Stdin: process, Stdout: &out, Stderr: answers, Getenv: func(name string) string { return env[name] }, Now: clock,
				Fleets: fleet.Openers{fleet.NewOpener(func(context.Context, string) (*oneReport, error) { return registry, nil }, "one")},
			}
			run := func(want Exit, line string) {
				t.Helper()
				if code := Exit(Run(t.Context(), s, strings.Fields(line)...)); code != want {
					t.Fatalf("%s: %d, want %d\n%s", line, code, want, out.String())
				}
			}
			run(done, "kek new "+filepath.Join(dir, "kek.key"))
			delete(env, "ECHOSEAL_FLEET")
			run(done, "init")
			env["ECHOSEAL_FLEET"] = "one://registry"

			source, err := keyset.NewFile(path)
			if err != nil {
				t.Fatal(err)
			}
			services, err := keyset.Openers{localkek.Opener()}.Open(t.Context(), kek)
			if err != nil {
				t.Fatal(err)
			}
			servers := &testfleet.Fleet{Source: source, Now: clock}
			servers.Configure(services)
			server := servers.Start("a")
			reports := func() {
				signed, err := server.Signed(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				registry.id, registry.signed = server.ID(), signed
			}
			reports()
			now = now.Add(time.Hour)
			answers.until = func() {
				if test.back {
					reports()
				}
			}
			run(test.want, "fleet forget "+server.ID()+" --reason test"+test.flags)
			if test.want == blocked {
				says(t, out.String(), "it is alive, and a promotion would go on without it")
			}
			if forgotten := registry.signed == nil; forgotten != test.forgotten || (keysetIn(t, path).Revision == 2) != test.forgotten {
				t.Errorf("forgotten: %v, at revision %d", forgotten, keysetIn(t, path).Revision)
			}
		})
	}
}
