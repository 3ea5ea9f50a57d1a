package keyset_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/keyset"
)

// A keeper is a key service that keeps each plaintext that it has given away, and counts
// calls. What it does can be spoilt.
type keeper struct {
	keyset.KeyService

	mu      sync.Mutex
	given   [][]byte
	calls   int
	wrap    func(keyset.WrappedKey) keyset.WrappedKey // of what is wrapped
	unwrap  func([]byte) []byte                       // of what is unwrapped
	fail    error                                     // of Unwrap
	secrets [][]byte                                  // to be generated, the last one again and again
}

func newKeeper() *keeper { return &keeper{KeyService: memkek.New("a")} }

func (k *keeper) keep(secret []byte) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.given = append(k.given, secret)
	return secret
}

func (k *keeper) call() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
}

func (k *keeper) Wrap(ctx context.Context, dataKey []byte, ec map[string]string) (keyset.WrappedKey, error) {
	k.call()
	w, err := k.KeyService.Wrap(ctx, dataKey, ec)
	if k.wrap != nil {
		w = k.wrap(w)
	}
	return w, err
}

func (k *keeper) Unwrap(ctx context.Context, w keyset.WrappedKey, ec map[string]string) ([]byte, error) {
	k.call()
	dataKey, err := k.KeyService.Unwrap(ctx, w, ec)
	if k.unwrap != nil {
		dataKey = k.unwrap(dataKey)
	}
	if k.fail != nil {
		err = k.fail
	}
	return k.keep(dataKey), err
}

func (k *keeper) Generate(ctx context.Context, ec map[string]string) ([]byte, keyset.WrappedKey, error) {
	dataKey := []byte(strings.Repeat("k", 32))
	if len(k.secrets) > 0 {
		dataKey = bytes.Clone(k.secrets[0])
		k.secrets = k.secrets[min(1, len(k.secrets)-1):]
	}
	w, err := k.Wrap(ctx, dataKey, ec)
	return k.keep(dataKey), w, err
}

// zeroed checks that every plaintext key that a service gave is zeroed, but for those
// that the caller of the test has.
func (k *keeper) zeroed(t *testing.T, what string, but ...[]byte) {
	t.Helper()
	for i, secret := range k.given {
		held := false
		for _, b := range but {
			held = held || len(secret) > 0 && len(b) > 0 && &secret[0] == &b[0]
		}
		if !held && bytes.Count(secret, []byte{0}) != len(secret) {
			t.Errorf("%s: plaintext %d of %d is left in memory", what, i, len(k.given))
		}
	}
	if len(k.given) == 0 {
		t.Errorf("%s: the service gave nothing", what)
	}
}

func initSecrets(secrets ...[]byte) keyset.InitOptions {
	return keyset.InitOptions{Name: "fleet", Secrets: secrets, Note: at(0)}
}

func TestInit(t *testing.T) {
	k := newKeeper()
	d, auth, err := keyset.Init(t.Context(), keyset.Services{k}, keyset.InitOptions{Name: "fleet", Note: at(time.Nanosecond)})
	must(t, err)
	k.zeroed(t, "Init")
	p := d.Primary()
	when := start.Add(time.Millisecond)
	if len(d.Keys) != 1 || p.State != keyset.Primary || p.Format != "v1" || !p.Created.Equal(when) || !p.Staged.Equal(when) || !p.Promoted.Equal(when) || p.MaxTTL != 10*time.Minute {
		t.Errorf("%+v", p)
	}
	if d.Revision != 1 || d.TTL != 10*time.Minute || d.Auth.ID != auth.ID() || d.Auth.ID == p.ID || d.Lineage == d.Auth.ID || len(d.Peers) != 0 {
		t.Errorf("%+v", d)
	}
	if h := d.History; len(h) != 1 || h[0].Action != "init" || h[0].KID != p.KID || h[0].Actor != "test" || !h[0].At.Equal(when) {
		t.Errorf("%+v", h)
	}
	text, err := auth.Encode(d)
	must(t, err)
	_, _, version, err := keyset.Load(t.Context(), keyset.Bytes(text), keyset.Services{k}, "fleet")
	if err != nil || version == "" {
		t.Error(version, err)
	}
	k.zeroed(t, "Load")
	other, _, err := keyset.Init(t.Context(), keyset.Services{memkek.New("a")}, keyset.InitOptions{Name: "fleet", Note: at(0)})
	must(t, err)
	if other.Lineage == d.Lineage || other.Auth.ID == d.Auth.ID || other.Primary().ID == p.ID || other.Primary().KID == p.KID {
		t.Error("two keysets share an id")
	}
}

