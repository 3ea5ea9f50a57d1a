package cli

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

const (
	offersFiles = ":0"
	offersNone  = ":4"
)

// completed returns the words that a shell is offered, without what they mean, and the
// number that ends the answer.
func completed(t *testing.T, s System, words ...string) (offered []string, directive string) {
	t.Helper()
	var out, errs bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader(""), &out, &errs
	if code := Run(context.Background(), s, append([]string{cobra.ShellCompRequestCmd}, words...)...); code != 0 || errs.Len() > 0 {
		t.Errorf("completing %q exits %d and says %s", words, code, &errs)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for _, line := range lines[:len(lines)-1] {
		word, _, _ := strings.Cut(line, "\t")
		offered = append(offered, word)
	}
	return offered, lines[len(lines)-1]
}

// a keyset with a retiring key and a peer.
func completable(t *testing.T) (s System, doc *keyset.Document) {
	t.Helper()
	dir := t.TempDir()
	env := map[string]string{
		"ECHOSEAL_STORE": filepath.Join(dir, "keyset.json"), "ECHOSEAL_NAME": "fleet", "ECHOSEAL_KEY_SERVICES": "localkek://" + filepath.Join(dir, "kek.key"),
	}
	now := time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC)
	s = System{Getenv: func(name string) string { return env[name] }, Now: func() time.Time { return now }}
	read := func() *keyset.Document { return keysetIn(t, env["ECHOSEAL_STORE"]) }
	run := func(args ...string) {
		var out bytes.Buffer
		s.Stdin, s.Stdout, s.Stderr = strings.NewReader(""), &out, &out
		if code := Run(context.Background(), s, args...); code != 0 {
			t.Fatalf("%q exits %d: %s", args, code, &out)
		}
	}
	run("kek", "new", filepath.Join(dir, "kek.key"))
	run("init", "--proof", "settle", "--max-stale", "1m")
	run("rotate", "--replace", read().Primary().KID)
	now = now.Add(time.Hour)
	run("rotate")
	run("export", "--peer", "python-a", "--ttl", "10m", "--out", filepath.Join(dir, "a.json"))
	run("export", "--peer", "python-b", "--ttl", "10m", "--out", filepath.Join(dir, "b.json"))
	return s, read()
}

// Of each argument, and of the value of each flag, it is decided what a shell offers: a
// new one fails here until it is.
func TestEachWordIsCompleted(t *testing.T) {
	s, doc := completable(t)
	const nothing, files = "nothing", "files"
	primary, retiring := doc.Primary().KID, keyIn(doc, keyset.Retiring)
	arguments := map[string]string{
		"abort": nothing, "confirm": nothing, "doctor": nothing, "export": nothing, "init": nothing, "policy": nothing, "rewrap": nothing,
		"rollback": nothing, "rotate": nothing, "status": nothing, "version": nothing,
		"kek": "new", "peer": "forget", "fleet": "forget",
		"kek new": files, "validate": files, "inspect": files,
		"peer forget": "python-a python-b", "fleet forget": nothing, // there is no registry here
		"revoke":     retiring + " " + primary,
		"completion": "bash zsh fish powershell",
		"help":       "abort completion confirm doctor export fleet init inspect kek peer policy revoke rewrap rollback rotate status validate version",
	}
	values := map[string]string{
		"output": "text json", "proof": "reports settle",
		"store": files, "secret-file": files, "principal-file": files, "out": files,
		"replace": primary, "clean": retiring, "peer": "python-a python-b", "drop": doc.Auth.Wrapped[0].Service,
		"ttl": nothing, "max-age": nothing, "settle": nothing, "max-stale": nothing, "max-skew": nothing, "timeout": nothing, "min-instances": nothing,
		"name": nothing, "key-service": nothing, "fleet": nothing, "add": nothing,
		"reason": nothing, "actor": nothing, "audience": nothing, "at": nothing,
	}
	check := func(want string, line ...string) {
		t.Helper()
		offered, directive := completed(t, s, line...)
		got := strings.Join(offered, " ")
		switch {
		case got == "" && directive == offersFiles:
			got = files
		case directive != offersNone:
			t.Errorf("%q is answered with %s", line, directive)
		case got == "":
			got = nothing
		}
		if got != want {
			t.Errorf("completing %q offers %s, and should %s", line, got, want)
		}
	}
	last := make(map[string]bool)
	each(t, func(command []string, cmd *cobra.Command) {
		name := strings.Join(command, " ")
		if arguments[name] == "" {
			t.Errorf("what the arguments of %q are completed with is not decided", name)
			return
		}
		last[name] = true
		check(arguments[name], append(command, "")...)
		if name != "revoke" { // which takes several
			check(nothing, append(command, "one", "")...)
		}
		for _, f := range flagsOf(cmd) {
			if f.Value.Type() == "bool" || f.Name == "help" {
				check(nothing, append(command, "--"+f.Name+"=")...)
				continue
			}
			if values[f.Name] == "" {
				t.Errorf("what --%s of %q is completed with is not decided", f.Name, name)
				continue
			}
			check(values[f.Name], append(command, "--"+f.Name, "")...)
			if values[f.Name] != files {
				check(values[f.Name], append(command, "--"+f.Name+"=")...)
			}
		}
	})
	check(arguments["help"], "help", "") // which the library adds
	last["help"] = true
	if len(last) != len(arguments) {
		t.Errorf("%d commands are decided on, and %d are there", len(arguments), len(last))
	}
}

