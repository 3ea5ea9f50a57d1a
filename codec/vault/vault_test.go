package vault_test

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/echoseal/echoseal/codec/vault"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/keysettest"
)

var testContext = keyset.EncryptionContext("canary-fleet", "0d9a3c1e-7a55-4c1e-9f5c-2f4b8d6a1e90", keyset.Data)

var testKey = []byte("canary: 32 bytes of a data key..")

// startFake starts a fake with the keys "orders" and "billing" that ends with the test.
func startFake(t testing.TB) *fake {
	t.Helper()
	clearEnvironment(t)
	f := newFake()
	t.Cleanup(f.Close)
	f.keys["transit/keys/orders"], f.keys["transit/keys/billing"] = newFakeKey(), newFakeKey()
	return f
}

// newTLSServer returns a server with a certificate of its own that serves f.
func newTLSServer(t testing.TB, f *fake) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(f)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // that nobody trusts it
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// clearEnvironment takes away what the host of the test may have set.
func clearEnvironment(t testing.TB) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "BAO_") || strings.HasPrefix(name, "VAULT_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("HOME", t.TempDir())
}

// newClient returns a client of the vendor for f that does not wait long.
func newClient(t testing.TB, f *fake) *api.Client {
	t.Helper()
	config := api.DefaultConfig()
	config.Address = f.URL
	config.MinRetryWait, config.MaxRetryWait = time.Millisecond, 5*time.Millisecond
	client, err := api.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	client.SetToken(rootToken)
	return client
}

