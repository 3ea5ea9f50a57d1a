package vault_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec/vault"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/keysettest"
)

func newStore(t testing.TB, f *fake, path string) *vault.Store {
	t.Helper()
	s, err := vault.NewStore(newClient(t, f), path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// saves saves a document and returns the new version.
func saves(t testing.TB, s *vault.Store, doc, version string) string {
	t.Helper()
	newVersion, err := s.Save(t.Context(), []byte(doc), version)
	if err != nil {
		t.Fatalf("Save: %v", err)
	}
	return newVersion
}

func holds(t testing.TB, s *vault.Store, doc, version string) {
	t.Helper()
	if got, v, err := s.Load(t.Context()); err != nil || string(got) != doc || v != version {
		t.Errorf("Load gives %.100q, version %q, %v; want %.100q, version %q", got, v, err, doc, version)
	}
}

// tells checks that an error is neither that nothing is there nor that another was
// first, and what it says.
func tells(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil || errors.Is(err, keyset.ErrNotExist) || errors.Is(err, keyset.ErrConflict) {
		t.Errorf("the error is %v", err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	if strings.ContainsAny(err.Error(), "{}\n") || strings.Contains(err.Error(), "%!") || strings.Contains(err.Error(), rootToken) || strings.Contains(err.Error(), "Transit") {
		t.Errorf("%q is not fit to print", err)
	}
}

func TestStore(t *testing.T) {
	f := startFake(t)
	keysettest.Store(t, keysettest.StoreHarness{
		New: func(t testing.TB, place string) keyset.Store { return newStore(t, f, "kit/"+place+"?mount=team/kv") },
		Silence: func(t testing.TB) {
			f.fail(&fault{hang: true, calls: -1})
			t.Cleanup(func() { f.fail(nil) })
		},
		Without: map[string]string{
			"killed writer": "a save is one request, which the server carries out or not",
			"restart":       "the fake forgets everything",
		},
	})
}

func TestStoreRequests(t *testing.T) {
	f := startFake(t)
	s := newStore(t, f, "a/fleet")
	if got := s.String(); got != "hashivault-kv:///a/fleet?mount=secret" {
		t.Errorf("it is called %s", got)
	}
	if _, _, err := s.Load(t.Context()); !errors.Is(err, keyset.ErrNotExist) || !strings.Contains(err.Error(), s.String()) {
		t.Errorf("Load: %v", err)
	}
	first := saves(t, s, "one", "")
	if second := saves(t, s, "two", first); first != fakeNumber(1) || second != fakeNumber(2) {
		t.Errorf("the versions are %q and %q, which are not those of KV", first, second)
	}
	var calls []string
	for _, r := range f.seen() {
		calls = append(calls, r.method+" "+r.path)
	}
	want := []string{
		"GET secret/data/a/fleet", "GET " + mountsPath + "secret/data/a/fleet", // Load
		"GET secret/data/a/fleet", "GET " + mountsPath + "secret/data/a/fleet", "PUT secret/data/a/fleet", // create
		"GET secret/data/a/fleet", "PUT secret/data/a/fleet", // update
	}
	if !slices.Equal(calls, want) {
		t.Errorf("the calls are %q, want %q", calls, want)
	}
	if got := f.kv["secret/a/fleet"].versions[1].data; len(got) != 1 || got["keyset"] != "two" {
		t.Errorf("stored is %v", got)
	}
}

func TestStoreDeleted(t *testing.T) {
	for _, destroyed := range []bool{false, true} {
		f := startFake(t)
		s := newStore(t, f, "fleet")
		saves(t, s, "two", saves(t, s, "one", ""))
		f.deleteSecret("secret/fleet", destroyed)
		words := []string{s.String(), "version 2 was deleted at 2026-12-02T03:10:17Z", "bao kv undelete -mount=secret -versions=2 fleet", "bao kv metadata delete -mount=secret fleet"}
		if destroyed {
			words = []string{s.String(), "version 2 was destroyed for good", "bao kv rollback -mount=secret -version=N fleet", "bao kv metadata delete -mount=secret fleet"}
		}
		_, _, err := s.Load(t.Context())
		tells(t, err, words...)
		for _, version := range []string{"", fakeNumber(1), fakeNumber(2)} {
			_, err := s.Save(t.Context(), []byte("three"), version)
			tells(t, err, words...)
			neverSent(t, err, keyset.Denied)
		}
		if n := f.kv["secret/fleet"].len(); n != 2 {
			t.Errorf("a version was written over what was deleted: there are %d", n)
		}
	}
}

// A secret that is deleted after it was read is not taken for one that was replaced.
func TestStoreDeletedMeanwhile(t *testing.T) {
	for _, change := range []struct {
		do    func(*fake)
		check func(error)
	}{
		{func(f *fake) {
			f.kv["secret/fleet"].versions = append(f.kv["secret/fleet"].versions, fakeVersion{deleted: "2026-12-02T03:10:17Z"})
		}, func(err error) {
			tells(t, err, "version 2 was deleted")
			neverSent(t, err, keyset.Denied)
		}},
		{func(f *fake) {
			f.kv["secret/fleet"].versions = append(f.kv["secret/fleet"].versions, fakeVersion{data: map[string]any{"keyset": "other"}})
		}, func(err error) {
			if !errors.Is(err, keyset.ErrConflict) {
				t.Errorf("the error is %v", err)
			}
		}},
	} {
		f := startFake(t)
		s := newStore(t, f, "fleet")
		version := saves(t, s, "one", "")
		f.fail(&fault{calls: 1, only: "data", handle: func(w http.ResponseWriter, r fakeRequest) { // the reading before the writing
			f.locked(func() {
				f.serveKV(w, r, nil)
				change.do(f)
			})
		}})
		_, err := s.Save(t.Context(), []byte("two"), version)
		change.check(err)
	}
}

// What was made anew in the place of a secret has the same number, and is another one.
func TestStoreMadeAnew(t *testing.T) {
	f := startFake(t)
	s := newStore(t, f, "fleet")
	version := saves(t, s, "one", "")
	f.locked(func() {
		f.kv["secret/fleet"] = &fakeSecret{versions: []fakeVersion{{created: "2026-12-02T03:00:00.2Z", data: map[string]any{"keyset": "anew"}}}}
	})
	if _, err := s.Save(t.Context(), []byte("two"), version); !errors.Is(err, keyset.ErrConflict) {
		t.Errorf("the error is %v", err)
	}
	holds(t, s, "anew", "1@2026-12-02T03:00:00.2Z")
}

// What the server says of a write must be so, and that of a mount too.
func TestStoreDoubts(t *testing.T) {
	f := startFake(t)
	s := newStore(t, f, "fleet")
	f.fail(&fault{calls: -1, handle: func(w http.ResponseWriter, r fakeRequest) {
		if strings.HasPrefix(r.path, mountsPath) {
			reply(w, map[string]any{"type": "other", "path": "secret/", "options": map[string]string{"version": "2"}})
			return
		}
		refuse(w, http.StatusNotFound)
	}})
	_, _, err := s.Load(t.Context())
	tells(t, err, `"secret" is an engine of the type "other"`)
	f.fail(&fault{calls: -1, handle: func(w http.ResponseWriter, _ fakeRequest) { w.WriteHeader(http.StatusNotFound) }})
	_, _, err = s.Load(t.Context())
	tells(t, err) // nobody has said that there is nothing
	f.fail(nil)
	version := saves(t, s, "one", "")
	f.fail(&fault{calls: -1, handle: func(w http.ResponseWriter, r fakeRequest) {
		if r.method == http.MethodGet {
			f.locked(func() { f.serveKV(w, r, nil) })
			return
		}
		reply(w, fakeVersion{}.metadata(1))
	}})
	_, err = s.Save(t.Context(), []byte("two"), version)
	tells(t, err, "version 1 is written in the place of 1")
}

// A document takes six times its size in JSON at most.
func TestStoreOfEscapes(t *testing.T) {
	f := startFake(t)
	s := newStore(t, f, "fleet")
	doc := strings.Repeat("\x01", keyset.MaxBytes)
	holds(t, s, doc, saves(t, s, doc, ""))
}

// That another writer was first is known, also if no more can be read then.
func TestStoreConflictWithoutReading(t *testing.T) {
	f := startFake(t)
	s := newStore(t, f, "fleet")
	version := saves(t, s, "one", "")
	reads := 0
	f.fail(&fault{calls: -1, handle: func(w http.ResponseWriter, r fakeRequest) {
		if r.method == http.MethodGet {
			if reads++; reads == 1 {
				f.locked(func() { f.serveKV(w, r, nil) })
				return
			}
			refuse(w, http.StatusForbidden, "permission denied")
			return
		}
		refuse(w, http.StatusBadRequest, "check-and-set parameter did not match the current version")
	}})
	if _, err := s.Save(t.Context(), []byte("two"), version); !errors.Is(err, keyset.ErrConflict) || reads < 2 {
		t.Errorf("after %d reads the error is %v", reads, err)
	}
}

func TestStoreEngines(t *testing.T) {
	f := startFake(t)
	f.kv["kv1/data/written"] = &fakeSecret{raw: []byte(`{"keyset":"one"}`)}
	for path, words := range map[string][]string{
		"fleet?mount=kv1":        {"version 1, which heeds no cas", "bao kv enable-versioning kv1"},
		"written?mount=kv1":      {"no versions", "bao kv enable-versioning kv1"},
		"fleet?mount=secret/sub": {`mounted at "secret"`, "without data/"},
		"fleet?mount=none":       {"no KV engine at none"},
	} {
		s := newStore(t, f, path)
		before := len(f.kv)
		_, _, err := s.Load(t.Context())
		tells(t, err, append(words, s.String())...)
		for _, version := range []string{"", fakeNumber(1)} {
			if _, err := s.Save(t.Context(), []byte("one"), version); version == "" {
				tells(t, err, words...)
			} else if err == nil {
				t.Errorf("%s: saved", path)
			}
		}
		if len(f.kv) != before || string(f.kv["kv1/data/written"].raw) != `{"keyset":"one"}` {
			t.Errorf("%s: something was written", path)
		}
	}
	for _, r := range f.seen() {
		if r.method != http.MethodGet {
			t.Errorf("%s %s was called", r.method, r.path)
		}
	}
}

func TestStoreOtherSecrets(t *testing.T) {
	f := startFake(t)
	s := newStore(t, f, "fleet")
	put := func(data map[string]any) {
		f.locked(func() { f.kv["secret/fleet"] = &fakeSecret{versions: []fakeVersion{{data: data}}} })
	}
	for _, data := range []map[string]any{{}, {"password": "canary"}, {"keyset": 5}, {"keyset": map[string]any{"version": 1}}, {"keyset": nil}} {
		put(data)
		_, _, err := s.Load(t.Context())
		tells(t, err, "no text in the field keyset", "bao kv put -mount=secret fleet keyset=@FILE")
		_, err = s.Save(t.Context(), []byte("two"), fakeNumber(1))
		tells(t, err, "no text in the field keyset")
		neverSent(t, err, keyset.Denied)
	}
	put(map[string]any{"keyset": "one", "note": "of the operator"})
	holds(t, s, "one", fakeNumber(1))
	_, err := s.Save(t.Context(), []byte("two"), fakeNumber(1))
	tells(t, err, "1 fields beside keyset, which would be lost")
	neverSent(t, err, keyset.ErrConfig)
	for _, doc := range []string{"\xff", strings.Repeat("x", keyset.MaxBytes+1)} {
		_, err = s.Save(t.Context(), []byte(doc), fakeNumber(1))
		tells(t, err, "too large, or no UTF-8")
		neverSent(t, err, keyset.ErrConfig)
	}
	if n := f.kv["secret/fleet"].len(); n != 1 {
		t.Errorf("%d versions", n)
	}
}

// neverSent checks that the error of a save tells that it cannot arrive later.
func neverSent(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v is not %q", err, want)
	}
}

// A write is sent again only where it surely had no effect.
func TestStoreRetries(t *testing.T) {
	for _, c := range []struct {
		status  int
		text    string
		repeats bool
		kind    keyset.Kind
		words   []string
	}{
		{429, "rate limit quota exceeded", true, keyset.Throttled, []string{"quota"}},
		{412, "required index state not present", true, keyset.Unavailable, []string{"caught up"}},
		{400, "Upgrading from non-versioned to versioned data. This backend will be unavailable for a brief period and will resume service shortly.", true, keyset.Unavailable, nil},
		{400, "Waiting for the primary to upgrade from non-versioned to versioned data. This backend will be unavailable for a brief period and will resume service when the primary is finished.", true, keyset.Unavailable, nil},
		{500, "1 error occurred: * put failed due to value being too large; got 1048900 bytes, max 1048576 bytes", false, keyset.Denied, []string{"max_entry_size", "update secret/data/fleet"}},
		{500, "check-and-set parameter did not match the current version", false, keyset.Unavailable, nil},
		{500, "internal error", false, keyset.Unavailable, []string{"its log"}},
		{502, "bad gateway", false, keyset.Unavailable, nil},
		{472, "", false, keyset.Unavailable, []string{"disaster recovery"}},
		{473, "", false, keyset.Unavailable, []string{"standby"}},
		{503, "Vault is sealed", false, keyset.Sealed, []string{"unseal"}},
		{400, "invalid request", false, keyset.Corrupt, nil},
		{403, "permission denied", false, keyset.Denied, []string{"update secret/data/fleet", "the client's"}},
		{404, "", false, keyset.NotFound, nil},
		{404, `no handler for route "secret/data/fleet". route entry not found.`, false, keyset.NotFound, []string{"no KV engine at secret"}},
		{413, "http: request body too large", false, keyset.Denied, nil},
		{204, "", false, keyset.NotFound, []string{"no KV engine at secret"}},
		{202, "", false, keyset.Unavailable, []string{"what answered is not KV"}},
	} {
		t.Run(fmt.Sprint(c.status, " ", c.text), func(t *testing.T) {
			f := startFake(t)
			s := newStore(t, f, "fleet")
			version := saves(t, s, "one", "")
			writes := 0
			f.fail(&fault{calls: -1, handle: func(w http.ResponseWriter, r fakeRequest) {
				if r.method == http.MethodGet {
					f.locked(func() {
						if r.path == "auth/token/lookup-self" {
							reply(w, f.tokens[rootToken].data)
							return
						}
						f.serveKV(w, r, nil)
					})
					return
				}
				if writes++; writes > 2 && c.repeats {
					f.locked(func() { f.serveKV(w, r, []byte(`{"data":{"keyset":"two"},"options":{"cas":1}}`)) })
					return
				}
				refuse(w, c.status, c.text)
			}})
			newVersion, err := s.Save(t.Context(), []byte("two"), version)
			if c.repeats {
				if err != nil || newVersion != fakeNumber(2) || writes != 3 {
					t.Errorf("version %q after %d writes, %v", newVersion, writes, err)
				}
				return
			}
			tells(t, err, append(c.words, s.String())...)
			if !errors.Is(err, c.kind) || writes != 1 {
				t.Errorf("%d writes, %v; want one, and %s", writes, err, c.kind)
			}
			if e := (*keyset.KeyError)(nil); errors.As(err, &e) {
				t.Errorf("%v is an error of a key service", err)
			}
		})
	}
}

// A write whose answer is lost is no conflict with itself.
func TestStoreLostAnswer(t *testing.T) {
	f := startFake(t)
	s := newStore(t, f, "fleet")
	version := saves(t, s, "one", "")
	f.fail(&fault{calls: -1, handle: func(w http.ResponseWriter, r fakeRequest) {
		if r.method == http.MethodGet {
			f.locked(func() { f.serveKV(w, r, nil) })
			return
		}
		f.locked(func() {
			f.kv["secret/fleet"].versions = append(f.kv["secret/fleet"].versions, fakeVersion{data: map[string]any{"keyset": "two"}})
		})
		panic(http.ErrAbortHandler)
	}})
	_, err := s.Save(t.Context(), []byte("two"), version)
	tells(t, err)
	if !errors.Is(err, keyset.Unavailable) {
		t.Errorf("the error is %v", err)
	}
	f.fail(nil)
	holds(t, s, "two", fakeNumber(2))
}

func TestStoreAnswers(t *testing.T) {
	f := startFake(t)
	s := newStore(t, f, "fleet")
	saves(t, s, "one", "")
	for _, c := range []struct {
		fault fault
		kind  keyset.Kind
	}{
		{fault{status: 200, raw: "<html>"}, keyset.Unavailable},
		{fault{status: 200, raw: `{"data":{"data":{"keyset":"canary"}}}`}, keyset.NotFound},
		{fault{status: 200, raw: `{"data":{"data":{"keyset":"canary"},"metadata":{"version":0}}}`}, keyset.NotFound},
		{fault{status: 200, raw: `{"data":{"data":{"keyset":"canary"},"metadata":{"version":"x"}}}`}, keyset.Unavailable},
		{fault{status: 200, raw: `{"data":"` + strings.Repeat("x", 8<<20) + `"}`}, keyset.Unavailable},
		{fault{status: 404, raw: "<html>not here</html>"}, keyset.NotFound},
		{fault{status: 404, errors: []string{"namespace not found"}}, keyset.NotFound},
		{fault{status: 404, errors: []string{"something else"}}, keyset.NotFound},
		{fault{status: 503, errors: []string{"Vault is sealed"}}, keyset.Sealed},
	} {
		c.fault.calls = -1
		f.fail(&c.fault)
		doc, version, err := s.Load(t.Context())
		tells(t, err, s.String())
		if doc != nil || version != "" || !errors.Is(err, c.kind) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%.60s: %q, %q, %v; want %s", c.fault.raw, doc, version, err, c.kind)
		}
		_, err = s.Save(t.Context(), []byte("two"), fakeNumber(1))
		tells(t, err, s.String())
		if !errors.Is(err, c.kind) || errors.Is(err, keyset.Denied) {
			t.Errorf("%.60s: %v is not %s alone", c.fault.raw, err, c.kind)
		}
	}
	f.fail(nil)
	holds(t, s, "one", fakeNumber(1))
}

// A new token in the file is used at once, and one that may only read is told so.
func TestStoreToken(t *testing.T) {
	f := startFake(t)
	saves(t, newStore(t, f, "fleet"), "one", "")
	path := filepath.Join(t.TempDir(), "token")
	put := func(token string) {
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("no-such-token")
	s, err := vault.OpenStore(t.Context(), "openbao-kv:///fleet?address="+f.URL+"&token-file="+path)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Load(t.Context())
	tells(t, err, path, "expired, revoked")
	if !errors.Is(err, keyset.Denied) || strings.Contains(err.Error(), "no-such-token") {
		t.Errorf("the error is %v", err)
	}
	put(rootToken)
	holds(t, s, "one", fakeNumber(1))
	if got := strings.Join(s.Settings(), "\n"); !strings.Contains(got, path) || !strings.Contains(got, f.URL) || strings.Contains(got, rootToken) {
		t.Errorf("the settings are %s", got)
	}
}

func TestOpenStore(t *testing.T) {
	clearEnvironment(t)
	t.Setenv("BAO_ADDR", "https://bao.example:8200")
	t.Setenv("BAO_TOKEN", "canary-token")
	for uri, want := range map[string]string{
		"hashivault-kv:///fleet":                        "hashivault-kv:///fleet?mount=secret",
		"HASHIVAULT-KV:///a/b.c?mount=/team/kv/":        "hashivault-kv:///a/b.c?mount=team/kv",
		"openbao-kv:///fleet?mount=kv&namespace=orders": "hashivault-kv:///fleet?mount=kv",
	} {
		source, err := keyset.SourceOpeners{vault.StoreOpener()}.Open(t.Context(), uri)
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		if got := fmt.Sprint(source); got != want {
			t.Errorf("%s is called %s, want %s", uri, got, want)
		}
		if _, ok := source.(keyset.Store); !ok {
			t.Errorf("%s cannot be written", uri)
		}
	}
	for _, uri := range []string{
		"", "fleet", "hashivault-kv:", "hashivault-kv://secret/fleet", "hashivault-kv:///", "hashivault-kv:////fleet", "hashivault-kv:///fleet/", "hashivault-kv:///../sys/seal",
		"hashivault-kv:///a//b", "hashivault-kv:///a/../b", "hashivault-kv:///a%2fb", "hashivault://fleet",
		"hashivault-kv:///fleet?mount=../sys", "hashivault-kv:///fleet?mount=", "hashivault-kv:///fleet?mount=a&mount=b", "hashivault-kv:///fleet?token=canary-token", "hashivault-kv:///fleet?x=%",
		"hashivault-kv:///fleet?address=http://bao.example:8200", "hashivault-kv:///fleet?ca-cert=/no/such/file",
	} {
		s, err := vault.OpenStore(t.Context(), uri)
		if s != nil || !errors.Is(err, keyset.ErrConfig) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, %v", uri, s, err)
		}
	}
	f := startFake(t)
	for _, path := range []string{"", "/fleet", "hashivault-kv:///fleet", "fleet?address=x", "fleet?mount=a&mount=b"} {
		if s, err := vault.NewStore(newClient(t, f), path); s != nil || !errors.Is(err, keyset.ErrConfig) {
			t.Errorf("%s: %v, %v", path, s, err)
		}
	}
	if s, err := vault.NewStore(nil, "fleet"); s != nil || !errors.Is(err, keyset.ErrConfig) {
		t.Errorf("no client: %v, %v", s, err)
	}
}

// The time of a call is bounded by its context, also while attempts are repeated.
func TestStoreDeadline(t *testing.T) {
	f := startFake(t)
	s := newStore(t, f, "fleet")
	f.fail(&fault{status: 429, errors: []string{"rate limit quota exceeded"}, calls: -1, header: http.Header{"Retry-After": {"3600"}}})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, _, err := s.Load(ctx)
	tells(t, err, "quota")
	if ctx.Err() != nil || !errors.Is(err, keyset.Throttled) {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}

// The address of somebody's client may have a password in it.
func TestSettingsShowNoPassword(t *testing.T) {
	f := startFake(t)
	client := newClient(t, f)
	if err := client.SetAddress("https://me:canary@bao.example:8200"); err != nil {
		t.Fatal(err)
	}
	store, err := vault.NewStore(client, "fleet")
	if err != nil {
		t.Fatal(err)
	}
	service, err := vault.New(client, "orders")
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{strings.Join(store.Settings(), ", "), fmt.Sprint(service)} {
		if strings.Contains(got, "canary") || !strings.Contains(got, "address https://bao.example:8200 from the client") {
			t.Errorf("the settings are %s", got)
		}
	}
}
