package keyring

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/echoseal/echoseal/codec"
)

// made returns a token of the right form under a key id that nobody has.
func made(n uint32) string {
	body := make([]byte, 48)
	binary.BigEndian.PutUint32(body, n)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(body)
}

// A token under a key that another instance knows already is waited for, not refused.
func TestUnknownKeyIsLookedFor(t *testing.T) {
	w := newWorld(t)
	before := w.doc
	kid := w.stage()
	w.promote(kid)
	token, err := w.ringOf(kid).Seal([]byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		w.store.put(w.encode(before))
		r := w.open(func(c *Config) { c.Now = nil })
		w.save()
		w.store.onLoad(func(context.Context) { time.Sleep(searchWait / 2) })
		loads := w.store.loads.Load()
		var wait sync.WaitGroup
		for range 20 {
			wait.Go(func() {
				if !opens(t, r, token) {
					t.Error("refused")
				}
			})
		}
		wait.Wait()
		if n := w.store.loads.Load() - loads; n != 1 {
			t.Errorf("%d reads", n)
		}
	})
}

// A read that unknown key ids have started is shared, and the next one starts a second
// later at the earliest. Only its own key id waits, half a second at most.
func TestSearchesAreFewAndShort(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		r := w.open(func(c *Config) { c.Now, c.Every = nil, time.Hour })
		release := make(chan struct{})
		loads := w.store.loads.Load()
		w.store.onLoad(func(ctx context.Context) {
			select {
			case <-release:
			case <-ctx.Done():
			}
		})
		took := func(token string) time.Duration {
			t.Helper()
			began := time.Now()
			if _, err := r.Unseal(token); !errors.Is(err, codec.UnknownKey) {
				t.Errorf("%v", err)
			}
			return time.Since(began)
		}
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() {
				if d := took(made(1)); d != searchWait {
					t.Errorf("a token that is searched for waited %v", d)
				}
			})
		}
		synctest.Wait()
		for n := uint32(2); n < 100; n++ {
			if d := took(made(n)); d != 0 {
				t.Errorf("another waited %v", d)
			}
		}
		wait.Wait()
		if d := took(made(1)); d != searchWait { // the read still hangs
			t.Errorf("it waited %v", d)
		}
		if n := w.store.loads.Load() - loads; n != 1 {
			t.Errorf("%d reads", n)
		}
		close(release)
		synctest.Wait()
		time.Sleep(searchEvery)
		if d := took(made(7)); d != 0 { // the store answers at once
			t.Errorf("it waited %v", d)
		}
		for n := uint32(2); n < 100; n++ {
			took(made(n))
		}
		took(made(7))
		if n := w.store.loads.Load() - loads; n != 2 {
			t.Errorf("%d reads", n)
		}
		time.Sleep(searchEvery - 1)
		took(made(8))
		if n := w.store.loads.Load() - loads; n != 2 {
			t.Errorf("%d reads before a second was over", n)
		}
		time.Sleep(time.Nanosecond)
		took(made(8))
		if n := w.store.loads.Load() - loads; n != 3 {
			t.Errorf("%d reads after a second", n)
		}
	})
}

// What was revoked is refused without a look, and what was never a token, too.
func TestRevokedAndMalformedStartNoRead(t *testing.T) {
	w := newWorld(t)
	old := w.doc.Primary().KID
	w.promote(w.stage())
	token, err := w.ringOf(old).Seal(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.revoke(old)
	r := w.open()
	loads := w.store.loads.Load()
	var invalid *codec.InvalidError
	if _, err := r.Unseal(token); !errors.As(err, &invalid) || invalid.Reason != codec.UnknownKey || invalid.KID != old {
		t.Errorf("%v", err)
	}
	for _, text := range []string{"", "v1.", "v1." + strings.Repeat("!", 60), made(1) + "=", made(1)[:30], "v1." + strings.Repeat("A", 50) + ".AAAA", made(1) + "\n"} {
		if _, err := r.Unseal(text); !errors.Is(err, codec.Malformed) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if n := w.store.loads.Load() - loads; n != 0 {
		t.Errorf("%d reads", n)
	}
}

// A flood of made-up tokens costs a read a second, no goroutines and no memory, and good
// tokens are opened all the while.
func TestFlood(t *testing.T) {
	w := newWorld(t)
	r := w.open(func(c *Config) { c.Now = nil })
	token := seal(t, r)
	loads, goroutines := w.store.loads.Load(), runtime.NumGoroutine()
	began := time.Now()
	var n atomic.Uint32
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for i := n.Add(1); i <= 100_000; i = n.Add(1) {
				if _, err := r.Unseal(made(i)); !errors.Is(err, codec.UnknownKey) {
					t.Errorf("%v", err)
					return
				}
				if i%1000 == 0 && !opens(t, r, token) {
					t.Error("a good token is refused")
				}
			}
		})
	}
	wait.Wait()
	most := int64(time.Since(began)/searchEvery) + 1
	if reads := w.store.loads.Load() - loads; reads < 1 || reads > most {
		t.Errorf("%d reads, at most %d are allowed", reads, most)
	}
	if after := runtime.NumGoroutine(); after > goroutines+2 { // a search that is about to end
		t.Errorf("%d goroutines, %d before", after, goroutines)
	}
	if _, err := r.Unseal(made(1)); !errors.Is(err, codec.UnknownKey) {
		t.Error(err)
	}
}