// The ring of a server is taken over: the first secret seals, and tokens under each are
// accepted.
func TestInitTakesSecretsOver(t *testing.T) {
	secrets := [][]byte{upFrom(1), []byte(strings.Repeat("text ", 200)), upFrom(3)}
	ring, err := local.New(secrets...)
	must(t, err)
	k := newKeeper()
	s := keyset.Services{k}
	o := initSecrets(secrets...)
	o.After, o.TTL = 41, time.Hour
	d, _, err := keyset.Init(t.Context(), s, o)
	must(t, err)
	k.zeroed(t, "Init")
	if !bytes.Equal(secrets[0], upFrom(1)) {
		t.Error("a secret of the caller was changed")
	}
	if d.Revision != 42 || d.TTL != time.Hour || len(d.Keys) != 3 {
		t.Errorf("%+v", d)
	}
	for i, k := range d.Keys {
		key, err := local.NewKey(secrets[i])
		must(t, err)
		state, demoted := keyset.Retiring, start
		if i == 0 {
			state, demoted = keyset.Primary, time.Time{}
		}
		if k.KID != key.KID() || k.State != state || !k.Demoted.Equal(demoted) || !k.Drained.IsZero() || k.MaxTTL != time.Hour {
			t.Errorf("key %d: %+v", i, k)
		}
		if secret, err := s.OpenSecret(t.Context(), "fleet", k); err != nil || !bytes.Equal(secret, secrets[i]) {
			t.Errorf("key %d: %v", i, err)
		}
	}
	token, err := ring.Seal([]byte("state"))
	must(t, err)
	key, err := s.OpenKey(t.Context(), "fleet", *d.Primary())
	must(t, err)
	again, err := local.NewRing(key)
	must(t, err)
	if state, err := again.Unseal(token); err != nil || string(state) != "state" {
		t.Errorf("a token in flight: %q, %v", state, err)
	}
}

// What is wrong is told before a service is called.
func TestInitRefuses(t *testing.T) {
	good := initSecrets
	for says, o := range map[string]keyset.InitOptions{
		"name: it is not":                 {Note: at(0)},
		"name: it is not [":               {Name: "Fleet", Note: at(0)},
		"ttl: it is not in [1s":           {Name: "fleet", TTL: time.Millisecond, Note: at(0)},
		"ttl: it is not in":               {Name: "fleet", TTL: -time.Hour, Note: at(0)},
		"policy.max_age: it is not":       {Name: "fleet", Policy: keyset.Policy{Settle: time.Minute}, Note: at(0)},
		"the revision to follow is not":   {Name: "fleet", After: -1, Note: at(0)},
		"the revision to follow":          {Name: "fleet", After: 1<<63 - 1, Note: at(0)},
		"is forged; remove that":          {Name: "fleet", After: 1 << 52, Note: at(0)},
		"the time at which it is made":    {Name: "fleet"},
		"actor: ":                         {Name: "fleet", Note: keyset.Note{At: start, Actor: "\n"}},
		"secret 0: it is 31 bytes":        good(make([]byte, 31)),
		"secret 1: it is 0 bytes":         good(upFrom(0), nil),
		"secret 1: it is 1025 bytes":      good(upFrom(0), make([]byte, 1025)),
		"of secret 0: give each one once": good(upFrom(0), upFrom(1), upFrom(0)),
		"32 to 1024 are possible":         good(make([]byte, 5000)),
	} {
		k := newKeeper()
		d, auth, err := keyset.Init(t.Context(), keyset.Services{k}, o)
		if d != nil || auth != nil || !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), says) || k.calls > 0 {
			t.Errorf("%s: %d calls, %v", says, k.calls, err)
		}
	}
	if _, _, err := keyset.Init(t.Context(), nil, good()); !errors.Is(err, keyset.ErrConfig) {
		t.Errorf("no service: %v", err)
	}
	if d, _, err := keyset.Init(t.Context(), keyset.Services{newKeeper()}, keyset.InitOptions{Name: "fleet", After: 1<<52 - 1, Note: at(0)}); err != nil || d.Revision != 1<<52 {
		t.Errorf("the highest revision: %v", err)
	}
	for _, n := range []int{32, 1024} {
		if _, _, err := keyset.Init(t.Context(), keyset.Services{newKeeper()}, good(make([]byte, n))); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	// What Policy.Was says of a keyset that never was does not count.
	p := keyset.DefaultPolicy()
	p.Was = &keyset.FormerPolicy{}
	if d, _, err := keyset.Init(t.Context(), keyset.Services{newKeeper()}, keyset.InitOptions{Name: "fleet", Policy: p, Note: at(0)}); err != nil || d.Policy.Was != nil {
		t.Errorf("%v", err)
	}
}

