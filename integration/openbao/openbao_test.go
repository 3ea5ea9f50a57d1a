package openbao_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/echoseal/echoseal/codec/vault"
	"github.com/echoseal/echoseal/integration/internal/bao"
	"github.com/echoseal/echoseal/keyset"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The policies that the package documentation gives.
const (
	serverPolicy = `
		path "transit/decrypt/orders" { capabilities = ["update"] }`
	operatorPolicy = serverPolicy + `
		path "transit/datakey/plaintext/orders" { capabilities = ["update"] }
		path "transit/encrypt/orders"           { capabilities = ["update"] }
		path "transit/keys/orders"              { capabilities = ["read"] }`
)

var (
	testContext = keyset.EncryptionContext("fleet", "0d9a3c1e-7a55-4c1e-9f5c-2f4b8d6a1e90", keyset.Data)
	testKey     = []byte("canary: 32 bytes of a data key..")
)

// start starts a server with Transit and the given keys.
func start(t *testing.T, keys ...string) *bao.Server {
	t.Helper()
	s := bao.Start(t, false)
	clearEnvironment(t)
	enable(t, s, keys...)
	return s
}

func enable(t *testing.T, s *bao.Server, keys ...string) {
	t.Helper()
	s.Do(t, http.MethodPost, "sys/mounts/transit", map[string]any{"type": "transit"})
	for _, name := range keys {
		s.Do(t, http.MethodPost, "transit/keys/"+name, nil)
	}
}

// clearEnvironment takes away what the host of the test may have set.
func clearEnvironment(t *testing.T) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "BAO_") || strings.HasPrefix(name, "VAULT_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("HOME", t.TempDir())
}

// open returns a service for keys on s. The token is in a file, whose path is returned.
func open(t testing.TB, s *bao.Server, keys ...string) (*vault.Service, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	writeToken(t, path, s.Token)
	query := url.Values{"address": {s.Address}, "token-file": {path}}
	if s.Namespace != "" {
		query.Set("namespace", s.Namespace)
	}
	if s.CACert != "" {
		query.Set("ca-cert", s.CACert)
	}
	var uris []string
	for _, key := range keys {
		separator := "?"
		if strings.Contains(key, "?") {
			separator = "&"
		}
		uris = append(uris, "openbao://"+key+separator+query.Encode())
	}
	service, err := vault.Open(context.Background(), uris...)
	if err != nil {
		t.Fatal(err)
	}
	return service, path
}

