package keyring

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// An outage is a key service that fails while it is on.
type outage struct{ kind atomic.Value }

// set says how the service fails from now on; "" means that it does not.
func (o *outage) set(kind keyset.Kind) { o.kind.Store(kind) }

func (o *outage) backend(context.Context) error {
	if kind, _ := o.kind.Load().(keyset.Kind); kind != "" {
		return kind
	}
	return nil
}

// withOutage adds a second key service, memkek://c, to a world's configuration.
func (w *world) withOutage() (*counting, *outage, func(*Config)) {
	c, o := newKEK("c"), &outage{}
	c.Backend = o.backend
	return c, o, func(config *Config) { config.Services = keyset.Services{w.kek, c} }
}

// What a revision takes away is gone at once, whatever else fails; what it brings and
// cannot be unwrapped is left out, named, and there when the service answers again.
func TestRemovalsApplyThoughNewKeyFails(t *testing.T) {
	w := newWorld(t)
	c, out, both := w.withOutage()
	old := w.doc.Primary().KID
	w.promote(w.stage())
	r := w.open(both)
	sealedBefore, err := w.ringOf(old).Seal([]byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	if !opens(t, r, sealedBefore) {
		t.Fatal("the retiring key does not unseal")
	}
	k := w.newKey(c)
	out.set(keyset.Denied)
	w.change(func(d *keyset.Document) error {
		return errors.Join(d.Stage(w.note(), k), d.Revoke(w.note(), old))
	})
	if err := r.Refresh(t.Context()); err != nil {
		t.Errorf("a missing staged key only degrades: %v", err)
	}
	if opens(t, r, sealedBefore) {
		t.Error("the revoked key still unseals")
	}
	s := r.Status()
	contains(t, "degraded", s.Degraded, "denied", "memkek://c")
	if k := keyOf(r, k.KID); k.Held || !strings.Contains(k.LeftOut, "denied") || !s.Ready() {
		t.Errorf("%+v", s)
	}
	if k := keyOf(r, old); k == nil || k.State != keyset.Revoked || k.Held {
		t.Errorf("the tombstone: %+v", k)
	}
	out.set("")
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := r.Status(); s.Degraded != "" || !keyOf(r, k.KID).Held {
		t.Errorf("not healed: %+v", s)
	}
}

// ringOf returns a ring that seals with a key of the world's document.
func (w *world) ringOf(kid string) codec.Codec { return w.ringOfKey(w.kek, *w.doc.Key(kid)) }

func (w *world) ringOfKey(service keyset.KeyService, key keyset.Key) codec.Codec {
	w.t.Helper()
	k, err := keyset.Services{service}.OpenKey(w.t.Context(), "billing", key)
	if err != nil {
		w.t.Fatal(err)
	}
	return mustRing(w.t, k)
}

// The primary cannot be unwrapped: the previous one seals on as long as the keyset has
// it, and then nothing is sealed.
func TestPrimaryCannotBeUnwrapped(t *testing.T) {
	w := newWorld(t)
	c, out, both := w.withOutage()
	old := w.doc.Primary().KID
	r := w.open(both)
	k := w.newKey(c)
	out.set(keyset.Disabled)
	w.change(func(d *keyset.Document) error { return errors.Join(d.Stage(w.note(), k), d.Promote(w.note(), k.KID)) })
	err := r.Refresh(t.Context())
	if !errors.Is(err, ErrNotReady) {
		t.Errorf("ready without its primary: %v", err)
	}
	contains(t, "not ready", err.Error(), "key "+k.KID, "primary")
	token := seal(t, r)
	if r.KID(token) != old || r.Status().Sealing != old {
		t.Errorf("sealed with %s instead of the previous primary %s", r.KID(token), old)
	}
	w.retire(old)
	_ = r.Refresh(t.Context())
	if _, err := r.Seal(nil); err == nil || errors.Is(err, codec.ErrInvalid) {
		t.Errorf("sealed without any key: %v", err)
	} else {
		contains(t, "no key", err.Error(), "billing", k.KID)
	}
	if opens(t, r, token) || r.Status().Sealing != "" {
		t.Errorf("the retired key is still there: %+v", r.Status())
	}
	if _, err := r.Unseal("no token"); !errors.Is(err, codec.Malformed) {
		t.Errorf("without a key: %v", err)
	}
	if r.MaxTTL() != 10*time.Minute {
		t.Errorf("ceiling %v", r.MaxTTL())
	}
	out.set("")
	if err := r.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	if !opens(t, r, seal(t, r)) || r.Status().Sealing != k.KID {
		t.Errorf("not healed: %+v", r.Status())
	}
}

// A start needs the primary. One without any other key opens, and is not ready until
// that is there.
func TestStartWithoutAKey(t *testing.T) {
	for _, c := range []struct {
		name  string
		state keyset.State
		make  func(*world, keyset.Key, string)
	}{
		{"staged", keyset.Staged, func(w *world, k keyset.Key, _ string) { w.stageKey(k) }},
		{"retiring", keyset.Retiring, func(w *world, k keyset.Key, old string) {
			w.stageKey(k)
			w.promote(k.KID)
			w.change(func(d *keyset.Document) error { return d.Rollback(w.note(), old) })
		}},
		{"primary", keyset.Primary, func(w *world, k keyset.Key, _ string) {
			w.stageKey(k)
			w.promote(k.KID)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			kek, out, both := w.withOutage()
			k := w.newKey(kek)
			c.make(w, k, w.doc.Primary().KID)
			if w.doc.Key(k.KID).State != c.state {
				t.Fatalf("it is %s", w.doc.Key(k.KID).State)
			}
			out.set(keyset.Destroyed)
			config := w.config()
			both(&config)
			r, err := Open(t.Context(), config)
			if c.state == keyset.Primary {
				if r != nil || !errors.Is(err, keyset.Destroyed) {
					t.Fatalf("%v", err)
				}
				contains(t, "error", err.Error(), "primary", k.KID, "memkek://c")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Close() })
			if err := r.Err(); !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), k.KID) {
				t.Errorf("Err: %v", err)
			}
			if !opens(t, r, seal(t, r)) {
				t.Error("it does not work meanwhile")
			}
			out.set("")
			if err := r.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Whoever refreshes after mending something is not told of an attempt that began before.
func TestRefreshTriesWhatFailsMeanwhile(t *testing.T) {
	w := newWorld(t)
	c := newKEK("c")
	w.stageKey(w.newKey(c))
	config := w.config()
	config.Services, config.Now = keyset.Services{w.kek, c}, nil
	var mended atomic.Bool
	c.Backend = func(context.Context) error {
		if mended.Load() {
			return nil
		}
		time.Sleep(10 * time.Second)
		return keyset.Denied
	}
	synctest.Test(t, func(t *testing.T) {
		r, err := Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		time.Sleep(5 * time.Second) // it is being tried again
		mended.Store(true)
		if err := r.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A key of a format to come, or that no configured service opens, is left out and named.
func TestKeysThatAreNotForThisRing(t *testing.T) {
	for _, c := range []struct {
		name, why, kind string
		edit            func(object)
	}{
		{"format", `"v9"`, "format", func(key object) { key["format"] = "v9" }},
		{"service", "no configured key service", "no_service", func(key object) {
			key["wrapped"] = wrappedBy(keyset.WrappedKey{Service: "awskms:///arn", Ciphertext: []byte("x")})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			r := w.open()
			kid := w.stage()
			w.store.put(w.retagged(func(doc object) { c.edit(entryOf(doc, kid)) }))
			calls := w.kek.calls.Load()
			if err := r.Refresh(t.Context()); err != nil {
				t.Errorf("running: %v", err)
			}
			if n := w.kek.calls.Load() - calls; n != 0 {
				t.Errorf("%d calls", n)
			}
			k := keyOf(r, kid)
			if k.Held {
				t.Fatalf("%+v", k)
			}
			contains(t, "left out", k.LeftOut, c.why)
			contains(t, "degraded", r.Status().Degraded, kid, c.why)
			if report := reportOf(t, w, r); len(report.Failed) != 1 || report.Failed[0] != (fleet.Failure{KID: kid, Kind: c.kind}) {
				t.Errorf("reported: %+v", report.Failed)
			}
			if !opens(t, r, seal(t, r)) {
				t.Error("the rest does not work")
			}
			fresh := w.open()
			if err := fresh.Err(); !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), kid) {
				t.Errorf("fresh: %v", err)
			}
			if !opens(t, fresh, seal(t, fresh)) {
				t.Error("the rest does not work after a fresh start")
			}
		})
	}
}

// A key that the ring knows as revoked never comes back.
func TestRevokedIsForEver(t *testing.T) {
	w := newWorld(t)
	old := w.doc.Primary().KID
	w.promote(w.stage())
	r := w.open()
	token, err := w.ringOf(old).Seal([]byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	before := w.doc
	older := w.encode(before)
	w.revoke(old)
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	entry := entryOf(parse(t, older), old)
	comeBack := func(revision int64) []byte {
		return w.retagged(func(doc object) {
			doc["revision"] = revision
			keys := doc["keys"].([]strictValue)
			for i, k := range keys {
				if k.(object)["kid"] == old {
					keys[i] = entry
				}
			}
		})
	}
	for name, c := range map[string]struct {
		text []byte
		err  error
	}{
		"the older document":          {older, ErrOlder},
		"the same revision without":   {comeBack(w.doc.Revision), ErrFork},
		"a newer one, rightly tagged": {comeBack(w.doc.Revision + 1), ErrNotReady},
	} {
		w.store.put(c.text)
		calls := w.kek.calls.Load()
		if err := r.Refresh(t.Context()); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
		if opens(t, r, token) {
			t.Errorf("%s: the revoked key is back", name)
		}
		if n := w.kek.calls.Load() - calls; n != 0 {
			t.Errorf("%s: %d calls of the key service", name, n)
		}
		if name == "a newer one, rightly tagged" {
			contains(t, name, keyOf(r, old).LeftOut, "revoked")
		}
		// Each starts from the revision after the revocation.
		if r.Status().Revision != w.doc.Revision {
			r = func() *Ring { w.save(); return w.open() }()
		}
	}
}

// Nothing that is unwrapped is unwrapped again, whatever happens to the document.
func TestNoCallInTheSteadyState(t *testing.T) {
	w := newWorld(t)
	r := w.open()
	if n := w.kek.calls.Load() - callsToMake; n != 2 {
		t.Errorf("%d calls to open the auth key and one data key", n)
	}
	expect := func(what string, want int64) {
		t.Helper()
		calls := w.kek.calls.Load()
		for range 3 {
			if err := r.Refresh(t.Context()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			_ = opens(t, r, seal(t, r))
		}
		if n := w.kek.calls.Load() - calls; n != want {
			t.Errorf("%s: %d calls, want %d", what, n, want)
		}
	}
	expect("nothing", 0)
	kid := w.stage()
	expect("a staged key", 1)
	old := w.doc.Primary().KID
	w.promote(kid)
	expect("promoted", 0)
	w.change(func(d *keyset.Document) error { return d.SetTTL(w.note(), time.Hour) })
	expect("another ceiling", 0)
	w.change(func(d *keyset.Document) error { return d.Rollback(w.note(), old) })
	expect("rolled back", 0)
	w.store.put(edited(t, w.encode(w.doc), func(object) {}))
	expect("the same in other words", 0)
	w.store.fail(errDown)
	_ = r.Refresh(t.Context())
	w.save()
	expect("after the store was down", 0)
	w.change(func(d *keyset.Document) error { return d.Revoke(w.note(), kid) })
	expect("revoked", 0)
}

// Init and GenerateKey unwrap what they make once: the auth key and the first data key.
const callsToMake = 2

// Each wrapping of a configured service is opened once in the background, the auth key's
// included, and what it gives is compared with what the ring holds.
func TestWrappingsAreOpenedOnceAndCompared(t *testing.T) {
	w := newWorld(t)
	other := newKEK("c")
	both := func(c *Config) { c.Services = keyset.Services{w.kek, other} }
	r := w.open(both)
	kid := w.doc.Primary().KID
	rewrap := func(secret []byte, id string, purpose keyset.Purpose) keyset.WrappedKey {
		t.Helper()
		wrapped, err := other.Wrap(t.Context(), secret, keyset.EncryptionContext("billing", id, purpose))
		if err != nil {
			t.Fatal(err)
		}
		return wrapped
	}
	secret, err := keyset.Services{w.kek}.OpenSecret(t.Context(), "billing", *w.doc.Primary())
	if err != nil {
		t.Fatal(err)
	}
	key := append(w.doc.Primary().Wrapped[:1:1], rewrap(secret, w.doc.Primary().ID, keyset.Data))
	auth := append(w.doc.Auth.Wrapped[:1:1], rewrap(w.authSecret(), w.doc.Auth.ID, keyset.Auth))
	w.change(func(d *keyset.Document) error {
		return d.Rewrap(w.note(), map[string][]keyset.WrappedKey{kid: key, "": auth})
	})
	settle := func() {
		t.Helper()
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		idle(t, r)
	}
	calls := w.kek.calls.Load()
	settle()
	settle()
	if a, c := w.kek.calls.Load()-calls, other.calls.Load(); a != 0 || c != 2 {
		t.Errorf("%d calls of the old service, %d of the new one", a, c)
	}
	opened := 0
	for _, s := range r.Status().Wrappings {
		if s.Opened && s.Err == nil {
			opened++
		}
	}
	if report := reportOf(t, w, r); opened != 4 || len(report.Opened) != 4 || len(report.Failed) != 0 || len(report.Services) != 2 {
		t.Errorf("%+v\n%+v", r.Status().Wrappings, report)
	}

	// Wrappings that open, but to another key.
	key[1] = rewrap(append([]byte("another"), secret...), w.doc.Primary().ID, keyset.Data)
	auth[1] = rewrap([]byte("32 bytes that are no auth key..."), w.doc.Auth.ID, keyset.Auth)
	w.change(func(d *keyset.Document) error {
		return d.Rewrap(w.note(), map[string][]keyset.WrappedKey{kid: key, "": auth})
	})
	settle()
	report := reportOf(t, w, r)
	if len(report.Failed) != 2 || report.Failed[0].KID != fleet.AuthKey || report.Failed[1].KID != kid ||
		report.Failed[0].Kind != string(keyset.Corrupt) || report.Failed[1].Kind != string(keyset.Corrupt) {
		t.Errorf("%+v", report.Failed)
	}
	if s := r.Status(); !s.Ready() || s.Degraded == "" || !opens(t, r, seal(t, r)) {
		t.Errorf("%+v", s)
	}
}

// What fails is tried again in the background: a key at least once per interval, a
// wrapping that nothing depends on more and more rarely.
func TestRetriesInTheBackground(t *testing.T) {
	w := newWorld(t)
	c, out, both := w.withOutage()
	staged := w.newKey(c)
	secret, err := keyset.Services{w.kek}.OpenSecret(t.Context(), "billing", *w.doc.Primary())
	if err != nil {
		t.Fatal(err)
	}
	extra, err := c.Wrap(t.Context(), secret, keyset.EncryptionContext("billing", w.doc.Primary().ID, keyset.Data))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		r := w.open(both, func(c *Config) { c.Now, c.Every = nil, 15*time.Second })
		out.set(keyset.Denied)
		w.stageKey(staged)
		during := func(d time.Duration) int64 {
			calls := c.calls.Load()
			time.Sleep(d)
			synctest.Wait()
			return c.calls.Load() - calls
		}
		during(time.Minute)
		if n := during(time.Minute); n != 4 {
			t.Errorf("%d tries in a minute at an interval of 15 s", n)
		}
		out.set("")
		during(20 * time.Second)
		if k := keyOf(r, staged.KID); !k.Held || r.Status().Degraded != "" {
			t.Errorf("%+v", r.Status())
		}
		if n := during(time.Hour); n != 0 {
			t.Errorf("%d calls in the steady state", n)
		}

		out.set(keyset.Denied)
		w.change(func(d *keyset.Document) error {
			k := w.doc.Primary()
			return d.Rewrap(w.note(), map[string][]keyset.WrappedKey{k.KID: append(k.Wrapped[:1:1], extra)})
		})
		if n := during(24 * time.Hour); n < 24 || n > 40 {
			t.Errorf("%d tries in a day of a wrapping that fails for good", n)
		}
		if err := r.Err(); err != nil {
			t.Error(err)
		}
		contains(t, "degraded", r.Status().Degraded, "memkek://c", "denied")
		out.set("")
		during(2 * time.Hour)
		if s := r.Status(); s.Degraded != "" {
			t.Errorf("%+v", s)
		}
	})
}

// A token under a key that the keyset has and the ring could not unwrap may be good, so it
// is not called invalid; one under a key that was revoked is, whatever the keyset says.
func TestTokenOfAKeyThatIsNotUnwrapped(t *testing.T) {
	w := newWorld(t)
	c, out, both := w.withOutage()
	revoked := w.doc.Primary().KID
	revokedToken, err := w.ringOf(revoked).Seal([]byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	w.promote(w.stage())
	before := w.encode(w.doc)
	r := w.open(both)
	k := w.newKey(c)
	w.stageKey(k)
	w.promote(k.KID)
	token, err := w.ringOfKey(c, k).Seal([]byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	maybe := func(what, token string) {
		t.Helper()
		_, err := r.Unseal(token)
		if err == nil || errors.Is(err, codec.ErrInvalid) || errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), r.KID(token)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	out.set(keyset.Denied)
	if err := r.Refresh(t.Context()); !errors.Is(err, ErrNotReady) {
		t.Error(err)
	}
	maybe("denied", token)
	if _, err := r.Unseal(token[:len(token)-1] + "!"); !errors.Is(err, codec.Malformed) {
		t.Errorf("what is no token: %v", err)
	}
	if _, err := r.Unseal(made(1)); !errors.Is(err, codec.UnknownKey) {
		t.Errorf("of no key at all: %v", err)
	}
	out.set("")
	if err := r.Refresh(t.Context()); err != nil || !opens(t, r, token) {
		t.Errorf("not healed: %v", err)
	}

	kid := w.stage()
	staged, err := w.ringOf(kid).Seal([]byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	w.store.put(w.retagged(func(doc object) { entryOf(doc, kid)["format"] = "v9" }))
	_ = r.Refresh(t.Context())
	maybe("another format", staged)

	w.revoke(revoked)
	_ = r.Refresh(t.Context())
	again := tagged(t, before, w.authSecret(), func(doc object) { doc["revision"] = w.doc.Revision + 1 })
	w.store.put(again)
	_ = r.Refresh(t.Context())
	if s := r.Status(); s.Revision != w.doc.Revision+1 {
		t.Fatalf("%+v", s)
	}
	var invalid *codec.InvalidError
	if _, err := r.Unseal(revokedToken); !errors.As(err, &invalid) || invalid.Reason != codec.UnknownKey {
		t.Errorf("revoked, and back in the document: %v", err)
	}
}

// keeping keeps the data keys that a key service has returned.
type keeping struct {
	*counting

	mu   sync.Mutex
	keys [][]byte
}

func (k *keeping) Unwrap(ctx context.Context, w keyset.WrappedKey, ec map[string]string) ([]byte, error) {
	key, err := k.counting.Unwrap(ctx, w, ec)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = append(k.keys, key)
	return key, err
}

// Of what was unwrapped nothing is left in memory but what the ring has derived: neither
// of a good key, nor of one that is compared, nor of one that is refused.
func TestDataKeysAreZeroed(t *testing.T) {
	w := newWorld(t)
	service := &keeping{counting: newKEK("a", "b")}
	r := w.open(func(c *Config) { c.Services = keyset.Services{service} })
	again := func(secret []byte, id string, purpose keyset.Purpose) keyset.WrappedKey {
		t.Helper()
		wrapped, err := w.kek.Wrap(t.Context(), secret, keyset.EncryptionContext("billing", id, purpose))
		if err != nil {
			t.Fatal(err)
		}
		return wrapped
	}
	primary := w.doc.Primary()
	secret, err := keyset.Services{w.kek}.OpenSecret(t.Context(), "billing", *primary)
	if err != nil {
		t.Fatal(err)
	}
	w.change(func(d *keyset.Document) error {
		return d.Rewrap(w.note(), map[string][]keyset.WrappedKey{
			primary.KID: {primary.Wrapped[0], again(secret, primary.ID, keyset.Data), again(append([]byte("another"), secret...), primary.ID, keyset.Data)},
			"":          {w.doc.Auth.Wrapped[0], again(w.authSecret(), w.doc.Auth.ID, keyset.Auth)},
		})
	})
	w.stage()
	_ = r.Refresh(t.Context())
	idle(t, r)
	service.mu.Lock()
	defer service.mu.Unlock()
	if len(service.keys) != 6 {
		t.Errorf("%d data keys were returned", len(service.keys))
	}
	for i, key := range service.keys {
		if len(key) < 32 || !bytes.Equal(key, make([]byte, len(key))) {
			t.Errorf("data key %d of %d bytes is still there", i, len(key))
		}
	}
}

// A key that is revoked while it is being unwrapped does not come in afterwards.
func TestRevokedWhileItIsUnwrapped(t *testing.T) {
	w := newWorld(t)
	c, _, both := w.withOutage()
	r := w.open(both)
	asked, answer := make(chan struct{}), make(chan struct{})
	k := w.newKey(c)
	token, err := w.ringOfKey(c, k).Seal([]byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	c.Backend = func(ctx context.Context) error {
		select {
		case asked <- struct{}{}:
		case <-ctx.Done():
		}
		select {
		case <-answer:
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	w.stageKey(k)
	done := make(chan error, 1)
	go func() { done <- r.Refresh(t.Context()) }()
	<-asked
	w.revoke(k.KID)
	if err := r.reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(answer)
	if err := <-done; err != nil {
		t.Error(err)
	}
	idle(t, r)
	var invalid *codec.InvalidError
	if _, err := r.Unseal(token); !errors.As(err, &invalid) || invalid.Reason != codec.UnknownKey {
		t.Errorf("%v", err)
	}
	if s := r.Status(); len(s.Keys) != 2 || s.Keys[1].Held || !s.Ready() {
		t.Errorf("%+v", s)
	}
}
