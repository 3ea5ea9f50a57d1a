package keyring

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
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

// A watchedStore is a store that tells of changes.
type watchedStore struct {
	*store

	mu      sync.Mutex
	changed func()
	fails   error // of Watch, at once
	watches atomic.Int64
}

func (s *watchedStore) Watch(ctx context.Context, changed func()) error {
	s.watches.Add(1)
	s.mu.Lock()
	s.changed = changed
	err := s.fails
	s.mu.Unlock()
	if err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *watchedStore) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed()
}

func (s *watchedStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

// A ring reads at each interval, a little early rather than late.
func TestPolls(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		r := w.open(func(c *Config) { c.Now, c.Every = nil, 0 })
		loads := w.store.loads.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := w.store.loads.Load() - loads; n < 240 || n > 280 {
			t.Errorf("%d reads in an hour at an interval of 15 s", n)
		}
		w.change(func(d *keyset.Document) error { return d.SetTTL(w.note(), time.Hour) })
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if r.MaxTTL() != time.Hour {
			t.Errorf("%+v", r.Status())
		}
		// A failure once, or for long, does not end the loop.
		for _, outage := range []time.Duration{20 * time.Second, 3 * time.Hour} {
			w.store.fail(errDown)
			time.Sleep(outage)
			synctest.Wait()
			if s := r.Status(); s.Degraded == "" {
				t.Errorf("%+v", s)
			}
			w.store.fail(nil)
			time.Sleep(15 * time.Second)
			synctest.Wait()
			if s := r.Status(); s.Degraded != "" || !s.Ready() {
				t.Errorf("%+v", s)
			}
		}
	})
}

// A source that tells of changes is read at once, and no less often otherwise; a watch
// that ends is begun again, less and less often.
func TestWatches(t *testing.T) {
	w := newWorld(t)
	watched := &watchedStore{store: w.store}
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		r := w.open(func(c *Config) { c.Now, c.Source, c.Every = nil, watched, 15*time.Second })
		synctest.Wait()
		w.change(func(d *keyset.Document) error { return d.SetTTL(w.note(), time.Hour) })
		watched.tell()
		synctest.Wait()
		if r.MaxTTL() != time.Hour {
			t.Errorf("%+v", r.Status())
		}
		loads := w.store.loads.Load()
		release := make(chan struct{})
		w.store.onLoad(func(context.Context) { <-release })
		for range 1000 {
			watched.tell()
		}
		synctest.Wait()
		close(release)
		synctest.Wait()
		if n := w.store.loads.Load() - loads; n > 2 {
			t.Errorf("%d reads for what was told at once", n)
		}
		w.change(func(d *keyset.Document) error { return d.SetTTL(w.note(), 2*time.Hour) })
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if r.MaxTTL() != 2*time.Hour {
			t.Errorf("it does not poll: %+v", r.Status())
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}

		watched.fail(errDown)
		watches := watched.watches.Load()
		_ = w.open(func(c *Config) { c.Now, c.Source, c.Every = nil, watched, 15*time.Second })
		time.Sleep(10 * time.Minute)
		if n := watched.watches.Load() - watches; n < 40 || n > 50 {
			t.Errorf("%d watches in ten minutes", n)
		}
	})
}

// Close ends everything, whatever is going on, and what is used afterwards says so.
func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	w := newWorld(t)
	watched := &watchedStore{store: w.store}
	registry := w.registry()
	other := newKEK("c")
	k := w.newKey(other)
	config := w.config()
	config.Source, config.Registry, config.Services, config.Every = watched, registry, keyset.Services{w.kek, other}, 5*time.Millisecond
	for range 20 {
		w.save()
		other.Backend = nil
		r, err := Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		token := seal(t, r)
		other.Backend = hang
		if len(w.doc.Keys) == 1 {
			w.stageKey(k)
		}
		var wait sync.WaitGroup
		wait.Go(func() { _ = r.Refresh(t.Context()) })
		wait.Go(func() { _, _ = r.Unseal(made(1)) })
		errs := make([]error, 3)
		for i := range errs {
			wait.Go(func() { errs[i] = r.Close() })
		}
		wait.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
		_, sealErr := r.Seal(nil)
		_, appendErr := r.AppendSeal(nil, nil, time.Time{})
		_, unsealErr := r.Unseal(token)
		_, madeErr := r.Unseal(made(2))
		for _, err := range []error{sealErr, appendErr, unsealErr, madeErr, r.Err(), r.Refresh(t.Context())} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%v", err)
			}
		}
		if s := r.Status(); s.Ready() || s.Sealing != "" || s.Revision == 0 || r.MaxTTL() == 0 || r.KID(token) == "" {
			t.Errorf("%+v", s)
		}
		if report := reportOf(t, w, r); !report.Stopped || report.Primary != "" || len(report.Keys) != 1 {
			t.Errorf("%+v", report)
		}
	}
	noMoreThan(t, before)
}

