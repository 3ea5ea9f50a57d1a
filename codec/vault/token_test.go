package vault_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec/vault"
	"github.com/echoseal/echoseal/keyset"
)

func openService(t testing.TB, uris ...string) *vault.Service {
	t.Helper()
	s, err := vault.Open(t.Context(), uris...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func writeToken(t testing.TB, path, token string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestTokenFile(t *testing.T) {
	f := startFake(t)
	path := filepath.Join(t.TempDir(), "token")
	s := openService(t, "hashivault://orders?address="+f.URL+"&token-file="+path)
	f.locked(func() { f.tokens["first"], f.tokens["second"] = f.tokens[rootToken], f.tokens[rootToken] })

	_, err := s.Wrap(t.Context(), testKey, testContext)
	fails(t, err, keyset.Denied, "no token can be read", path)
	for what, text := range map[string]string{"empty": "\n", "of two lines": "first\nsecond", "no text": "\x00\x01", "long": strings.Repeat("x", 70<<10)} {
		writeToken(t, path, text)
		_, err = s.Wrap(t.Context(), testKey, testContext)
		t.Run(what, func(t *testing.T) { fails(t, err, keyset.Denied, "no token can be read") })
	}
	writeToken(t, path, "first\n")
	w := wrap(t, s)
	opens(t, s, w)

	f.locked(func() { delete(f.tokens, "first") })
	_, err = s.Unwrap(t.Context(), w, testContext)
	fails(t, err, keyset.Denied, "expired, revoked", path)
	writeToken(t, path, "  second")
	opens(t, s, w)
	if seen := f.seen(); seen[len(seen)-1].token != "second" {
		t.Error("the new token was not used")
	}
}

// A token that is replaced between reading the file and the answer is tried again.
func TestTokenReplacedMeanwhile(t *testing.T) {
	f := startFake(t)
	path := filepath.Join(t.TempDir(), "token")
	writeToken(t, path, rootToken)
	s := openService(t, "hashivault://orders?address="+f.URL+"&token-file="+path)
	w := wrap(t, s)
	writeToken(t, path, "old")
	f.fail(&fault{calls: 1, handle: func(w http.ResponseWriter, _ fakeRequest) {
		writeToken(t, path, rootToken)
		refuse(w, 403, "permission denied")
	}})
	before := len(f.seen())
	opens(t, s, w)
	if n := len(f.seen()) - before; n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
}

func TestDescribe(t *testing.T) {
	f := startFake(t)
	f.keys["transit/keys/orders"].rotate()
	f.keys["transit/keys/billing"].flags = map[string]any{"exportable": true, "deletion_allowed": true}
	f.keys["transit/keys/deleted"] = newFakeKey()
	f.keys["transit/keys/deleted"].deleted = true
	s := newService(t, f, "orders", "billing", "missing", "deleted")
	described, err := s.Describe(t.Context())
	if err != nil || len(described) != 4 {
		t.Fatalf("%d descriptions, %v", len(described), err)
	}
	orders, billing, missing := described[0], described[1], described[2]
	fails(t, described[3].Err, keyset.Disabled, "soft-delete-restore")
	if orders.Service != "hashivault://orders?mount=transit" || orders.Version != "2" || orders.Err != nil || len(orders.Warnings) > 0 || !orders.CredentialExpires.IsZero() {
		t.Errorf("orders: %+v", orders)
	}
	if text := strings.Join(billing.Warnings, "\n"); !strings.Contains(text, "leave the server") || !strings.Contains(text, "deletion_allowed=false") {
		t.Errorf("billing: %+v", billing)
	}
	fails(t, missing.Err, keyset.NotFound, "read transit/keys/missing")

	// A token that is not renewed.
	expires := expiring(4*time.Minute, time.Hour)
	f.locked(func() { f.tokens[rootToken].data = expires })
	described, err = s.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if at := described[0].CredentialExpires; at.Format(time.RFC3339Nano) != expires["expire_time"] {
		t.Errorf("the token expires at %v, want %v", at, expires["expire_time"])
	}
	if text := strings.Join(described[0].Warnings, "\n"); !strings.Contains(text, "expires in 4m0s") || !strings.Contains(text, "the client's") {
		t.Errorf("the token: %q", text)
	}
	f.locked(func() { f.tokens[rootToken].data = expiring(40*time.Minute, time.Hour) })
	described, err = s.Describe(t.Context())
	if err != nil || len(described[0].Warnings) > 0 || described[0].CredentialExpires.IsZero() {
		t.Errorf("a token with time left: %+v, %v", described[0], err)
	}
	f.locked(func() {
		f.tokens[rootToken].data = map[string]any{"expire_time": nil, "policies": []string{"root"}, "num_uses": 3}
	})
	described, err = s.Describe(t.Context())
	if text := strings.Join(described[0].Warnings, "\n"); err != nil || !strings.Contains(text, "root token") || !strings.Contains(text, "3 more times") {
		t.Errorf("a root token: %q, %v", text, err)
	}

	// A server cannot read the key; it still learns when its token ends.
	f.locked(func() {
		f.tokens[rootToken] = &fakeToken{allowed: []string{"transit/decrypt/"}, data: expiring(40*time.Minute, time.Hour)}
	})
	described, err = s.Describe(t.Context())
	if err != nil || described[0].CredentialExpires.IsZero() {
		t.Errorf("a server: %+v, %v", described[0], err)
	}
	fails(t, described[0].Err, keyset.Denied, "no policy of it allows to read transit/keys/orders")
}

// What will fail at the next start is told while it still works.
func TestDescribeWarnsOfVersions(t *testing.T) {
	f := startFake(t)
	s := newService(t, f, "orders")
	key := f.keys["transit/keys/orders"]
	warnings := func() string {
		t.Helper()
		described, err := s.Describe(t.Context())
		if err != nil || described[0].Err != nil {
			t.Fatal(err, described[0].Err)
		}
		return strings.Join(described[0].Warnings, "\n")
	}
	w := wrap(t, s)
	opens(t, s, w)
	if text := warnings(); text != "" {
		t.Errorf("all is well, and there is %q", text)
	}
	f.locked(func() { key.rotate().rotate() })
	newest := wrap(t, s)
	opens(t, s, newest)
	if text := warnings(); !strings.Contains(text, "version 1 of transit/keys/orders is in use here, and 3 is the newest") {
		t.Errorf("an old version in use: %q", text)
	}
	f.locked(func() { key.min = 2 })
	if text := warnings(); !strings.Contains(text, "min_decryption_version 2 refuses it") {
		t.Errorf("a refused version in use: %q", text)
	}
	s = newService(t, f, "orders")
	if text := warnings(); !strings.Contains(text, "below 2 (min_decryption_version)") {
		t.Errorf("nothing in use: %q", text)
	}
	opens(t, s, newest)
	if text := warnings(); text != "" {
		t.Errorf("only the newest in use: %q", text)
	}
}
