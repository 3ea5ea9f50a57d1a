package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// A hanging registry takes every call and answers none.
type hanging struct{}

func (hanging) String() string { return "hang://registry" }

func (hanging) Collect(ctx context.Context) ([]fleet.Answer, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// A registry that hangs is in the way of nothing that does not need its reports: it leaves
// the time to begin a keyset, to stage a key and to revoke one.
func TestRegistryHangs(t *testing.T) {
	dir := t.TempDir()
	store, kek := filepath.Join(dir, "keyset.json"), filepath.Join(dir, "kek.key")
	env := map[string]string{
		"ECHOSEAL_STORE": store, "ECHOSEAL_NAME": "fleet", "ECHOSEAL_FLEET": "hang://registry", "ECHOSEAL_KEY_SERVICES": "localkek://" + kek,
	}
	fleets := fleet.Openers{fleet.NewOpener(func(context.Context, string) (hanging, error) { return hanging{}, nil }, "hang")}
	synctest.Test(t, func(t *testing.T) {
		run := func(want Exit, line string) string {
			t.Helper()
			var out bytes.Buffer
			s := System{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Getenv: func(name string) string { return env[name] }, Fleets: fleets}
			if code := Exit(Run(t.Context(), s, strings.Fields(line)...)); code != want {
				t.Errorf("%s: %d, want %d\n%s", line, code, want, out.String())
			}
			return out.String()
		}
		revision := func(want int64) *keyset.Document {
			t.Helper()
			d := keysetIn(t, store)
			if d.Revision != want {
				t.Fatalf("revision %d, want %d", d.Revision, want)
			}
			return d
		}
		run(done, "kek new "+kek)
		if out := run(done, "init"); !strings.Contains(out, "nobody can be asked through hang://registry") {
			t.Error(out)
		}
		run(done, "rotate --replace "+revision(1).Primary().KID)
		revision(2)
		if out := run(blocked, "rotate"); !strings.Contains(out, "hang://registry") {
			t.Error(out)
		}
		run(done, "revoke --all --reason leaked --yes --no-wait")
		revision(3)
	})
}