// A service that does not give back what it wrapped is found before anything is stored,
// and no plaintext is left.
func TestPreflight(t *testing.T) {
	for name, spoil := range map[string]func(*keeper){
		"another data key": func(k *keeper) { k.unwrap = func(b []byte) []byte { b[0] ^= 1; return b } },
		"a longer one":     func(k *keeper) { k.unwrap = func(b []byte) []byte { return append(b, 0) } },
		"a shorter one":    func(k *keeper) { k.unwrap = func(b []byte) []byte { return b[:len(b)-1] } },
		"none":             func(k *keeper) { k.unwrap = func([]byte) []byte { return nil } },
		"an error beside":  func(k *keeper) { k.fail = keyset.Denied },
		"under a key that nobody opens": func(k *keeper) {
			k.wrap = func(w keyset.WrappedKey) keyset.WrappedKey { w.Service = "memkek://else"; return w }
		},
		"a damaged ciphertext": func(k *keeper) {
			k.wrap = func(w keyset.WrappedKey) keyset.WrappedKey { w.Ciphertext[20] ^= 1; return w }
		},
	} {
		d, _ := initKeyset(t, keyset.Services{memkek.New("a")})
		k := newKeeper()
		spoil(k)
		s := keyset.Services{k}
		for what, run := range map[string]func() error{
			"Init":        func() error { _, _, err := keyset.Init(t.Context(), s, initSecrets()); return err },
			"GenerateKey": func() error { _, err := d.GenerateKey(t.Context(), s, start); return err },
			"WrapKey":     func() error { _, err := d.WrapKey(t.Context(), s, upFrom(9), start); return err },
		} {
			err := run()
			if err == nil || strings.Contains(err.Error(), strings.Repeat("k", 8)) {
				t.Errorf("%s, %s: %v", what, name, err)
			}
		}
		k.zeroed(t, name)
	}
}

func TestGenerateKeyDrawsAgain(t *testing.T) {
	k := newKeeper()
	k.secrets = [][]byte{upFrom(0), upFrom(1), upFrom(1), upFrom(1), upFrom(2)}
	s := keyset.Services{k}
	d, _, err := keyset.Init(t.Context(), s, initSecrets()) // auth, and a first key
	must(t, err)
	fresh, err := d.GenerateKey(t.Context(), s, start.Add(1))
	must(t, err)
	if key, _ := local.NewKey(upFrom(2)); fresh.KID != key.KID() || fresh.State != "" || !fresh.Created.Equal(start.Add(time.Millisecond)) || !fresh.Staged.IsZero() {
		t.Errorf("%+v", fresh)
	}
	// Not that of a key that was there, either.
	must(t, d.Stage(at(1), fresh), d.Abort(at(2), fresh.KID))
	if _, err := d.GenerateKey(t.Context(), s, start); err == nil || !strings.Contains(err.Error(), "the random source does not work") {
		t.Errorf("a service that always gives one key: %v", err)
	}
	k.zeroed(t, "GenerateKey")
	if _, err := d.GenerateKey(t.Context(), nil, start); !errors.Is(err, keyset.ErrConfig) {
		t.Errorf("no service: %v", err)
	}
	k.secrets = [][]byte{make([]byte, 16)}
	if _, err := d.GenerateKey(t.Context(), s, start); !errors.Is(err, keyset.Corrupt) {
		t.Errorf("a data key of 16 bytes: %v", err)
	}
}

