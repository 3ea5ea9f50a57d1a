package openbao_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/codec/vault"
	"github.com/echoseal/echoseal/integration/internal/bao"
	"github.com/echoseal/echoseal/integration/internal/loopback"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/keysettest"
)

// The policies that the package documentation gives.
const (
	readerPolicy = `
		path "secret/data/echoseal/orders" { capabilities = ["read"] }`
	writerPolicy = `
		path "secret/data/echoseal/orders" { capabilities = ["read", "create", "update"] }`
)

// startKV starts a server, which has KV in version 2 at secret.
func startKV(t *testing.T) *bao.Server {
	t.Helper()
	s := bao.Start(t, false)
	clearEnvironment(t)
	return s
}

// openStore returns a store on s, in the path with its parameters.
func openStore(t testing.TB, s *bao.Server, path string, parameters url.Values) *vault.Store {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	writeToken(t, token, s.Token)
	query := url.Values{"address": {s.Address}, "token-file": {token}}
	if s.Namespace != "" {
		query.Set("namespace", s.Namespace)
	}
	if s.CACert != "" {
		query.Set("ca-cert", s.CACert)
	}
	for name, values := range parameters {
		query[name] = values
	}
	store, err := vault.OpenStore(t.Context(), "hashivault-kv:///"+path+"?"+query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// storeKit returns the harness for a server with KV in version 2 at secret. A writer that
// dies is one whose connection breaks: it writes nothing but to that. Its steps are the
// chunks of bytes that go there and back.
func storeKit(t *testing.T, server *bao.Server) keysettest.StoreHarness {
	t.Helper()
	front := newFront(t, server)
	proxied := *server
	proxied.Address = front.URL
	return keysettest.StoreHarness{
		New: func(t testing.TB, place string) keyset.Store { return openStore(t, &proxied, "kit/"+place, nil) },
		Silence: func(t testing.TB) {
			front.disturb(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, -1)
		},
		Kill: func(t testing.TB, place string, doc []byte, version string, step int) bool {
			ctx, die := context.WithCancel(t.Context())
			defer die()
			last := loopback.NewBrittleLink(t, strings.TrimPrefix(server.Address, "http://"), step, true, die)
			direct := *server
			direct.Address = "http://" + last.Address()
			_, err := openStore(t, &direct, "kit/"+place, nil).Save(ctx, doc, version)
			dead := last.IsCut()
			if !dead && err != nil {
				t.Fatal(err)
			}
			return dead
		},
	}
}

func TestStore(t *testing.T) {
	kit := storeKit(t, startKV(t))
	kit.Without = map[string]string{"restart": "a server in development mode forgets everything; see TestStoreOnDisk"}
	keysettest.Store(t, kit)
}

// A server as it runs in production: it can be stopped, and takes less.
func TestStoreOnDisk(t *testing.T) {
	server := bao.StartDurable(t)
	clearEnvironment(t)
	server.Do(t, http.MethodPost, "sys/mounts/secret", map[string]any{"type": "kv-v2"})
	kit := storeKit(t, &server.Server)
	kit.MaxBytes = keyset.MaxBytes / 2 // its limit is 1 MiB with what JSON and encryption add
	kit.Restart = func(t testing.TB) {
		server.Stop(t)
		server.Start(t)
	}
	keysettest.Store(t, kit)

	s := openStore(t, &server.Server, "large", nil)
	version, err := s.Save(t.Context(), []byte("small"), "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Save(t.Context(), []byte(strings.Repeat("x", keyset.MaxBytes)), version)
	if !errors.Is(err, keyset.Denied) || errors.Is(err, keyset.ErrConflict) || !strings.Contains(err.Error(), "max_entry_size") {
		t.Errorf("a document that the storage does not take: %v", err)
	}
	if doc, v, err := s.Load(t.Context()); string(doc) != "small" || v != version || err != nil {
		t.Errorf("Load: %d bytes, version %q, %v", len(doc), v, err)
	}
	server.Seal(t)
	if _, _, err := s.Load(t.Context()); !errors.Is(err, keyset.Sealed) || !strings.Contains(err.Error(), "unseal it") {
		t.Errorf("Load from a sealed server: %v", err)
	}
	if _, err := s.Save(t.Context(), []byte("new"), version); !errors.Is(err, keyset.Sealed) {
		t.Errorf("Save to a sealed server: %v", err)
	}
	server.Unseal(t)
	if _, err := s.Save(t.Context(), []byte("new"), version); err != nil {
		t.Error(err)
	}
}

// The policies of the documentation are enough, and no more than is needed.
func TestStorePolicies(t *testing.T) {
	server := startKV(t)
	const path = "echoseal/orders"
	bare := map[string]any{"no_default_policy": true}
	reader := openStore(t, server.As(server.NewToken(t, readerPolicy, bare)), path, nil)
	writer := openStore(t, server.As(server.NewToken(t, writerPolicy, bare)), path, nil)
	for _, s := range []*vault.Store{reader, writer} {
		if _, _, err := s.Load(t.Context()); !errors.Is(err, keyset.ErrNotExist) {
			t.Errorf("Load: %v", err)
		}
	}
	refused := func(version string) {
		t.Helper()
		_, err := reader.Save(t.Context(), []byte("the reader's"), version)
		if !errors.Is(err, keyset.Denied) || errors.Is(err, keyset.ErrConflict) || !strings.Contains(err.Error(), "secret/data/echoseal/orders") {
			t.Errorf("Save by a reader: %v", err)
		}
	}
	refused("")
	version, err := writer.Save(t.Context(), []byte("one"), "")
	if err != nil {
		t.Fatal(err)
	}
	refused(version)
	if version, err = writer.Save(t.Context(), []byte("two"), version); err != nil || !strings.HasPrefix(version, "2@") {
		t.Errorf("Save: version %q, %v", version, err)
	}
	if doc, v, err := reader.Load(t.Context()); string(doc) != "two" || v != version || err != nil {
		t.Errorf("Load: %q, version %q, %v", doc, v, err)
	}
	stranger := openStore(t, server.As(server.NewToken(t, `path "secret/data/other" { capabilities = ["read"] }`, nil)), path, nil)
	if _, _, err := stranger.Load(t.Context()); !errors.Is(err, keyset.Denied) || !strings.Contains(err.Error(), "no policy of it allows to read secret/data/echoseal/orders") {
		t.Errorf("Load by a stranger: %v", err)
	}
}

// deleted checks that neither reading nor writing takes what was deleted for nothing.
func deleted(t *testing.T, s *vault.Store, words ...string) {
	t.Helper()
	_, _, err := s.Load(t.Context())
	errs := []error{err}
	for _, version := range []string{"", "1@", "2@"} {
		_, err := s.Save(t.Context(), []byte("three"), version)
		errs = append(errs, err)
	}
	for _, err := range errs {
		if err == nil || errors.Is(err, keyset.ErrNotExist) || errors.Is(err, keyset.ErrConflict) {
			t.Errorf("the error is %v", err)
			continue
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not say %q", err, word)
			}
		}
	}
}

// What the remedies say is done here as an operator would do it.
func TestStoreDeleted(t *testing.T) {
	server := startKV(t)
	s := openStore(t, server, "fleet", nil)
	save := func(doc, version string) string {
		t.Helper()
		version, err := s.Save(t.Context(), []byte(doc), version)
		if err != nil {
			t.Fatal(err)
		}
		return version
	}
	holds := func(doc, version string) {
		t.Helper()
		if got, v, err := s.Load(t.Context()); string(got) != doc || v != version || err != nil {
			t.Errorf("Load: %q, version %q, %v; want %q, version %q", got, v, err, doc, version)
		}
	}
	first := save("one", "")
	second := save("two", first)

	server.Do(t, http.MethodDelete, "secret/data/fleet", nil)
	deleted(t, s, "version 2 was deleted at ", "bao kv undelete -mount=secret -versions=2 fleet")
	server.Do(t, http.MethodPost, "secret/undelete/fleet", map[string]any{"versions": []int{2}})
	holds("two", second)

	server.Do(t, http.MethodPut, "secret/destroy/fleet", map[string]any{"versions": []int{2}})
	deleted(t, s, "version 2 was destroyed for good", "bao kv rollback", "bao kv metadata delete -mount=secret fleet")
	server.Do(t, http.MethodDelete, "secret/metadata/fleet", nil)
	if _, _, err := s.Load(t.Context()); !errors.Is(err, keyset.ErrNotExist) {
		t.Errorf("Load: %v", err)
	}
	anew := save("anew", "")
	holds("anew", anew)
	if _, err := s.Save(t.Context(), []byte("of the first"), first); !errors.Is(err, keyset.ErrConflict) || !strings.HasPrefix(anew, "1@") || !strings.HasPrefix(first, "1@") {
		t.Errorf("versions %q and %q: %v", first, anew, err)
	}
	holds("anew", anew)

	// Where it asks everybody for cas, that is sent with every write.
	server.Do(t, http.MethodPost, "secret/config", map[string]any{"cas_required": true})
	holds("with cas", save("with cas", anew))
}

// An engine of version 1 takes whatever it is sent: it gets nothing.
func TestStoreEngines(t *testing.T) {
	server := startKV(t)
	server.Do(t, http.MethodPost, "sys/mounts/kv1", map[string]any{"type": "kv", "options": map[string]string{"version": "1"}})
	server.Do(t, http.MethodPut, "kv1/data/written", map[string]any{"keyset": "one"})
	server.Do(t, http.MethodPost, "sys/mounts/transit", map[string]any{"type": "transit"})
	server.Do(t, http.MethodPost, "sys/mounts/team/kv", map[string]any{"type": "kv-v2"})
	for path, c := range map[string]struct{ mount, word string }{
		"fleet":      {"kv1", "heeds no cas"},
		"written":    {"kv1", "no versions"},
		"other":      {"secret/sub", `mounted at "secret"`},
		"elsewhere":  {"none", "no KV engine at none"},
		"no/kv":      {"transit", ""},
		"data/fleet": {"secret", ""},
	} {
		s := openStore(t, server, path, url.Values{"mount": {c.mount}})
		_, _, err := s.Load(t.Context())
		if path == "data/fleet" { // a path like any other
			if !errors.Is(err, keyset.ErrNotExist) {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if err == nil || errors.Is(err, keyset.ErrNotExist) || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s at %s: %v", path, c.mount, err)
		}
		if _, err := s.Save(t.Context(), []byte("two"), ""); err == nil || errors.Is(err, keyset.ErrConflict) || !strings.Contains(err.Error(), c.word) {
			t.Errorf("Save in %s at %s: %v", path, c.mount, err)
		}
	}
	if status, _, err := server.Call(t.Context(), http.MethodGet, "kv1/data/fleet", nil); status != http.StatusNotFound || err != nil {
		t.Errorf("something was written: %d, %v", status, err)
	}
	if got := server.Do(t, http.MethodGet, "kv1/data/written", nil); got["keyset"] != "one" || len(got) != 1 {
		t.Errorf("what was written is now %v", got)
	}
	inner := openStore(t, server, "fleet", url.Values{"mount": {"team/kv"}})
	if version, err := inner.Save(t.Context(), []byte("one"), ""); !strings.HasPrefix(version, "1@") || err != nil {
		t.Errorf("Save: version %q, %v", version, err)
	}
}

func TestStoreInANamespaceWithTLS(t *testing.T) {
	outer := bao.Start(t, true)
	clearEnvironment(t)
	server := outer.In(t, "payments")
	server.Do(t, http.MethodPost, "sys/mounts/kv", map[string]any{"type": "kv-v2"})
	s := openStore(t, server, "fleet", url.Values{"mount": {"kv"}})
	version, err := s.Save(t.Context(), []byte("one"), "")
	if err != nil {
		t.Fatal(err)
	}
	if doc, v, err := s.Load(t.Context()); string(doc) != "one" || v != version || err != nil {
		t.Errorf("Load: %q, version %q, %v", doc, v, err)
	}
	if got := server.Do(t, http.MethodGet, "kv/data/fleet", nil)["data"].(map[string]any); got["keyset"] != "one" || len(got) != 1 {
		t.Errorf("stored is %v", got)
	}
	if _, _, err := openStore(t, outer, "fleet", url.Values{"mount": {"kv"}}).Load(context.WithoutCancel(t.Context())); err == nil {
		t.Error("the namespace is of no effect")
	}
}
