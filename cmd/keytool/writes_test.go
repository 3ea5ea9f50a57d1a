package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/cmd/keytool/cli"
	"github.com/echoseal/echoseal/cmd/keytool/internal/testfleet"
	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/keyset"
)

// A site is where commands are run: a folder, and a clock.
type site struct {
	t      *testing.T
	folder string
	clock  clock
	fleet  []string // the registry, if the command needs one
}

func newSite(t *testing.T) *site {
	t.Helper()
	folder := t.TempDir()
	d := &site{t: t, folder: folder, clock: clock(filepath.Join(folder, ".clock"))}
	d.clock.set(time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC))
	for _, name := range []string{"kek.key", "new.key"} {
		if _, err := localkek.NewKeyFile(d.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(d.path("a.secret"), []byte(strings.Repeat("s", 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *site) path(name string) string { return filepath.Join(d.folder, name) }

// words completes a command line: @name is a file of the site, $STATE a key in that state.
func (d *site) words(line string) []string {
	words := strings.Fields(line)
	for i, word := range words {
		if name, ok := strings.CutPrefix(word, "@"); ok {
			words[i] = d.path(name)
		}
		if name, ok := strings.CutPrefix(word, "localkek@"); ok {
			words[i] = "localkek://" + d.path(name)
		}
		if state, ok := strings.CutPrefix(word, "$"); ok && state != "ID" {
			k := slices.IndexFunc(d.document().Keys, func(k keyset.Key) bool { return string(k.State) == state })
			words[i] = d.document().Keys[k].KID
		}
		if word == "$ID" {
			words[i] = filepath.Base(d.fleet[0])
		}
	}
	return words
}

func (d *site) settings() map[string]string {
	env := map[string]string{
		"ECHOSEAL_STORE": d.path("keyset.json"), "ECHOSEAL_NAME": "fleet",
		"ECHOSEAL_KEY_SERVICES": "localkek://" + d.path("kek.key") + " localkek://" + d.path("new.key"),
	}
	if d.fleet != nil {
		env["ECHOSEAL_FLEET"] = "dir://" + d.path("registry")
	}
	return env
}

// run runs keytool in this process, with a fault of the store and one of the key service.
func (d *site) run(fault, keyFault string, words ...string) (code int, stderr string) {
	code, _, stderr = d.with(fault, keyFault, words...)
	return code, stderr
}

// printed runs keytool in this process, and returns what it has printed as well.
func (d *site) printed(words ...string) (code int, stdout, stderr string) {
	return d.with("", "", words...)
}

func (d *site) with(fault, keyFault string, words ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	env := d.settings()
	s := cli.System{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Getenv: func(name string) string { return env[name] },
		Now:    d.clock.now, Sleep: d.clock.sleep, Fleets: append(fleets(), registryOpener()),
	}
	if fault != "" {
		s.Stores = keyset.SourceOpeners{faultOpener(fault)}
	}
	if keyFault != "" {
		s.KeyServices = keyset.Openers{keyFaultOpener(keyFault)}
	}
	code = cli.Run(d.t.Context(), s, words...)
	return code, out.String(), errs.String()
}

func (d *site) must(lines ...string) {
	d.t.Helper()
	for _, line := range lines {
		if by, ok := strings.CutPrefix(line, "clock "); ok {
			later, err := time.ParseDuration(by)
			if err != nil {
				d.t.Fatal(err)
			}
			d.clock.set(d.clock.now().Add(later))
			continue
		}
		if line == "registry" {
			d.register()
			continue
		}
		if code, stderr := d.run("", "", d.words(line)...); code != 0 {
			d.t.Fatalf("keytool %s exits %d: %s", line, code, stderr)
		}
	}
}

// register puts an instance in a registry.
func (d *site) register() {
	d.t.Helper()
	services, err := keyset.Openers{localkek.Opener()}.Open(d.t.Context(), "localkek://"+d.path("kek.key"))
	if err != nil {
		d.t.Fatal(err)
	}
	var f testfleet.Fleet
	f.Now = d.clock.now
	if f.Source, err = keyset.NewFile(d.path("keyset.json")); err != nil {
		d.t.Fatal(err)
	}
	f.Configure(services)
	i := f.Start("mcp-a")
	signed, err := i.Signed(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	if err := os.MkdirAll(d.path("registry"), 0o700); err != nil {
		d.t.Fatal(err)
	}
	d.fleet = []string{filepath.Join(d.path("registry"), i.ID())}
	if err := os.WriteFile(d.fleet[0], signed, 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// kill runs keytool in a process of its own, which dies of kill -9 at the fault.
func (d *site) kill(fault string, words ...string) {
	d.t.Helper()
	program, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.CommandContext(d.t.Context(), program, words...)
	cmd.Args[0] = "keytool"
	cmd.Env = append(os.Environ(), "TEST_CLOCK="+string(d.clock), "TEST_FAULT="+fault, "GORACE=atexit_sleep_ms=0")
	for name, value := range d.settings() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != -1 {
		d.t.Fatalf("it was not killed: %v\n%s", err, out)
	}
}

// text returns the keyset as it is in the store, nil if there is none.
func (d *site) text() []byte {
	d.t.Helper()
	text, err := os.ReadFile(d.path("keyset.json"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatal(err)
	}
	return text
}

func (d *site) document() *keyset.Document {
	d.t.Helper()
	doc, err := keyset.Parse(d.text())
	if err != nil {
		d.t.Fatal(err)
	}
	return doc
}

// whole checks that the store has the next revision, and that it can be trusted.
func (d *site) whole(before []byte) {
	d.t.Helper()
	want := int64(1)
	if before != nil {
		old, err := keyset.Parse(before)
		if err != nil {
			d.t.Fatal(err)
		}
		want = old.Revision + 1
	}
	if got := d.document().Revision; got != want {
		d.t.Errorf("the store has revision %d, not %d", got, want)
	}
	d.must("status")
}

// writes are the commands that write a keyset, each with what has to be there before, and
// what it exits with when it is run again after it was killed behind its write.
var writes = []struct {
	name, line string
	before     []string
	again      int
	wraps      bool // the key service has to wrap for it
}{
	{"init", "init", nil, 1, true},
	{"init secret", "init --secret-file @a.secret", nil, 1, true},
	{"init replace", "init --replace --reason lost --yes", []string{"init"}, 0, true},
	{"stage", "rotate --replace $primary", []string{"init --proof settle"}, 0, true},
	{"promote", "rotate", []string{"init --proof settle", "rotate --replace $primary", "clock 2h"}, 0, false},
	{"drain", "rotate", []string{"init --proof settle", "rotate --replace $primary", "clock 2h", "rotate", "clock 2h"}, 0, false},
	{"retire", "rotate", []string{"init --proof settle", "rotate --replace $primary", "clock 2h", "rotate", "clock 2h", "rotate", "clock 2h"}, 0, false},
	{"abort", "abort", []string{"init", "rotate --replace $primary"}, 1, false},
	{"rollback", "rollback", []string{"init --proof settle", "rotate --replace $primary", "clock 2h", "rotate"}, 0, false},
	{"revoke", "revoke $primary --reason leaked --yes --no-wait", []string{"init"}, 0, true},
	{"revoke staged", "revoke $staged --reason leaked --yes --no-wait", []string{"init", "rotate --replace $primary"}, 0, false},
	{"policy", "policy --ttl 20m --min-instances 2", []string{"init"}, 0, false},
	{"policy force", "policy --settle 1m --force --reason why --yes", []string{"init"}, 0, false},
	{"export", "export --peer python-a --ttl 10m --out @a.export", []string{"init"}, 1, false},
	{"confirm", "confirm --peer python-a", []string{"init", "export --peer python-a --ttl 10m --out @b.export"}, 0, false},
	{"peer forget", "peer forget python-a --reason gone --yes", []string{"init", "export --peer python-a --ttl 10m --out @b.export"}, 1, false},
	{"rewrap", "rewrap", []string{"init"}, 0, true},
	{"rewrap add", "rewrap --add localkek@new.key", []string{"init"}, 0, true},
	{"rewrap drop", "rewrap --drop localkek@kek.key --force --reason moved --yes", []string{"init", "rewrap --add localkek@new.key"}, 1, false},
	{"fleet forget", "fleet forget $ID --force --reason dead --yes", []string{"init", "registry"}, 0, false},
}

// Whatever fails at a write, the keyset is the old one or the new one, the exit code says
// which, and the next run finishes.
func TestWrites(t *testing.T) {
	for _, w := range writes {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			for _, fault := range []struct {
				name, store, keys string
				code              int
				said              string
			}{
				{"disk full", "save:1:full", "", 1, "no space left on device; nothing was changed"},
				{"conflict", "save:1:conflict", "", 5, "another writer was first: nothing was changed"},
				{"store down", "load:1:down", "", 1, "the store is down"},
				{"wrap denied", "", "wrap:denied", 1, "denied"},
				{"unwrap denied", "", "unwrap:denied", 1, "denied"},
			} {
				if fault.keys == "wrap:denied" && !w.wraps {
					continue
				}
				t.Run(fault.name, func(t *testing.T) {
					d := newSite(t)
					d.must(w.before...)
					words, before := d.words(w.line), d.text()
					code, stderr := d.run(fault.store, fault.keys, words...)
					if code != fault.code || !strings.Contains(stderr, fault.said) {
						t.Errorf("it exits %d: %s", code, stderr)
					}
					if !bytes.Equal(d.text(), before) {
						t.Error("the keyset has changed")
					}
					d.nothingHanded()
					if code, stderr := d.run("", "", words...); code != 0 {
						t.Errorf("the next run exits %d: %s", code, stderr)
					}
					d.whole(before)
				})
			}
			t.Run("no answer", func(t *testing.T) {
				d := newSite(t)
				d.must(w.before...)
				before := d.text()
				if code, stderr := d.run("save:1:unanswered", "", d.words(w.line)...); code != 0 || !strings.Contains(stderr, "but the change is there") {
					t.Errorf("it exits %d: %s", code, stderr)
				}
				d.whole(before)
			})
			t.Run("killed before", func(t *testing.T) {
				d := newSite(t)
				d.must(w.before...)
				words, before := d.words(w.line), d.text()
				d.kill("save:1:kill-before", words...)
				if !bytes.Equal(d.text(), before) {
					t.Error("the keyset has changed")
				}
				if w.name == "export" { // the room for the keys is taken, and no key is in it
					draft := d.path(".a.export.new")
					if text, err := os.ReadFile(draft); err != nil || len(bytes.Trim(text, "\x00")) > 0 {
						t.Errorf("the dead run leaves %d bytes, %v", len(text), err)
					}
					if code, stderr := d.run("", "", words...); code != 1 || !strings.Contains(stderr, draft+" is left of an export that was killed") {
						t.Errorf("beside what the dead run has left it exits %d: %s", code, stderr)
					}
					_ = os.Remove(draft)
					d.nothingHanded()
				}
				if code, stderr := d.run("", "", words...); code != 0 {
					t.Errorf("the next run exits %d: %s", code, stderr)
				}
				d.whole(before)
			})
			t.Run("killed behind", func(t *testing.T) {
				d := newSite(t)
				d.must(w.before...)
				words, before := d.words(w.line), d.text()
				d.kill("save:1:kill-after", words...)
				d.whole(before)
				if code, stderr := d.run("", "", words...); code != w.again {
					t.Errorf("the next run exits %d: %s", code, stderr)
				}
				d.must("status")
			})
			t.Run("dry run", func(t *testing.T) {
				d := newSite(t)
				d.must(w.before...)
				before := d.text()
				words := append(d.words(w.line), "--dry-run")
				if code, stderr := d.run("", "", words...); code != 0 {
					t.Errorf("it exits %d: %s", code, stderr)
				}
				if code, stderr := d.run("", "", append(words, "--exit-code")...); code != 3 {
					t.Errorf("with --exit-code it exits %d: %s", code, stderr)
				}
				if !bytes.Equal(d.text(), before) {
					t.Error("the keyset has changed")
				}
				d.nothingHanded()
			})
			if strings.Contains(w.line, "--yes") {
				t.Run("nobody to ask", func(t *testing.T) {
					d := newSite(t)
					d.must(w.before...)
					before := d.text()
					words := d.words(strings.ReplaceAll(w.line, "--yes", ""))
					if code, stderr := d.run("", "", words...); code != 2 || !strings.Contains(stderr, "nobody is there to ask: add --yes") {
						t.Errorf("it exits %d: %s", code, stderr)
					}
					if !bytes.Equal(d.text(), before) {
						t.Error("the keyset has changed")
					}
				})
			}
		})
	}
}

// A dry run says with --exit-code whether the command would write, and ends as that would
// end if it would fail.
func TestDryRunExitCode(t *testing.T) {
	const staged, promoted = "init --proof settle; rotate --replace $primary", "init --proof settle; rotate --replace $primary; clock 2h; rotate"
	for name, c := range map[string]struct {
		before, line string
		code         int
		verdict      string // of the report, or what the error says
	}{
		"revoked already":          {"init; revoke $primary --reason leaked --yes --no-wait", "revoke $revoked --reason leaked --yes --no-wait", 0, "OK "},
		"one of them revoked":      {"init; revoke $primary --reason leaked --yes --no-wait", "revoke $revoked $primary --reason leaked --yes --no-wait", 3, "WOULD "},
		"policy as it is":          {"init", "policy --ttl 10m --proof reports", 0, "OK "},
		"policy to be shown":       {"init", "policy", 0, "OK "},
		"rolled back already":      {promoted + "; rollback", "rollback", 0, "OK "},
		"rotated already":          {promoted + "; clock 2h; rotate; clock 2h; rotate; rotate", "rotate", 0, "OK "},
		"nothing due":              {"init", "rotate", 0, "OK "},
		"due":                      {"init; clock 800h", "rotate", 3, "WOULD "},
		"blocked":                  {"init; rotate --replace $primary", "rotate", 6, "BLOCKED "},
		"time has to pass":         {staged, "rotate", 3, "WAITING "},
		"nothing staged":           {"init", "abort", 1, "nothing to abort"},
		"nothing retiring":         {"init", "rollback", 1, "none to go back to"},
		"no such peer":             {"init", "peer forget python-a --reason gone --yes", 2, "python-a"},
		"a peer that is gone":      {"init; export --peer python-a --ttl 10m --out @b.export; peer forget python-a --reason gone --yes", "peer forget python-a --reason gone --yes", 1, "was forgotten"},
		"no such export":           {"init", "confirm --peer python-a", 2, "python-a"},
		"no such wrapping":         {"init", "rewrap --drop localkek@new.key --yes", 1, "nothing in the keyset is wrapped by"},
		"the only wrapping":        {"init", "rewrap --drop localkek@kek.key --force --reason moved --yes", 1, "is wrapped by nothing but"},
		"not proved":               {"init; rewrap --add localkek@new.key", "rewrap --drop localkek@kek.key --yes", 6, "BLOCKED "},
		"a keyset is there":        {"init", "init", 1, "already"},
		"a keyset is there, taken": {"init", "init --secret-file @a.secret", 1, "already"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newSite(t)
			d.must(strings.Split(c.before, "; ")...)
			before := d.text()
			words := d.words(c.line)
			code, stdout, stderr := d.printed(append(slices.Clone(words), "--dry-run", "--exit-code")...)
			if code != c.code || !strings.HasPrefix(stdout, c.verdict) && !strings.Contains(stderr, c.verdict) {
				t.Errorf("it exits %d: %s%s", code, stdout, stderr)
			}
			if !bytes.Equal(d.text(), before) {
				t.Error("the keyset has changed")
			}
			code, _ = d.run("", "", words...)
			switch changed := !bytes.Equal(d.text(), before); {
			case c.verdict == "WOULD " && (code != 0 || !changed), c.verdict != "WOULD " && changed:
				t.Errorf("the command itself exits %d, and changes the keyset: %t", code, changed)
			case c.code != 3 && code != c.code:
				t.Errorf("the command itself exits %d", code)
			}
		})
	}
}

// nothingHanded checks that there is no file with keys of which the keyset has no record.
func (d *site) nothingHanded() {
	d.t.Helper()
	for _, name := range []string{"a.export", ".a.export.new"} {
		if _, err := os.Lstat(d.path(name)); err == nil {
			d.t.Errorf("the file %s for the keys is there", name)
		}
	}
}

// A whole rotation is killed before and behind each of its writes, and the next run takes
// it to its end.
func TestWritesOfRotation(t *testing.T) {
	for _, fault := range []string{
		"save:1:kill-before", "save:1:kill-after", "save:2:kill-before", "save:2:kill-after",
		"save:3:kill-before", "save:3:kill-after", "save:4:kill-before", "save:4:kill-after",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			d := newSite(t)
			d.must("init --proof settle")
			old := d.document().Primary().KID
			line := "rotate --wait --replace " + old
			d.kill(fault, strings.Fields(line)...)
			d.must("status", line)
			doc := d.document()
			if len(doc.Keys) != 1 || doc.Primary().KID == old || doc.Revision != 5 {
				t.Errorf("it ends at revision %d with %d keys", doc.Revision, len(doc.Keys))
			}
		})
	}
}