// noMoreThan waits until there are no more goroutines than that.
func noMoreThan(t *testing.T, goroutines int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > goroutines {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines are left, %d were there before:\n%s", runtime.NumGoroutine(), goroutines, buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(time.Millisecond)
	}
}

// Neither a source nor a registry that is deaf keeps Close from coming to an end.
func TestCloseIsBounded(t *testing.T) {
	w := newWorld(t)
	registry := w.registry()
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		r := w.open(func(c *Config) { c.Now, c.Registry, c.Every = nil, registry, 15*time.Second })
		w.store.onLoad(func(context.Context) { time.Sleep(time.Hour) })
		time.Sleep(15 * time.Second)
		registry.mu.Lock()
		registry.hook = func() { time.Sleep(time.Hour) }
		registry.mu.Unlock()
		began := time.Now()
		err := r.Close()
		if took := time.Since(began); err == nil || took > 15*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		if again := r.Close(); again == nil || again.Error() != err.Error() {
			t.Errorf("%v", again)
		}
		time.Sleep(3 * time.Hour)
	})
}

// Ten thousand swaps under sealing and unsealing: every token is accepted that was sealed
// with a key that is there, and nothing is left over.
func TestTenThousandSwaps(t *testing.T) {
	const swaps = 10_000
	before := runtime.NumGoroutine()
	w := newWorld(t)
	second := w.stage()
	first := w.doc.Primary().KID
	r := w.open(func(c *Config) { c.Now, c.Logger = nil, slog.New(slog.DiscardHandler) })
	var texts [2][]byte // both keys live in either; they take turns as primary
	w.promote(second)
	texts[1] = w.encode(w.doc)
	w.change(func(d *keyset.Document) error { return d.Rollback(w.note(), first) })
	texts[0] = w.encode(w.doc)
	secret := w.authSecret()
	docs := [2]object{parse(t, texts[0]), parse(t, texts[1])}
	revision := w.doc.Revision

	var wait sync.WaitGroup
	var seals atomic.Int64
	turns := make(chan struct{}, 16) // a few seals per swap, so that most of the time goes to those
	for range 3 {
		wait.Go(func() {
			last := ""
			for range turns {
				token, err := r.Seal([]byte("payload"))
				if err != nil {
					t.Errorf("seal: %v", err)
					return
				}
				for _, token := range []string{last, token} {
					if token == "" {
						continue
					}
					if payload, err := r.Unseal(token); err != nil || string(payload) != "payload" {
						t.Errorf("unseal: %q, %v", payload, err)
						return
					}
				}
				last = token
				seals.Add(1)
			}
		})
	}
	var heap [2]uint64
	for i := range swaps {
		revision++
		doc := docs[i%2]
		doc["revision"] = revision
		w.store.put(retag(t, doc, secret))
		for range 4 {
			signal(turns)
		}
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i == swaps/10 {
			heap[0] = heapInUse()
		}
	}
	heap[1] = heapInUse()
	close(turns)
	wait.Wait()
	s := r.Status()
	if s.Revision != revision || len(s.Keys) != 2 || seals.Load() == 0 {
		t.Errorf("%+v", s)
	}
	if n := s.Keys[0].Seals + s.Keys[1].Seals; n != uint64(seals.Load()) || s.Keys[0].Seals == 0 || s.Keys[1].Seals == 0 {
		t.Errorf("%d seals are counted, %d were made: %+v", n, seals.Load(), s.Keys)
	}
	if heap[1] > heap[0]+heap[0]/2+1<<18 {
		t.Errorf("the heap grew from %d to %d bytes", heap[0], heap[1])
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	noMoreThan(t, before)
	t.Logf("%d seals during %d swaps", seals.Load(), swaps)
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Keys come and go while tokens are sealed and opened: a token opens for as long as the
// ring has its key, and is refused afterwards.
func TestRotationsUnderLoad(t *testing.T) {
	w := newWorld(t)
	r := w.open(func(c *Config) { c.Now = nil })
	var gone atomic.Value // the key id that was retired last
	gone.Store("")
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			for ctx.Err() == nil {
				retired := gone.Load()
				token, err := r.Seal([]byte("payload"))
				if err != nil {
					t.Errorf("seal: %v", err)
					return
				}
				if r.KID(token) == retired {
					t.Error("sealed with a key that is gone")
					return
				}
				// This goroutine may have stood still until the key was gone.
				if _, err := r.Unseal(token); err != nil && keyOf(r, r.KID(token)) != nil && keyOf(r, r.KID(token)).State != keyset.Revoked {
					t.Errorf("unseal: %v", err)
					return
				}
				_, _ = r.Unseal(made(1)) // which looks among those that were revoked
			}
		})
	}
	for i := range 50 {
		old := w.doc.Primary().KID
		kid := w.stage()
		end := w.retire
		if i%2 == 1 {
			end = w.revoke
		}
		for _, step := range []func(){func() {}, func() { w.promote(kid) }, func() { end(old) }} {
			step()
			if err := r.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		gone.Store(old)
	}
	cancel()
	wait.Wait()
}

