package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/keyset"
)

// A replica opens what a key in another region has wrapped, and wraps under its own name, as a
// multi-Region key of AWS KMS does.
type replica struct {
	keyset.KeyService
	of keyset.KeyService
}

func (r replica) Opens(service string) bool {
	return r.KeyService.Opens(service) || r.of.Opens(service)
}

func (r replica) Unwrap(ctx context.Context, w keyset.WrappedKey, encryptionContext map[string]string) ([]byte, error) {
	if r.of.Opens(w.Service) {
		return r.of.Unwrap(ctx, w, encryptionContext)
	}
	return r.KeyService.Unwrap(ctx, w, encryptionContext)
}

// Where only a replica is configured nothing can be wrapped anew, and nothing is written or said
// to be; with both each wraps its own, and a replica is added as any other service.
func TestRewrapWithReplicas(t *testing.T) {
	dir := t.TempDir()
	store, first, second := filepath.Join(dir, "keyset.json"), "localkek://"+filepath.Join(dir, "first.key"), "localkek://"+filepath.Join(dir, "second.key")
	replicas := keyset.NewOpener(func(ctx context.Context, _ ...string) (replica, error) {
		own, err := localkek.Open(ctx, second)
		if err != nil {
			return replica{}, err
		}
		of, err := localkek.Open(ctx, first)
		return replica{own, of}, err
	}, "replica")
	run := func(want Exit, services, line string) string {
		t.Helper()
		var out bytes.Buffer
		env := map[string]string{"ECHOSEAL_STORE": store, "ECHOSEAL_NAME": "fleet", "ECHOSEAL_KEY_SERVICES": services}
		s := System{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Getenv: func(name string) string { return env[name] },
			KeyServices: keyset.Openers{localkek.Opener(), replicas},
		}
		if code := Exit(Run(t.Context(), s, strings.Fields(line)...)); code != want {
			t.Fatalf("%s: %d, want %d\n%s", line, code, want, out.String())
		}
		return out.String()
	}
	kept := func() []byte {
		t.Helper()
		text, err := os.ReadFile(store)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	run(done, first, "kek new "+filepath.Join(dir, "first.key"))
	run(done, first, "kek new "+filepath.Join(dir, "second.key"))
	run(done, first, "init")
	before := kept()
	for _, line := range []string{"rewrap", "rewrap --dry-run --exit-code"} {
		if out := run(done, "replica://second", line); !strings.HasPrefix(out, "OK  nothing is wrapped anew: of the keys that wrap it only replicas are configured here\n") {
			t.Errorf("%s: %s", line, out)
		}
	}
	if !bytes.Equal(kept(), before) {
		t.Error("something was written")
	}
	if out := run(done, "replica://second "+first, "rewrap"); !strings.HasPrefix(out, "DONE  wrapped 2 keys anew ") {
		t.Error(out)
	}
	was := keysetIn(t, store)
	if was.Revision != 2 || len(was.Primary().Wrapped) != 1 {
		t.Errorf("%+v", was)
	}
	if out := run(done, first, "rewrap --add replica://second"); !strings.HasPrefix(out, "DONE  wrapped 2 keys under replica://second as well\n") {
		t.Error(out)
	}
	both := keysetIn(t, store).Primary().Wrapped
	if len(both) != 2 || !bytes.Equal(both[0].Ciphertext, was.Primary().Wrapped[0].Ciphertext) {
		t.Errorf("%+v", both)
	}
	run(done, "replica://second", "rewrap")
	if anew := keysetIn(t, store).Primary().Wrapped; !bytes.Equal(anew[0].Ciphertext, both[0].Ciphertext) || bytes.Equal(anew[1].Ciphertext, both[1].Ciphertext) {
		t.Errorf("%+v\nwas %+v", anew, both)
	}
}

// However many keys there are, what is to be typed next is found once: each service is opened
// for the work, and once more for that.
func TestRewrapAddOpensOnce(t *testing.T) {
	dir := t.TempDir()
	store, first, second := filepath.Join(dir, "keyset.json"), filepath.Join(dir, "first.key"), filepath.Join(dir, "second.key")
	env := map[string]string{"ECHOSEAL_STORE": store, "ECHOSEAL_NAME": "fleet", "ECHOSEAL_KEY_SERVICES": "counted://" + first}
	opened := 0
	services := keyset.NewOpener(func(ctx context.Context, uris ...string) (keyset.KeyService, error) {
		opened++
		return localkek.Open(ctx, "localkek"+strings.TrimPrefix(uris[0], "counted"))
	}, "counted")
	run := func(line string) string {
		t.Helper()
		var out bytes.Buffer
		s := System{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Getenv: func(name string) string { return env[name] },
			KeyServices: keyset.Openers{localkek.Opener(), services},
		}
		if code := Exit(Run(t.Context(), s, strings.Fields(line)...)); code != done {
			t.Fatalf("%s: %d\n%s", line, code, out.String())
		}
		return out.String()
	}
	run("kek new " + first)
	run("kek new " + second)
	run("init --proof settle")
	run("rotate --replace " + keysetIn(t, store).Primary().KID)
	for _, says := range []string{"DONE  wrapped 3 keys ", "OK  every key is wrapped "} {
		opened = 0
		out := run("rewrap --add localkek://" + second)
		if !strings.HasPrefix(out, says) || !strings.Contains(out, "keytool rewrap --drop counted://"+first) || opened != 2 {
			t.Errorf("opened %d times\n%s", opened, out)
		}
	}
}