// writeToken writes a token file the way an agent does.
func writeToken(t testing.TB, path, token string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func wrap(t testing.TB, s *vault.Service) keyset.WrappedKey {
	t.Helper()
	w, err := s.Wrap(t.Context(), testKey, testContext)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func opens(t testing.TB, s *vault.Service, w keyset.WrappedKey) {
	t.Helper()
	if got, err := s.Unwrap(t.Context(), w, testContext); err != nil || !bytes.Equal(got, testKey) {
		t.Errorf("Unwrap: %d bytes, %v", len(got), err)
	}
}

func unwrapFails(t testing.TB, s *vault.Service, w keyset.WrappedKey, kind keyset.Kind, words ...string) {
	t.Helper()
	got, err := s.Unwrap(t.Context(), w, testContext)
	if got != nil {
		t.Errorf("a data key of %d bytes came back", len(got))
	}
	fails(t, err, kind, words...)
}

func fails(t testing.TB, err error, kind keyset.Kind, words ...string) {
	t.Helper()
	var e *keyset.KeyError
	if !errors.As(err, &e) || e.Kind != kind {
		t.Errorf("the error is %v, want one of the kind %s", err, kind)
		return
	}
	for _, word := range append(words, e.Key, e.Operation, e.Remedy) {
		if word == "" || !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
}

func TestGenerateAndUnwrap(t *testing.T) {
	server := start(t, "orders")
	server.Do(t, http.MethodPost, "transit/keys/derived", map[string]any{"derived": true})
	server.Do(t, http.MethodPost, "transit/keys/chacha", map[string]any{"type": "chacha20-poly1305"})
	server.Do(t, http.MethodPost, "sys/mounts/team/transit", map[string]any{"type": "transit"})
	server.Do(t, http.MethodPost, "team/transit/keys/orders", nil)
	for key, name := range map[string]string{
		"orders":                    "hashivault://orders?mount=transit",
		"derived":                   "hashivault://derived?mount=transit",
		"chacha":                    "hashivault://chacha?mount=transit",
		"orders?mount=team/transit": "hashivault://orders?mount=team/transit",
	} {
		s, _ := open(t, server, key)
		dataKey, w, err := keyset.Services{s}.Generate(t.Context(), testContext)
		if err != nil || w.Service != name || w.Version != "1" {
			t.Fatalf("%s: %s, version %q, %v", key, w.Service, w.Version, err)
		}
		again, _ := open(t, server, key)
		if got, err := again.Unwrap(t.Context(), w, testContext); err != nil || !bytes.Equal(got, dataKey) {
			t.Errorf("%s: %d bytes, %v", key, len(got), err)
		}
		_, err = again.Unwrap(t.Context(), w, keyset.EncryptionContext("fleet", "0d9a3c1e-7a55-4c1e-9f5c-2f4b8d6a1e90", keyset.Auth))
		fails(t, err, keyset.ContextMismatch, "echoseal:purpose")
		opens(t, again, wrap(t, s))
	}
}

// A service starts nothing that outlives a call: no goroutine, and no connection, which
// has some.
func TestNothingOutlivesACall(t *testing.T) {
	server := start(t, "orders")
	before := goleak.IgnoreCurrent()
	s, path := open(t, server, "orders")
	opens(t, s, wrap(t, s))
	if _, _, err := s.Generate(t.Context(), testContext); err != nil {
		t.Error(err)
	}
	if _, err := s.Describe(t.Context()); err != nil {
		t.Error(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Wrap(cancelled, testKey, testContext); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	writeToken(t, path, "no-token")
	_, err := s.Wrap(t.Context(), testKey, testContext)
	fails(t, err, keyset.Denied)
	goleak.VerifyNone(t, before)
}

// A server has the right to unwrap and no other.
func TestPolicies(t *testing.T) {
	root := start(t, "orders")
	root.Do(t, http.MethodPost, "transit/keys/derived", map[string]any{"derived": true})
	operator, _ := open(t, root.As(root.NewToken(t, operatorPolicy, nil)), "orders")
	server, _ := open(t, root.As(root.NewToken(t, serverPolicy, nil)), "orders")

	w := wrap(t, operator)
	opens(t, operator, w)
	opens(t, server, w)
	dataKey, generated, err := operator.Generate(t.Context(), testContext)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := server.Unwrap(t.Context(), generated, testContext); err != nil || !bytes.Equal(got, dataKey) {
		t.Errorf("the server gets %d bytes, %v", len(got), err)
	}
	_, err = server.Wrap(t.Context(), testKey, testContext)
	fails(t, err, keyset.Denied, "no policy of it allows to read transit/keys/orders")
	_, _, err = server.Generate(t.Context(), testContext)
	fails(t, err, keyset.Denied, "no policy of it allows to update transit/datakey/plaintext/orders")
	for what, s := range map[string]*vault.Service{"operator": operator, "server": server} {
		described, err := s.Describe(t.Context())
		if err != nil || described[0].CredentialExpires.IsZero() || (described[0].Err == nil) != (what == "operator") {
			t.Errorf("%s: %+v, %v", what, described, err)
		}
	}

	rootService, _ := open(t, root, "derived")
	policy := `path "transit/decrypt/derived" { capabilities = ["update"] }`
	derived, _ := open(t, root.As(root.NewToken(t, policy, nil)), "derived")
	opens(t, derived, wrap(t, rootService))
}

func TestTLS(t *testing.T) {
	server := bao.Start(t, true)
	clearEnvironment(t)
	enable(t, server, "orders")
	s, _ := open(t, server, "orders")
	w := wrap(t, s)
	opens(t, s, w)
	if text := s.String(); !strings.Contains(text, "CA "+server.CACert+" from the URI") {
		t.Error(text)
	}
	t.Setenv("VAULT_TOKEN", server.Token)
	t.Setenv("VAULT_ADDR", server.Address)
	for _, variable := range []string{"BAO_CACERT", "VAULT_CACERT"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, server.CACert)
			s, err := vault.Open(t.Context(), "hashivault://orders")
			if err != nil {
				t.Fatal(err)
			}
			opens(t, s, w)
		})
	}
	s, err := vault.Open(t.Context(), "hashivault://orders")
	if err != nil {
		t.Fatal(err)
	}
	unwrapFails(t, s, w, keyset.Unavailable, "certificate is not accepted", "BAO_CACERT")
	t.Setenv("VAULT_SKIP_VERIFY", "true")
	if _, err := vault.Open(t.Context(), "hashivault://orders"); !errors.Is(err, keyset.ErrConfig) {
		t.Errorf("VAULT_SKIP_VERIFY: %v", err)
	}
}

func TestNamespace(t *testing.T) {
	server := start(t, "orders")
	team := server.In(t, "team")
	enable(t, team, "orders")
	inside, _ := open(t, team, "orders")
	outside, _ := open(t, server, "orders")
	w := wrap(t, inside)
	opens(t, inside, w)
	unwrapFails(t, outside, w, keyset.ContextMismatch) // a key of the same name
	nowhere := *server
	nowhere.Namespace = "nowhere"
	lost, _ := open(t, &nowhere, "orders")
	unwrapFails(t, lost, w, keyset.NotFound, "no such namespace")
	serverToken := team.NewToken(t, serverPolicy, nil)
	limited, _ := open(t, team.As(serverToken), "orders")
	opens(t, limited, w)
}

func TestRotation(t *testing.T) {
	server := start(t, "orders")
	s, _ := open(t, server, "orders")
	old := wrap(t, s)
	opens(t, s, old)
	server.Do(t, http.MethodPost, "transit/keys/orders/rotate", nil)
	warns(t, s, "version 1 of transit/keys/orders is in use here, and 2 is the newest")
	anew, err := keyset.Services{s}.Rewrap(t.Context(), []keyset.WrappedKey{old}, testContext)
	if err != nil || anew.Version != "2" {
		t.Fatalf("version %q, %v", anew.Version, err)
	}
	opens(t, s, old)
	opens(t, s, anew)
	server.Do(t, http.MethodPost, "transit/keys/orders/config", map[string]any{"min_decryption_version": 2})
	unwrapFails(t, s, old, keyset.VersionTooOld, "min_decryption_version of transit/keys/orders")
	opens(t, s, anew)
	warns(t, s, "min_decryption_version 2 refuses it")
	server.Do(t, http.MethodPost, "transit/keys/orders/config", map[string]any{"min_encryption_version": 2})
	server.Do(t, http.MethodPost, "transit/keys/orders/trim", map[string]any{"min_available_version": 2})
	unwrapFails(t, s, old, keyset.VersionTooOld, "trimmed")
	fresh, _ := open(t, server, "orders")
	opens(t, fresh, anew)
	warns(t, fresh, "root token")
}

func warns(t *testing.T, s *vault.Service, text string) {
	t.Helper()
	described, err := s.Describe(t.Context())
	if err != nil || len(described) != 1 || described[0].Err != nil {
		t.Fatalf("%+v, %v", described, err)
	}
	if all := strings.Join(described[0].Warnings, "\n"); !strings.Contains(all, text) {
		t.Errorf("%q does not warn of %q", all, text)
	}
}

// A ciphertext opens only under the key, the version and the context that it was made
// with.
func TestSwapped(t *testing.T) {
	server := start(t, "orders", "billing")
	s, _ := open(t, server, "orders", "billing")
	billing, _ := open(t, server, "billing")
	one, two := wrap(t, s), wrap(t, billing)
	opens(t, s, one)
	opens(t, s, two)
	swapped := one
	swapped.Ciphertext = two.Ciphertext
	unwrapFails(t, s, swapped, keyset.ContextMismatch, "another key")
	swapped = two
	swapped.Service = one.Service
	unwrapFails(t, s, swapped, keyset.ContextMismatch)
	unwrapFails(t, billing, one, keyset.WrongKey, "list it")
	for what, change := range map[string]func(c map[string]string){
		"keyset":  func(c map[string]string) { c["echoseal:keyset"] = "other" },
		"entry":   func(c map[string]string) { c["echoseal:key"] = "other" },
		"purpose": func(c map[string]string) { c["echoseal:purpose"] = "auth" },
	} {
		changed := keyset.EncryptionContext("fleet", "0d9a3c1e-7a55-4c1e-9f5c-2f4b8d6a1e90", keyset.Data)
		change(changed)
		_, err := s.Unwrap(t.Context(), one, changed)
		t.Run(what, func(t *testing.T) { fails(t, err, keyset.ContextMismatch) })
	}
}

// Neither is a key made by a misspelt name, nor a data key given to another engine: a
// KV mount takes whatever is written.
func TestWrapAsksFirst(t *testing.T) {
	server := start(t, "orders")
	server.Do(t, http.MethodPost, "sys/mounts/kv", map[string]any{"type": "kv"})
	misspelt, _ := open(t, server, "odrers")
	_, err := misspelt.Wrap(t.Context(), testKey, testContext)
	fails(t, err, keyset.NotFound, "no Transit key odrers")
	if status, _, err := server.Call(t.Context(), http.MethodGet, "transit/keys/odrers", nil); err != nil || status != http.StatusNotFound {
		t.Errorf("a key was made: status %d, %v", status, err)
	}
	other, _ := open(t, server, "orders?mount=kv")
	_, err = other.Wrap(t.Context(), testKey, testContext)
	fails(t, err, keyset.NotFound)
	if status, _, err := server.Call(t.Context(), http.MethodGet, "kv/encrypt/orders", nil); err != nil || status != http.StatusNotFound {
		t.Errorf("the data key was stored: status %d, %v", status, err)
	}
	_, _, err = other.Generate(t.Context(), testContext)
	fails(t, err, keyset.NotFound, "no Transit engine at kv")
}

// Every kind that a server can be brought to, and how soon.
func TestKinds(t *testing.T) {
	server := start(t, "orders", "deleted", "again", "limited")
	s, _ := open(t, server, "orders", "deleted", "again", "missing", "rsa", "orders?mount=nowhere", "limited")
	w := wrap(t, s)
	named := func(name string) keyset.WrappedKey {
		n := w
		n.Service = "hashivault://" + name
		return n
	}
	server.Do(t, http.MethodPost, "transit/keys/rsa", map[string]any{"type": "rsa-2048"})
	server.Do(t, http.MethodDelete, "transit/keys/deleted/soft-delete", map[string]any{})
	server.Do(t, http.MethodPost, "transit/keys/again/rotate", nil)
	again, _ := open(t, server, "again")
	second := wrap(t, again)
	server.Do(t, http.MethodPost, "transit/keys/again/config", map[string]any{"deletion_allowed": true})
	warns(t, again, "deletion_allowed=false")
	server.Do(t, http.MethodDelete, "transit/keys/again", nil)
	server.Do(t, http.MethodPost, "transit/keys/again", nil)

	unwrapFails(t, s, named("missing?mount=transit"), keyset.NotFound, "no Transit key missing")
	unwrapFails(t, s, named("orders?mount=nowhere"), keyset.NotFound, "no Transit engine at nowhere")
	unwrapFails(t, s, named("deleted?mount=transit"), keyset.Disabled, "soft-delete-restore")
	unwrapFails(t, s, named("rsa?mount=transit"), keyset.WrongKey, "aes256-gcm96")
	unwrapFails(t, s, second, keyset.WrongKey, "another key of that name")
	server.Do(t, http.MethodPost, "transit/keys/deleted/soft-delete-restore", map[string]any{})
	unwrapFails(t, s, named("deleted?mount=transit"), keyset.ContextMismatch) // it is there again

	server.Do(t, http.MethodPost, "sys/quotas/rate-limit/test", map[string]any{"path": "transit", "rate": 1, "interval": "1h"})
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var err error
	for range 3 {
		_, err = s.Unwrap(short, w, testContext)
	}
	fails(t, err, keyset.Throttled, "quota")
	server.Do(t, http.MethodDelete, "sys/quotas/rate-limit/test", nil)
	opens(t, s, w)

	server.Do(t, http.MethodPut, "sys/seal", nil)
	began := time.Now()
	unwrapFails(t, s, w, keyset.Sealed, "sealed", "unseal")
	if waited := time.Since(began); waited > time.Second {
		t.Errorf("it was tried again for %v", waited)
	}
	described, err := s.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range described {
		fails(t, d.Err, keyset.Sealed)
	}
}