// The log is told of each change once, and of nothing secret.
func TestLog(t *testing.T) {
	w := newWorld(t)
	r := w.open(func(c *Config) { c.Every = 59 * time.Minute })
	expect := func(what string, words ...string) {
		t.Helper()
		text := w.log.text()
		if len(words) == 0 && text != "" {
			t.Errorf("%s: %s", what, text)
		}
		contains(t, what, text, words...)
		if strings.Count(text, "\n") > len(words) {
			t.Errorf("%s: more than %q in %s", what, words, text)
		}
	}
	expect("start", `msg="keyset loaded"`, `msg="keyset ring ready"`)
	_ = r.Refresh(t.Context())
	expect("nothing new")
	w.stage()
	_ = r.Refresh(t.Context())
	expect("a revision", "revision=2")
	for i := range 5 {
		w.store.fail(errors.Join(errDown, errors.New(strings.Repeat("x", i)))) // never the same text
		_ = r.Refresh(t.Context())
	}
	expect("the store fails, five times", `level=WARN msg="keyset ring degraded"`)
	w.store.put([]byte("{}"))
	_ = r.Refresh(t.Context())
	expect("and is bad", "level=WARN")
	w.clock.advance(time.Hour)
	for range 3 {
		_ = r.Refresh(t.Context())
	}
	expect("and stale", `level=WARN msg="keyset ring not ready"`)
	w.save()
	_ = r.Refresh(t.Context())
	expect("healed", `msg="keyset ring healed"`, `msg="keyset ring ready"`)
}

func TestReadiness(t *testing.T) {
	w := newWorld(t)
	r := w.open()
	ask := func(method string) (int, map[string]any) {
		t.Helper()
		recorder := httptest.NewRecorder()
		r.Readiness().ServeHTTP(recorder, httptest.NewRequest(method, "/ready", nil))
		answer := make(map[string]any)
		if method == http.MethodGet {
			if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
				t.Fatalf("%v: %s", err, recorder.Body)
			}
		}
		return recorder.Code, answer
	}
	if status, answer := ask(http.MethodGet); status != http.StatusOK || answer["ready"] != true || answer["keyset"] != "billing" {
		t.Errorf("%d %v", status, answer)
	}
	if status, _ := ask(http.MethodHead); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	if status, _ := ask(http.MethodPost); status != http.StatusMethodNotAllowed {
		t.Errorf("%d", status)
	}
	w.clock.advance(2 * time.Hour)
	status, answer := ask(http.MethodGet)
	if status != http.StatusServiceUnavailable || answer["ready"] != false {
		t.Errorf("%d %v", status, answer)
	}
	contains(t, "reason", answer["reason"].(string), "2h0m0s ago")
	_ = r.Close()
	if status, _ := ask(http.MethodGet); status != http.StatusServiceUnavailable {
		t.Errorf("%d", status)
	}
}

