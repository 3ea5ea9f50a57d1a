package keyring

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/keyset"
)

func TestSealUntil(t *testing.T) {
	w := newWorld(t)
	w.clock.advance(250 * time.Millisecond)
	r := w.open()
	kid := w.doc.Primary().KID
	now := w.clock.now()
	const maxTTL, maxSkew = 10 * time.Minute, time.Minute
	for _, c := range []struct {
		name    string
		expires time.Time
		until   time.Time // live_until afterwards; zero: refused
	}{
		{"at once", now, origin.Add(time.Second)},
		{"in the past", now.Add(-time.Hour), origin.Add(time.Second)},
		{"a whole second", origin.Add(5 * time.Second), origin.Add(5 * time.Second)},
		{"a nanosecond later", origin.Add(5*time.Second + 1), origin.Add(6 * time.Second)},
		{"earlier does not count", origin.Add(3 * time.Second), origin.Add(6 * time.Second)},
		{"the ceiling", time.Time{}, origin.Add(maxTTL + time.Second)},
		{"within max_skew of it", now.Add(maxTTL + maxSkew), origin.Add(maxTTL + maxSkew + time.Second)},
		{"beyond", now.Add(maxTTL + maxSkew + 1), time.Time{}},
		{"far beyond", now.Add(1000 * time.Hour), time.Time{}},
	} {
		before := *keyOf(r, kid)
		token, err := r.SealUntil([]byte("payload"), c.expires)
		after := *keyOf(r, kid)
		if c.until.IsZero() {
			if err == nil || errors.Is(err, codec.ErrInvalid) || !strings.Contains(err.Error(), kid) || after != before {
				t.Errorf("%s: %v, %+v", c.name, err, after)
			}
			if out, err := r.AppendSeal([]byte("before"), nil, c.expires); err == nil || string(out) != "before" {
				t.Errorf("%s: %q, %v", c.name, out, err)
			}
			continue
		}
		if err != nil || !opens(t, r, token) || after.Seals != before.Seals+1 || after.Unseals != before.Unseals {
			t.Errorf("%s: %v, %+v", c.name, err, after)
		}
		if !after.LiveUntil.Equal(c.until) {
			t.Errorf("%s: live until %v, want %v", c.name, after.LiveUntil, c.until)
		}
		if n := keyOf(r, kid).Unseals; n != before.Unseals+1 {
			t.Errorf("%s: %d unseals", c.name, n)
		}
	}
	if s := r.Status(); s.Ceiling != maxTTL || r.MaxTTL() != maxTTL {
		t.Errorf("%+v", s)
	}
}

// A ceiling that was lowered holds for the seals to come, while those that were promised
// more by a moment are not refused.
func TestCeilingChanges(t *testing.T) {
	w := newWorld(t)
	r := w.open()
	for _, c := range []struct{ ttl, maxTTL time.Duration }{{time.Hour, time.Hour}, {time.Minute, time.Hour}, {2 * time.Hour, 2 * time.Hour}} {
		w.change(func(d *keyset.Document) error { return d.SetTTL(w.note(), c.ttl) })
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r.MaxTTL() != c.ttl {
			t.Errorf("ceiling %v, want %v", r.MaxTTL(), c.ttl)
		}
		if _, err := r.SealUntil(nil, w.clock.now().Add(c.maxTTL)); err != nil {
			t.Errorf("ceiling %v: %v", c.ttl, err)
		}
		if _, err := r.SealUntil(nil, w.clock.now().Add(c.maxTTL+2*time.Minute)); err == nil {
			t.Errorf("ceiling %v: a token of %v was sealed", c.ttl, c.maxTTL+2*time.Minute)
		}
	}
	w.clock.advance(time.Second)
	w.change(func(d *keyset.Document) error { return d.SetTTL(w.note(), time.Minute) })
	_ = r.Refresh(t.Context())
	kid := w.stage() // a key of the lower ceiling only
	w.promote(kid)
	_ = r.Refresh(t.Context())
	_ = seal(t, r)
	if k := keyOf(r, kid); !k.LiveUntil.Equal(w.clock.now().Add(time.Minute)) {
		t.Errorf("Seal noted %v at %v", k.LiveUntil, w.clock.now())
	}
}