// What is typed already counts.
func TestCompletionHeedsWhatIsTyped(t *testing.T) {
	s, doc := completable(t)
	primary, retiring := doc.Primary().KID, keyIn(doc, keyset.Retiring)
	for _, c := range []struct {
		line, want []string
		directive  string
	}{
		{[]string{"revoke", primary, ""}, []string{retiring}, offersNone},
		{[]string{"revoke", retiring[:7]}, []string{retiring}, offersNone},
		{[]string{"policy", "--proof", "s"}, []string{"settle"}, offersNone},
		{[]string{"status", "-o", "j"}, []string{"json"}, offersNone},
		{[]string{"confirm", "--peer", "python-b"}, []string{"python-b"}, offersNone},
		{[]string{"help", "ro"}, []string{"rollback", "rotate"}, offersNone},
		{[]string{"help", "kek", ""}, []string{"new"}, offersNone},
		{[]string{"init", "--store", "key"}, nil, offersFiles},
		{[]string{"init", "--store", "etcd://"}, nil, offersNone},
		{[]string{"revoke", "--store", "nowhere.json", ""}, nil, offersNone},
		{[]string{"revoke", "--store", "nowhere://there", ""}, nil, offersNone},

		// A document behind the answer would be part of it.
		{[]string{"revoke", "-o", "json", ""}, []string{retiring, primary}, offersNone},
		{[]string{"status", "-o", "json", ""}, nil, offersNone},

		// A command line that is wrong gets no files, and no error.
		{[]string{"statsu", ""}, nil, offersNone},
		{[]string{"status", "--frobnicate", ""}, nil, offersNone},
		{[]string{"policy", "--ttl", "10", ""}, nil, offersNone},
		{[]string{"revoke", "v1." + strings.Repeat("TOKENtoken", 9), ""}, nil, offersNone},
	} {
		if got, directive := completed(t, s, c.line...); !slices.Equal(got, c.want) || directive != c.directive {
			t.Errorf("completing %q offers %q %s", c.line, got, directive)
		}
	}
}

// The words of usage that help sets apart are not quoted in a shell.
func TestFlagsAreDescribed(t *testing.T) {
	var out bytes.Buffer
	Run(context.Background(), System{Stdout: &out, Stderr: &out}, cobra.ShellCompRequestCmd, "policy", "--")
	if !strings.Contains(out.String(), "--store\twhere the keyset is: a path or a URI") || strings.Contains(out.String(), "`") {
		t.Error(out.String())
	}
}

// A deaf one never answers, and heeds no context.
type deaf struct{ released chan struct{} }

func (d deaf) Load(context.Context) ([]byte, string, error) {
	<-d.released
	return nil, "", errors.New("released")
}

func (d deaf) Collect(context.Context) ([]fleet.Answer, error) {
	<-d.released
	return nil, errors.New("released")
}
func (deaf) Publish(context.Context, string, []byte, time.Duration) error { return nil }
func (deaf) Forget(context.Context, string) error                         { return nil }
func (deaf) String() string                                               { return "deaf://" }

// Nobody waits for a shell longer than two seconds, and a key service is not asked at all.
func TestCompletionDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deaf{make(chan struct{})}
		open := func(context.Context, string) (deaf, error) { return d, nil }
		s := System{
			Getenv: func(name string) string {
				return map[string]string{"ECHOSEAL_STORE": "deaf://", "ECHOSEAL_FLEET": "deaf://", "ECHOSEAL_NAME": "fleet", "ECHOSEAL_KEY_SERVICES": "deaf://"}[name]
			},
			Stores: keyset.SourceOpeners{keyset.NewSourceOpener(open, "deaf")},
			Fleets: fleet.Openers{fleet.NewOpener(open, "deaf")},
			KeyServices: keyset.Openers{keyset.NewOpener(func(context.Context, ...string) (keyset.KeyService, error) {
				t.Error("a key service is opened")
				return nil, errors.New("none")
			}, "deaf")},
		}
		for _, line := range [][]string{{"revoke", ""}, {"peer", "forget", ""}, {"rewrap", "--drop", ""}, {"fleet", "forget", ""}} {
			began := time.Now()
			words, directive := completed(t, s, line...)
			if took := time.Since(began); took > 2*time.Second || len(words) > 0 || directive != offersNone {
				t.Errorf("completing %q takes %v, and offers %q %s", line, took, words, directive)
			}
		}
		close(d.released)
	})
}