// What the fleet's handler serves is verified by whoever has the auth key, and by nobody
// else; it says what the status says.
func TestReport(t *testing.T) {
	w := newWorld(t)
	old := w.doc.Primary().KID
	r := w.open(func(c *Config) { c.Host = "mcp-a" })
	kid := w.stage()
	_ = seal(t, r)
	_ = seal(t, r)
	_ = r.Refresh(t.Context())
	recorder := httptest.NewRecorder()
	fleet.Handler(r.Report).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
	key, err := fleet.NewKey(w.authSecret())
	if err != nil {
		t.Fatal(err)
	}
	report, err := key.Verify(recorder.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if report.Health() != "ok" || report.Primary != old || len(report.Verifies) != 2 || report.Host != "mcp-a" || report.TTL != 10*time.Minute ||
		report.Keyset != "billing" || report.Lineage != w.doc.Lineage || report.Revision != w.doc.Revision || report.Stopped ||
		!report.Now.Equal(w.clock.now()) || !report.Loaded.Equal(w.clock.now()) || len(report.Opened) != 3 || len(report.Failed) != 0 {
		t.Errorf("%+v", report)
	}
	if len(report.Keys) != 1 || report.Keys[0].KID != old || report.Keys[0].Seals != 2 || !report.Keys[0].LiveUntil.Equal(origin.Add(10*time.Minute)) {
		t.Errorf("%+v", report.Keys)
	}
	if report.Services[0] != "memkek://a" || len(report.Services) != 1 || !strings.Contains(strings.Join(report.Verifies, " "), kid) {
		t.Errorf("%+v", report)
	}
	stranger, err := fleet.NewKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Verify(recorder.Body.Bytes()); !errors.Is(err, fleet.ErrMAC) {
		t.Errorf("%v", err)
	}
	other := w.open()
	if reportOf(t, w, other).ID == report.ID {
		t.Error("two instances have one id")
	}
}

// Why a ring is not ready says less than what has made it so: a report has both.
func TestReportKeepsTheCause(t *testing.T) {
	w := newWorld(t)
	r := w.open()
	w.store.fail(errDown)
	_ = r.Refresh(t.Context())
	cause := reportOf(t, w, r).Reason
	contains(t, "degraded", cause, errDown.Error())
	w.clock.advance(time.Hour)
	_ = r.Refresh(t.Context())
	stale := reportOf(t, w, r)
	if contains(t, "stale", stale.Reason, "may go on for 1h0m0s; ", errDown.Error()); stale.Ready {
		t.Errorf("%+v", stale)
	}

	// Without another cause it is said once.
	w.store.fail(nil)
	_ = r.Refresh(t.Context())
	w.clock.advance(time.Hour)
	if reason := reportOf(t, w, r).Reason; strings.Contains(reason, ";") || !strings.HasSuffix(reason, "may go on for 1h0m0s") {
		t.Errorf("%q", reason)
	}
}

// A document that is large is warned of.
func TestLargeDocument(t *testing.T) {
	w := newWorld(t)
	w.store.put(w.retagged(func(doc object) { doc["more"] = strings.Repeat("x", keyset.LargeBytes) }))
	r := w.open(func(c *Config) { c.Every = 15 * time.Minute })
	if s := r.Status(); len(s.Warnings) != 1 || !s.Ready() || s.Degraded != "" {
		t.Errorf("%+v", s)
	} else {
		contains(t, "warning", s.Warnings[0], "65536")
	}
}

// Whoever reads more rarely than the keyset asks for is told so before it is not ready.
func TestWarnsOfRareReads(t *testing.T) {
	w := newWorld(t)
	r := w.open(func(c *Config) { c.Every = time.Hour - 1 })
	policy := w.doc.Policy
	told := func(warned bool, maxStale time.Duration) {
		t.Helper()
		const line = "keyset ring reads too rarely"
		_ = r.Refresh(t.Context()) // what is told once is not told again
		text := w.log.text()
		if n := strings.Count(text, line); warned != (n == 1) || n > 1 {
			t.Errorf("max_stale %v, told %d times: %s", maxStale, n, text)
		} else if warned {
			contains(t, "log", text, "level=WARN", "every="+r.config.Every.String(), "max_stale="+maxStale.String(), "keytool policy", "keyset="+r.config.Name)
		}
	}
	told(false, time.Hour)
	for _, c := range []struct {
		maxStale time.Duration
		warned   bool
	}{{time.Hour, false}, {time.Hour - time.Second, true}, {time.Minute, true}, {0, false}} {
		policy.MaxStale = c.maxStale
		w.change(func(d *keyset.Document) error { return d.SetPolicy(w.note(), policy) })
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		warnings := r.Status().Warnings
		if c.warned != (len(warnings) == 1) {
			t.Errorf("max_stale %v: %q", c.maxStale, warnings)
		} else if c.warned {
			contains(t, "warning", warnings[0], "max_stale", c.maxStale.String())
		}
		told(c.warned, c.maxStale)
	}
	// One that starts with it is ready for now, and says so.
	policy.MaxStale = time.Minute
	w.change(func(d *keyset.Document) error { return d.SetPolicy(w.note(), policy) })
	r = w.open(func(c *Config) { c.Every = time.Minute })
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	told(true, time.Minute)
}

// A token whose key is being looked for when the ring is closed is not called invalid.
func TestClosedWhileItLooks(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		r := w.open(func(c *Config) { c.Now = nil })
		w.store.onLoad(func(ctx context.Context) { _ = hang(ctx) })
		done := make(chan error)
		go func() {
			_, err := r.Unseal(made(1))
			done <- err
		}()
		synctest.Wait() // it looks for the key
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, ErrClosed) || errors.Is(err, codec.ErrInvalid) {
			t.Errorf("%v", err)
		}
	})
}