// The limit of one key holds for this process, whatever happens to the keyset.
func TestStopsAtTheSealLimit(t *testing.T) {
	w := newWorld(t)
	r := w.open(func(c *Config) { c.Every = 15 * time.Minute })
	old := w.doc.Primary().KID
	r.current.Load().sealing.use.seals.Store(nearMaxSeals - 1)
	if s := r.Status(); len(s.Warnings) != 0 {
		t.Errorf("%q", s.Warnings)
	}
	_ = seal(t, r)
	contains(t, "warnings", strings.Join(r.Status().Warnings, " "), old, "2^32", "rotate")
	r.current.Load().sealing.use.seals.Store(maxSeals - 1)
	token := seal(t, r)
	refused := func() {
		t.Helper()
		for range 3 {
			if _, err := r.Seal(nil); err == nil || errors.Is(err, codec.ErrInvalid) || !strings.Contains(err.Error(), "2^32") {
				t.Errorf("beyond the limit: %v", err)
			}
		}
		if n := keyOf(r, old).Seals; n != maxSeals {
			t.Errorf("%d seals are counted", n)
		}
	}
	refused()
	kid := w.stage()
	w.promote(kid)
	_ = r.Refresh(t.Context())
	if !opens(t, r, token) || !opens(t, r, seal(t, r)) {
		t.Error("the next key does not work")
	}
	w.change(func(d *keyset.Document) error { return d.Rollback(w.note(), old) })
	_ = r.Refresh(t.Context())
	refused()
}

// What was counted is kept while a token lives, and not for ever.
func TestCountsSurviveAndEnd(t *testing.T) {
	w := newWorld(t)
	r := w.open()
	for range 100 {
		old := w.doc.Primary().KID
		_ = seal(t, r)
		w.promote(w.stage())
		_ = r.Refresh(t.Context())
		if k := keyOf(r, old); k.Seals != 1 {
			t.Fatalf("after a swap: %+v", k)
		}
		w.retire(old)
		w.clock.advance(time.Minute)
		_ = r.Refresh(t.Context())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.uses); n < 10 || n > 13 {
		t.Errorf("%d keys are remembered, of which the tokens of 10 may live", n)
	}
}

func TestWhatIsNoRingSaysSo(t *testing.T) {
	for _, r := range []*Ring{nil, {}} {
		_, sealErr := r.Seal(nil)
		_, unsealErr := r.Unseal("v1.")
		_, appendErr := r.AppendUnseal(nil, "v1.")
		_, reportErr := r.Report(t.Context())
		for _, err := range []error{sealErr, unsealErr, appendErr, reportErr, r.Err(), r.Refresh(t.Context())} {
			if !errors.Is(err, codec.ErrConfig) || errors.Is(err, codec.ErrInvalid) {
				t.Errorf("%v", err)
			}
		}
		if s := r.Status(); s.Ready() || r.MaxTTL() != 0 || r.KID("") != "" {
			t.Errorf("%+v", s)
		}
		recorder := httptest.NewRecorder()
		r.Readiness().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/ready", nil))
		if recorder.Code != http.StatusServiceUnavailable {
			t.Errorf("%d %s", recorder.Code, recorder.Body)
		}
		contains(t, "readiness", recorder.Body.String(), `"ready":false`, "use Open")
	}
}

func TestNothingPrintsAKey(t *testing.T) {
	w := newWorld(t)
	r := w.open()
	_ = r.Refresh(t.Context())
	var text bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		fmt.Fprintf(&text, verb+verb, r, r.Status())
	}
	secret := w.authSecret()
	data, err := keyset.Services{w.kek}.OpenSecret(t.Context(), "billing", *w.doc.Primary())
	if err != nil {
		t.Fatal(err)
	}
	text.WriteString(w.log.text())
	for _, secret := range [][]byte{secret, data} {
		for _, form := range []string{string(secret), fmt.Sprintf("%x", secret), fmt.Sprint(secret)} {
			if strings.Contains(text.String(), form) {
				t.Error("a key is printed")
			}
		}
	}
	contains(t, "printed", text.String(), "billing", w.doc.Primary().KID)
}