func TestWrapKey(t *testing.T) {
	k := newKeeper()
	s := keyset.Services{k}
	d, _, err := keyset.Init(t.Context(), s, initSecrets(upFrom(0)))
	must(t, err)
	k.calls = 0
	for _, n := range []int{0, 1, 31, 1025} {
		if _, err := d.WrapKey(t.Context(), s, make([]byte, n), start); !errors.Is(err, keyset.ErrConfig) || k.calls > 0 {
			t.Errorf("%d bytes: %d calls, %v", n, k.calls, err)
		}
	}
	var move *keyset.MoveError
	if _, err := d.WrapKey(t.Context(), s, upFrom(0), start); !errors.As(err, &move) || k.calls > 0 {
		t.Errorf("the primary's secret: %d calls, %v", k.calls, err)
	}
	if _, err := d.WrapKey(t.Context(), nil, upFrom(7), start); !errors.Is(err, keyset.ErrConfig) {
		t.Errorf("no service: %v", err)
	}
	secret := upFrom(7)
	key, err := d.WrapKey(t.Context(), s, secret, start)
	must(t, err, d.Stage(at(1), key))
	if !bytes.Equal(secret, upFrom(7)) {
		t.Error("the caller's secret was changed")
	}
	k.zeroed(t, "WrapKey")
}

func TestOpenRefuses(t *testing.T) {
	k := newKeeper()
	s := keyset.Services{k}
	d, _, err := keyset.Init(t.Context(), s, initSecrets(upFrom(0), upFrom(1)))
	must(t, err)
	first, second := d.Keys[0], d.Keys[1]
	for name, c := range map[string]struct {
		change func(*keyset.Key)
		spoil  func(*keeper)
		is     error
		calls  int
	}{
		"the wrapping of another key": {change: func(k *keyset.Key) { k.Wrapped = second.Wrapped }, is: keyset.ContextMismatch, calls: 1},
		"another kid":                 {change: func(k *keyset.Key) { k.KID = second.KID }, is: keyset.Corrupt, calls: 1},
		"another id":                  {change: func(k *keyset.Key) { k.ID = second.ID }, is: keyset.ContextMismatch, calls: 1},
		"another data key":            {spoil: func(k *keeper) { k.unwrap = func(b []byte) []byte { b[0] ^= 1; return b } }, is: keyset.Corrupt, calls: 1},
		"31 bytes":                    {spoil: func(k *keeper) { k.unwrap = func(b []byte) []byte { return b[:31] } }, is: keyset.Corrupt, calls: 1},
		"1025 bytes":                  {spoil: func(k *keeper) { k.unwrap = func([]byte) []byte { return bytes.Repeat([]byte{1}, 1025) } }, is: keyset.Corrupt, calls: 1},
		"nothing":                     {spoil: func(k *keeper) { k.unwrap = func([]byte) []byte { return nil } }, is: keyset.Corrupt, calls: 1},
		"a service that fails":        {spoil: func(k *keeper) { k.fail = keyset.Disabled }, is: keyset.Disabled, calls: 1},
		"a key of another format":     {change: func(k *keyset.Key) { k.Format = "v2" }, is: keyset.ErrConfig},
		"a revoked key":               {change: func(k *keyset.Key) { *k = keyset.Key{ID: k.ID, KID: k.KID, State: keyset.Revoked} }, is: keyset.ErrConfig},
		"a service not configured":    {change: func(k *keyset.Key) { k.Wrapped = []keyset.WrappedKey{{Service: "memkek://b", Ciphertext: []byte("x")}} }, is: keyset.ErrConfig},
	} {
		key, service := first, newKeeper()
		if c.change != nil {
			c.change(&key)
		}
		if c.spoil != nil {
			c.spoil(service)
		}
		s := keyset.Services{service}
		secret, err := s.OpenSecret(t.Context(), "fleet", key)
		if secret != nil || !errors.Is(err, c.is) || service.calls != c.calls {
			t.Errorf("%s: %d calls, %v", name, service.calls, err)
		}
		if k, err := s.OpenKey(t.Context(), "fleet", key); k != nil || !errors.Is(err, c.is) {
			t.Errorf("%s: %v", name, err)
		}
		if c.calls > 0 {
			service.zeroed(t, name)
		}
	}
	// Under another keyset's name nothing opens.
	if _, err := s.OpenSecret(t.Context(), "other", first); !errors.Is(err, keyset.ContextMismatch) {
		t.Error(err)
	}
	secret, err := s.OpenSecret(t.Context(), "fleet", first)
	if err != nil || !bytes.Equal(secret, upFrom(0)) {
		t.Error(err)
	}
	if _, err := s.OpenKey(t.Context(), "fleet", first); err != nil {
		t.Error(err)
	}
	k.zeroed(t, "OpenKey", secret)
}