// A Refresh that whoever asked has given up says nothing of the source and the registry.
func TestRefreshThatIsGivenUp(t *testing.T) {
	w := newWorld(t)
	registry := w.registry()
	r := w.openWith(registry)
	_ = w.log.text()
	ctx, cancel := context.WithCancel(t.Context())
	w.store.onLoad(func(context.Context) { cancel() })
	if err := r.Refresh(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("given up while it reads: %v", err)
	}
	if err := r.Refresh(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("given up before: %v", err)
	}
	if s := r.Status(); s.Degraded != "" || s.LastErr != nil || !s.Ready() {
		t.Errorf("%+v", s)
	}
	if text := w.log.text(); text != "" {
		t.Errorf("logged: %s", text)
	}
	// A source that has not answered in the time that it was given is another matter.
	w.store.onLoad(func(ctx context.Context) { _ = hang(ctx) })
	late, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer end()
	if err := r.reload(late); !errors.Is(err, context.DeadlineExceeded) || r.Status().Degraded == "" {
		t.Errorf("%v: %+v", err, r.Status())
	}
}

// Many that refresh at once do not wait for one read each: one that began after they asked
// serves them all, and one that began before serves nobody.
func TestRefreshesShareReads(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		r := w.open(func(c *Config) { c.Now = nil })
		w.store.onLoad(func(context.Context) { time.Sleep(time.Second) })
		loads := w.store.loads.Load()
		began := time.Now()
		var wait sync.WaitGroup
		refresh := func() {
			wait.Go(func() {
				if err := r.Refresh(t.Context()); err != nil {
					t.Error(err)
				}
				if s := r.Status(); s.Revision != w.doc.Revision {
					t.Errorf("revision %d, and %d was there before it asked", s.Revision, w.doc.Revision)
				}
			})
		}
		refresh()
		synctest.Wait() // its read has begun
		for range 50 {
			refresh()
		}
		wait.Wait()
		if n, took := w.store.loads.Load()-loads, time.Since(began); n != 2 || took != 2*time.Second {
			t.Errorf("%d reads in %v", n, took)
		}
		// Whoever waits behind a read that is given up reads.
		loads = w.store.loads.Load()
		refresh()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		wait.Go(func() {
			if err := r.Refresh(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		})
		synctest.Wait()
		refresh()
		synctest.Wait()
		time.Sleep(1500 * time.Millisecond) // the second one reads
		cancel()
		wait.Wait()
		if n := w.store.loads.Load() - loads; n != 3 {
			t.Errorf("%d reads", n)
		}
		// What failed is not shared: each is told its own.
		w.store.fail(errDown)
		loads = w.store.loads.Load()
		for range 3 {
			wait.Go(func() {
				if err := r.Refresh(t.Context()); !errors.Is(err, errDown) {
					t.Errorf("%v", err)
				}
			})
		}
		wait.Wait()
		if n := w.store.loads.Load() - loads; n != 3 {
			t.Errorf("%d reads", n)
		}
	})
}

// What changes while nobody watches is read when watching begins again.
func TestWatchesAgain(t *testing.T) {
	w := newWorld(t)
	watched := &watchedStore{store: w.store, fails: errDown}
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		r := w.open(func(c *Config) { c.Source, c.Now, c.Every = watched, nil, time.Hour })
		synctest.Wait()
		if watched.watches.Load() != 1 {
			t.Fatalf("%d watches", watched.watches.Load())
		}
		w.change(func(d *keyset.Document) error { return d.SetTTL(w.note(), time.Hour) })
		watched.fail(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := r.Status(); watched.watches.Load() != 2 || s.Revision != w.doc.Revision {
			t.Errorf("%d watches, revision %d", watched.watches.Load(), s.Revision)
		}
	})
}

// Closing the ring ends a Refresh that waits for a source.
func TestCloseEndsRefresh(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		r := w.open(func(c *Config) { c.Now = nil })
		w.store.onLoad(func(ctx context.Context) { _ = hang(ctx) })
		done := make(chan error)
		for range 3 { // one reads, two wait for it
			go func() { done <- r.Refresh(t.Context()) }()
		}
		synctest.Wait()
		began := time.Now()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		for range 3 {
			if err := <-done; !errors.Is(err, ErrClosed) {
				t.Errorf("%v", err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}