func newService(t testing.TB, f *fake, keys ...string) *vault.Service {
	t.Helper()
	s, err := vault.New(newClient(t, f), keys...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wrap(t testing.TB, s *vault.Service) keyset.WrappedKey {
	t.Helper()
	w, err := s.Wrap(t.Context(), testKey, testContext)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// opens checks that s unwraps w to testKey.
func opens(t testing.TB, s *vault.Service, w keyset.WrappedKey) {
	t.Helper()
	if got, err := s.Unwrap(t.Context(), w, testContext); err != nil || !bytes.Equal(got, testKey) {
		t.Errorf("Unwrap: %d bytes, %v", len(got), err)
	}
}

// fails checks an error: its kind, and what it says.
func fails(t testing.TB, err error, kind keyset.Kind, words ...string) {
	t.Helper()
	var e *keyset.KeyError
	if !errors.As(err, &e) || e.Kind != kind || !errors.Is(err, kind) {
		t.Errorf("the error is %v, want one of the kind %s", err, kind)
		return
	}
	for _, word := range append(words, e.Key, e.Operation, e.Remedy) {
		if word == "" || !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	if strings.ContainsAny(err.Error(), "{}\n") {
		t.Errorf("%q is not fit to print", err)
	}
}

func TestKeyService(t *testing.T) {
	f := startFake(t)
	keys := []string{"orders", "billing?mount=transit"}
	faults := map[keyset.Kind]fault{
		keyset.NotFound:        {status: 404, errors: []string{`no handler for route "transit/decrypt/orders". route entry not found.`}},
		keyset.Disabled:        {status: 400, errors: []string{"refusing to use soft-deleted key"}},
		keyset.Denied:          {status: 403, errors: []string{"permission denied"}},
		keyset.Throttled:       {status: 429, errors: []string{`request path "transit/decrypt/orders": rate limit quota exceeded`}},
		keyset.Unavailable:     {status: 500, errors: []string{"internal error"}},
		keyset.Sealed:          {status: 503, errors: []string{"Vault is sealed"}},
		keyset.ContextMismatch: {status: 400, errors: []string{"cipher: message authentication failed"}},
		keyset.WrongKey:        {status: 400, errors: []string{"invalid ciphertext: version is too new"}},
		keyset.Corrupt:         {status: 400, errors: []string{"invalid ciphertext length"}},
		keyset.VersionTooOld:   {status: 400, errors: []string{"ciphertext or signature version is disallowed by policy (too old)"}},
	}
	failNext := func(t testing.TB, to fault, calls int) {
		to.calls = calls
		f.fail(&to)
		t.Cleanup(func() { f.fail(nil) })
	}
	keysettest.KeyService(t, keysettest.KeyServiceHarness{
		New: func(t testing.TB, which ...int) keyset.KeyService {
			var names []string
			for _, i := range which {
				names = append(names, keys[i])
			}
			return newService(t, f, names...)
		},
		Calls:   func() int { return len(f.seen()) },
		Silence: func(t testing.TB) { failNext(t, fault{hang: true}, -1) },
		Fail:    func(t testing.TB, kind keyset.Kind, calls int) { failNext(t, faults[kind], calls) },
		Kinds:   slices.Sorted(maps.Keys(faults)),
	})
}

func TestNames(t *testing.T) {
	f := startFake(t)
	f.keys["other/keys/orders"] = newFakeKey()
	s := newService(t, f, "orders?mount=other", "orders", "orders?mount=/transit/")
	w := wrap(t, s)
	if w.Service != "hashivault://orders?mount=other" || w.Version != "1" || !strings.HasPrefix(string(w.Ciphertext), "vault:v1:") {
		t.Errorf("wrapped by %s, version %q, as %.20q", w.Service, w.Version, w.Ciphertext)
	}
	for name, want := range map[string]bool{
		"hashivault://orders?mount=other":           true,
		"hashivault://orders?mount=transit":         true, // the default is written
		"hashivault://orders":                       false,
		"openbao://orders?mount=other":              false,
		"hashivault://orders?mount=other&address=x": false,
		"hashivault://orders?mount=third":           false,
	} {
		if s.Opens(name) != want {
			t.Errorf("Opens(%q) is %v", name, !want)
		}
	}
	if described, err := s.Describe(t.Context()); err != nil || len(described) != 2 {
		t.Errorf("%d keys, %v; want the two that are different", len(described), err)
	}
}

func TestNewRefuses(t *testing.T) {
	f := startFake(t)
	unverified := api.DefaultConfig()
	if err := unverified.ConfigureTLS(&api.TLSConfig{Insecure: true}); err != nil {
		t.Fatal(err)
	}
	insecure, err := api.NewClient(unverified)
	if err != nil {
		t.Fatal(err)
	}
	good := newClient(t, f)
	for what, c := range map[string]struct {
		client *api.Client
		keys   []string
		says   string
	}{
		"no client":        {nil, []string{"orders"}, "no client"},
		"no key":           {good, nil, "no key"},
		"a URI":            {good, []string{"hashivault://orders"}, "write KEY?mount=M"},
		"a path":           {good, []string{"../sys/seal"}, "write KEY"},
		"a mount too high": {good, []string{"orders?mount=../sys"}, "mount"},
		"a mount of parts": {good, []string{"orders?mount=a//b"}, "mount"},
		"an empty mount":   {good, []string{"orders?mount="}, "empty"},
		"two mounts":       {good, []string{"orders?mount=a&mount=b"}, "twice"},
		"an address":       {good, []string{"orders?address=https://127.0.0.1"}, "belongs to Open"},
		"half a query":     {good, []string{"orders?mount=%zz"}, "malformed"},
		"no verification":  {insecure, []string{"orders"}, "does not verify"},
	} {
		s, err := vault.New(c.client, c.keys...)
		if !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v; want an error that says %q", what, s, err, c.says)
		}
	}
}

// A request holds what it must, and never key_version.
func TestRequests(t *testing.T) {
	f := startFake(t)
	f.keys["transit/keys/derived"] = newFakeKey()
	f.keys["transit/keys/derived"].derived = true
	for _, name := range []string{"orders", "derived"} {
		client := newClient(t, f)
		client.SetNamespace("team")
		client.AddHeader("X-Team", "billing")
		s, err := vault.New(client, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("VAULT_NAMESPACE", "from the environment, too late")
		t.Setenv("VAULT_TOKEN", "likewise")
		t.Setenv("VAULT_WRAP_TTL", "5m")
		before := len(f.seen())
		opens(t, s, wrap(t, s))
		if _, _, err := s.Generate(t.Context(), testContext); err != nil {
			t.Fatal(err)
		}
		for _, r := range f.seen()[before:] {
			want := []string{}
			switch {
			case strings.HasPrefix(r.path, "transit/encrypt/"):
				want = []string{"associated_data", "plaintext"}
			case strings.HasPrefix(r.path, "transit/decrypt/"):
				want = []string{"associated_data", "ciphertext"}
			case strings.HasPrefix(r.path, "transit/datakey/"):
				want = []string{"associated_data"}
			}
			if name == "derived" && len(want) > 0 {
				want = append(want, "context")
			}
			slices.Sort(want)
			if got := slices.Sorted(maps.Keys(r.body)); !slices.Equal(got, want) {
				t.Errorf("%s has the parameters %q, want %q", r.path, got, want)
			}
			if r.body["context"] != "" && r.body["context"] != r.body["associated_data"] {
				t.Errorf("%s: context and associated_data differ", r.path)
			}
			if r.token != rootToken || r.namespace != "team" || r.wrapTTL != "" {
				t.Errorf("%s has a wrong token, or the namespace %q, or is to be wrapped for %q", r.path, r.namespace, r.wrapTTL)
			}
		}
	}
}

// A server that may only unwrap learns that a key is derived from the refusal.
func TestDerivedWithoutReading(t *testing.T) {
	f := startFake(t)
	derived := newFakeKey()
	derived.derived = true
	f.keys["transit/keys/orders"] = derived
	w := wrap(t, newService(t, f, "orders"))
	f.tokens["server"] = &fakeToken{allowed: []string{"transit/decrypt/"}}
	client := newClient(t, f)
	client.SetToken("server")
	s, err := vault.New(client, "orders")
	if err != nil {
		t.Fatal(err)
	}
	before := len(f.seen())
	opens(t, s, w)
	opens(t, s, w)
	if n := len(f.seen()) - before; n != 3 {
		t.Errorf("%d calls, want 3: one that is refused, and then one each", n)
	}
	_, err = s.Unwrap(t.Context(), w, keyset.EncryptionContext("canary-fleet", "another", keyset.Data))
	fails(t, err, keyset.ContextMismatch)
}

// Vault's datakey does not take associated_data, and says so in passing.
func TestGenerateOnVault(t *testing.T) {
	f := startFake(t)
	f.isVault = true
	s := newService(t, f, "orders")
	dataKey, w, err := s.Generate(t.Context(), testContext)
	if err != nil || len(dataKey) != 32 {
		t.Fatalf("%d bytes, %v", len(dataKey), err)
	}
	if got, err := s.Unwrap(t.Context(), w, testContext); err != nil || !bytes.Equal(got, dataKey) {
		t.Errorf("Unwrap: %d bytes, %v", len(got), err)
	}
	_, err = s.Unwrap(t.Context(), w, nil)
	fails(t, err, keyset.ContextMismatch)
}

// A server that ignores associated_data altogether binds nothing.
func TestUnboundContext(t *testing.T) {
	f := startFake(t)
	s := newService(t, f, "orders")
	w := wrap(t, s)
	ignores := func(data map[string]any) *fault {
		return &fault{calls: -1, only: "crypt", handle: func(rw http.ResponseWriter, _ fakeRequest) {
			reply(rw, data, "Endpoint ignored these unrecognized parameters: [associated_data]")
		}}
	}
	f.fail(ignores(map[string]any{"plaintext": testKey}))
	got, err := s.Unwrap(t.Context(), w, testContext)
	if got != nil {
		t.Error("a data key came back")
	}
	fails(t, err, keyset.ContextMismatch, "Vault 1.13")
	f.fail(ignores(map[string]any{"ciphertext": string(w.Ciphertext), "key_version": 1}))
	_, err = s.Wrap(t.Context(), testKey, testContext)
	fails(t, err, keyset.ContextMismatch, "Vault 1.13")
}

// Encrypting makes a missing key, if the token may create keys.
func TestWrapMakesNoKey(t *testing.T) {
	f := startFake(t)
	s := newService(t, f, "odrers")
	_, err := s.Wrap(t.Context(), testKey, testContext)
	fails(t, err, keyset.NotFound, "odrers", "transit")
	_, _, err = s.Generate(t.Context(), testContext)
	fails(t, err, keyset.NotFound)
	if f.keys["transit/keys/odrers"] != nil {
		t.Error("a key was made")
	}
	for _, size := range []int{0, 4097} {
		before := len(f.seen())
		_, err := s.Wrap(t.Context(), make([]byte, size), testContext)
		fails(t, err, keyset.Corrupt)
		if len(f.seen()) != before {
			t.Errorf("a data key of %d bytes was sent", size)
		}
	}
}

// Another engine at the mount must not get the data key: some store whatever comes.
func TestWrapAsksFirst(t *testing.T) {
	f := startFake(t)
	s := newService(t, f, "orders")
	f.fail(&fault{calls: -1, handle: func(w http.ResponseWriter, r fakeRequest) {
		if r.method == http.MethodGet {
			reply(w, map[string]any{"name": "something else", "latest_version": 1})
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}})
	before := len(f.seen())
	_, err := s.Wrap(t.Context(), testKey, testContext)
	fails(t, err, keyset.NotFound, "no Transit engine")
	for _, r := range f.seen()[before:] {
		if r.method != http.MethodGet {
			t.Errorf("%s %s was called", r.method, r.path)
		}
	}
	_, _, err = s.Generate(t.Context(), testContext)
	fails(t, err, keyset.NotFound, "no Transit engine")
}

func TestUnwrapLooksFirst(t *testing.T) {
	f := startFake(t)
	s := newService(t, f, "orders")
	w := wrap(t, s)
	whole := string(w.Ciphertext)
	before := len(f.seen())
	for what, c := range map[string]struct {
		ciphertext, version string
		kind                keyset.Kind
	}{
		"no version stored":    {whole, "", keyset.WrongKey},
		"another version":      {whole, "2", keyset.WrongKey},
		"another in the text":  {strings.Replace(whole, "v1", "v2", 1), "1", keyset.WrongKey},
		"version 0":            {strings.Replace(whole, "v1", "v0", 1), "0", keyset.Corrupt},
		"a version with zeros": {strings.Replace(whole, "v1", "v01", 1), "01", keyset.Corrupt},
		"a signed version":     {strings.Replace(whole, "v1", "v+1", 1), "1", keyset.Corrupt},
		"a huge version":       {strings.Replace(whole, "v1", "v4294967297", 1), "1", keyset.Corrupt},
		"no prefix":            {strings.TrimPrefix(whole, "vault:"), "1", keyset.Corrupt},
		"another prefix":       {strings.Replace(whole, "vault", "bao", 1), "1", keyset.Corrupt},
		"too short":            {"vault:v1:" + strings.Repeat("A", 36), "1", keyset.Corrupt},
		"too long":             {whole + strings.Repeat("AAAA", 2048), "1", keyset.Corrupt},
		"a line end":           {whole[:30] + "\n" + whole[30:], "1", keyset.Corrupt},
		"a quote":              {whole[:30] + `","x":"` + whole[30:], "1", keyset.Corrupt},
	} {
		_, err := s.Unwrap(t.Context(), keyset.WrappedKey{Service: w.Service, Version: c.version, Ciphertext: []byte(c.ciphertext)}, testContext)
		t.Run(what, func(t *testing.T) { fails(t, err, c.kind, "decrypt/orders") })
	}
	if n := len(f.seen()) - before; n != 0 {
		t.Errorf("%d calls for what could be seen", n)
	}
}

func TestVersions(t *testing.T) {
	f := startFake(t)
	s := newService(t, f, "orders")
	old := wrap(t, s)
	f.locked(func() { f.keys["transit/keys/orders"].rotate() })
	w := wrap(t, s)
	if old.Version != "1" || w.Version != "2" {
		t.Errorf("versions %q and %q", old.Version, w.Version)
	}
	opens(t, s, old)
	opens(t, s, w)
	anew, err := keyset.Services{s}.Rewrap(t.Context(), []keyset.WrappedKey{old}, testContext)
	if err != nil || anew.Version != "2" {
		t.Errorf("Rewrap gives version %q, %v", anew.Version, err)
	}
	f.locked(func() { f.keys["transit/keys/orders"].min = 2 })
	_, err = s.Unwrap(t.Context(), old, testContext)
	fails(t, err, keyset.VersionTooOld, "min_decryption_version")
	opens(t, s, anew)
}

// An answer under another name or version than was asked for is not taken.
func TestAnswersArePinned(t *testing.T) {
	f := startFake(t)
	s := newService(t, f, "orders")
	ciphertext := string(wrap(t, s).Ciphertext)
	for what, c := range map[string]struct {
		data map[string]any
		kind keyset.Kind
	}{
		"another version":    {map[string]any{"ciphertext": ciphertext, "key_version": 2, "plaintext": testKey}, keyset.WrongKey},
		"no version":         {map[string]any{"ciphertext": ciphertext, "plaintext": testKey}, keyset.WrongKey},
		"no ciphertext":      {map[string]any{"key_version": 1, "plaintext": testKey}, keyset.Unavailable},
		"a short ciphertext": {map[string]any{"ciphertext": "vault:v1:AAAA", "key_version": 1, "plaintext": testKey}, keyset.Unavailable},
		"other JSON":         {map[string]any{"ciphertext": 7}, keyset.Unavailable},
	} {
		f.fail(&fault{calls: -1, only: "transit/", handle: func(w http.ResponseWriter, r fakeRequest) {
			if r.method == http.MethodGet {
				reply(w, map[string]any{"name": "orders", "latest_version": 1})
				return
			}
			reply(w, c.data)
		}})
		t.Run(what, func(t *testing.T) {
			_, err := s.Wrap(t.Context(), testKey, testContext)
			fails(t, err, c.kind)
			dataKey, _, err := s.Generate(t.Context(), testContext)
			fails(t, err, c.kind)
			if dataKey != nil {
				t.Error("Generate gives a data key all the same")
			}
		})
	}
	f.fail(&fault{calls: -1, handle: func(w http.ResponseWriter, _ fakeRequest) {
		reply(w, map[string]any{"ciphertext": ciphertext, "key_version": 1, "plaintext": testKey[:16]})
	}})
	_, _, err := s.Generate(t.Context(), testContext)
	fails(t, err, keyset.Unavailable, "16 bytes")
	f.fail(&fault{calls: -1, handle: func(w http.ResponseWriter, _ fakeRequest) { reply(w, map[string]any{}) }})
	_, err = s.Unwrap(t.Context(), keyset.WrappedKey{Service: "hashivault://orders?mount=transit", Version: "1", Ciphertext: []byte(ciphertext)}, testContext)
	fails(t, err, keyset.Unavailable, "no data key")
}

// A standby sends a client on to the active node; the body must come along.
func TestRedirect(t *testing.T) {
	f := startFake(t)
	standby := newFake()
	t.Cleanup(standby.Close)
	standby.fail(&fault{calls: -1, handle: func(w http.ResponseWriter, r fakeRequest) {
		w.Header().Set("Location", f.URL+"/v1/"+r.path)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}})
	s := newService(t, standby, "orders")
	opens(t, s, wrap(t, s))
	f.fail(&fault{calls: -1, handle: func(w http.ResponseWriter, r fakeRequest) {
		w.Header().Set("Location", standby.URL+"/v1/"+r.path)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}})
	_, err := s.Wrap(t.Context(), testKey, testContext)
	fails(t, err, keyset.Unavailable, "circle")
}