// The error of a wrapping that opens to something else names the service that opened it.
func TestCorruptNamesWhatWasOpened(t *testing.T) {
	k := newKeeper()
	d, _, err := keyset.Init(t.Context(), keyset.Services{k}, initSecrets(upFrom(0)))
	must(t, err)
	key := d.Keys[0]
	key.KID = "00000000"
	key.Wrapped = append([]keyset.WrappedKey{{Service: "other://x", Ciphertext: []byte("x")}}, key.Wrapped...)
	_, err = keyset.Services{k}.OpenSecret(t.Context(), "fleet", key)
	var keyError *keyset.KeyError
	if !errors.As(err, &keyError) || keyError.Key != "memkek://a" || keyError.Remedy == "" {
		t.Errorf("%v", err)
	}
}

func TestOpenAuth(t *testing.T) {
	k := newKeeper()
	d, _, err := keyset.Init(t.Context(), keyset.Services{k}, initSecrets())
	must(t, err)
	for name, spoil := range map[string]func(*keeper){
		"31 bytes": func(k *keeper) { k.unwrap = func(b []byte) []byte { return b[:31] } },
		"33 bytes": func(k *keeper) { k.unwrap = func(b []byte) []byte { return append(b, 1) } },
		"nothing":  func(k *keeper) { k.unwrap = func([]byte) []byte { return nil } },
	} {
		service := newKeeper()
		spoil(service)
		if secret, err := (keyset.Services{service}).OpenAuth(t.Context(), d); secret != nil || !errors.Is(err, keyset.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
		service.zeroed(t, name)
	}
	// The wrapping of a data key is no auth key, and the other way round.
	moved := d.Clone()
	moved.Auth.Wrapped = d.Primary().Wrapped
	if _, err := (keyset.Services{k}).OpenAuth(t.Context(), moved); !errors.Is(err, keyset.ContextMismatch) {
		t.Error(err)
	}
	key := *d.Primary()
	key.Wrapped = d.Auth.Wrapped
	if _, err := (keyset.Services{k}).OpenSecret(t.Context(), "fleet", key); !errors.Is(err, keyset.ContextMismatch) {
		t.Error(err)
	}
	key.ID = d.Auth.ID
	if _, err := (keyset.Services{k}).OpenSecret(t.Context(), "fleet", key); !errors.Is(err, keyset.ContextMismatch) {
		t.Error(err)
	}
}

func TestLoadRefuses(t *testing.T) {
	k := newKeeper()
	s := keyset.Services{k}
	d, auth, err := keyset.Init(t.Context(), s, initSecrets())
	must(t, err)
	text, err := auth.Encode(d)
	must(t, err)
	forged := bytes.Replace(text, []byte(`"max_stale": "1h0m0s"`), []byte(`"max_stale": "9h0m0s"`), 1)
	for name, c := range map[string]struct {
		text     []byte
		services keyset.Services
		keyset   string
		is       error
		says     string
		calls    int
	}{
		"another name":        {text, s, "billing", nil, "the keyset is fleet, and billing is what was asked for", 0},
		"nothing":             {nil, s, "fleet", keyset.ErrNotExist, "reading the keyset fleet", 0},
		"cut off":             {text[:100], s, "fleet", keyset.ErrDocument, "reading the keyset fleet", 0},
		"no service":          {text, nil, "fleet", keyset.ErrConfig, "unwrapping the auth key of keyset fleet", 0},
		"another service":     {text, keyset.Services{memkek.New("b")}, "fleet", keyset.ErrConfig, "memkek://a", 0},
		"changed by somebody": {forged, s, "fleet", keyset.ErrTag, "reading the keyset fleet", 1},
	} {
		k.calls = 0
		d, auth, version, err := keyset.Load(t.Context(), keyset.Bytes(c.text), c.services, c.keyset)
		if d != nil || auth != nil || version != "" || err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || k.calls != c.calls {
			t.Errorf("%s: %d calls, %v", name, k.calls, err)
		}
	}
	k.zeroed(t, "Load")
	broken := errors.New("the network is down")
	if _, _, _, err := keyset.Load(t.Context(), keyset.SourceFunc(func(context.Context) ([]byte, error) { return nil, broken }), s, "fleet"); !errors.Is(err, broken) {
		t.Error(err)
	}
}
