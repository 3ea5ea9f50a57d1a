package keyring

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// A fakeRegistry keeps reports in memory, and can be made to fail.
type fakeRegistry struct {
	mu      sync.Mutex
	key     *fleet.Key
	err     error
	reports []fleet.Report
	keeps   []time.Duration
	hook    func()
}

func (w *world) registry() *fakeRegistry {
	key, err := fleet.NewKey(w.authSecret())
	if err != nil {
		w.t.Fatal(err)
	}
	return &fakeRegistry{key: key}
}

func (f *fakeRegistry) Publish(ctx context.Context, id string, signed []byte, keep time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hook != nil {
		f.hook()
	}
	if f.err != nil {
		return f.err
	}
	report, err := f.key.Verify(signed)
	if err != nil || report.ID != id {
		return fmt.Errorf("no good report: %w", err)
	}
	f.reports, f.keeps = append(f.reports, report), append(f.keeps, keep)
	return ctx.Err()
}

func (f *fakeRegistry) Collect(context.Context) ([]fleet.Answer, error) { return nil, nil }
func (f *fakeRegistry) Forget(context.Context, string) error            { return nil }
func (f *fakeRegistry) String() string                                  { return "memory:///registry" }

func (f *fakeRegistry) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fakeRegistry) all() ([]fleet.Report, []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.reports), slices.Clone(f.keeps)
}

// published waits until the registry has as many reports.
func (f *fakeRegistry) published(t testing.TB, n int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if reports, _ := f.all(); len(reports) >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("there are no %d reports", n)
		}
	}
}

// openWith opens a ring with a registry, and returns when it does nothing of itself any
// more.
func (w *world) openWith(registry *fakeRegistry, set ...func(*Config)) *Ring {
	w.t.Helper()
	loads := w.store.loads.Load()
	r := w.open(append(set, func(c *Config) { c.Registry = registry })...)
	registry.published(w.t, 2)                                 // that of the start, and the first of the loop
	if err := r.publisher.Publish(w.t.Context()); err != nil { // waits until that is noted
		w.t.Fatal(err)
	}
	// Two reads of the start, and the one that its report has asked for.
	for deadline := time.Now().Add(10 * time.Second); w.store.loads.Load() < loads+3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatal("the ring does not read after its report")
		}
	}
	r.reading <- struct{}{} // waits until that is noted
	<-r.reading
	return r
}

// ready reports what a ring does: whether it is ready, seals, unseals.
func ready(t testing.TB, r *Ring, token string) string {
	t.Helper()
	var does []string
	if r.Err() == nil {
		does = append(does, "ready")
	}
	if _, err := r.Seal(nil); err == nil {
		does = append(does, "seals")
	}
	if opens(t, r, token) {
		does = append(does, "unseals")
	}
	return strings.Join(does, " ")
}

const everything = "ready seals unseals"

// Without a successful read for max_stale a ring is not ready and does not seal, by the
// clock alone: no timer and no read has to tell it.
func TestStaleByTheClock(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		spoil func()
		err   error
	}{
		"the store fails":           {func() { w.store.fail(errDown) }, errDown},
		"there is no document":      {func() { w.store.fail(keyset.ErrNotExist) }, keyset.ErrNotExist},
		"the document is refused":   {func() { w.store.put([]byte("{}")) }, keyset.ErrDocument},
		"the process was stopped":   {nil, nil},
		"the old document is there": {func() { old := w.encode(w.doc); w.stage(); w.store.put(old) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w.save()
			r := w.open()
			token := seal(t, r)
			if c.spoil != nil {
				c.spoil()
			}
			w.clock.advance(time.Hour - 1)
			if c.err != nil {
				if err := r.Refresh(t.Context()); !errors.Is(err, c.err) {
					t.Errorf("%v, want %v", err, c.err)
				}
			}
			if does := ready(t, r, token); does != everything {
				t.Errorf("before max_stale: %s", does)
			}
			w.clock.advance(1)
			if does := ready(t, r, token); does != "unseals" {
				t.Errorf("after max_stale: %s", does)
			}
			err := r.Err()
			if !errors.Is(err, ErrNotReady) {
				t.Errorf("%v", err)
			}
			contains(t, "not ready", err.Error(), "billing", "1h0m0s")
			w.save()
			if err := r.Refresh(t.Context()); err != nil {
				t.Errorf("after a new read: %v", err)
			}
			if does := ready(t, r, token); does != everything {
				t.Errorf("after a new read: %s", does)
			}
		})
	}
}

// Becoming ready again is a start: every key is needed, staged ones too. To stay ready
// they are not.
func TestReadyAgainNeedsEveryKey(t *testing.T) {
	w := newWorld(t)
	c, out, both := w.withOutage()
	r := w.open(both)
	token := seal(t, r)
	k := w.newKey(c)
	out.set(keyset.Denied)
	w.stageKey(k)
	if err := r.Refresh(t.Context()); err != nil {
		t.Errorf("it does not stay ready: %v", err)
	}
	w.clock.advance(time.Hour)
	if err := r.Refresh(t.Context()); !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), k.KID) {
		t.Errorf("ready again without the staged key: %v", err)
	}
	if does := ready(t, r, token); does != "seals unseals" {
		t.Errorf("it %s", does)
	}
	out.set("")
	if err := r.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	out.set(keyset.Denied)
	w.clock.advance(time.Minute)
	if err := r.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestMaxStaleZeroIsForEver(t *testing.T) {
	w := newWorld(t)
	p := w.doc.Policy
	p.MaxStale = 0
	w.change(func(d *keyset.Document) error { return d.SetPolicy(w.note(), p) })
	registry := w.registry()
	r := w.openWith(registry)
	token := seal(t, r)
	registry.fail(errDown)
	w.store.fail(errDown)
	w.clock.advance(10_000 * time.Hour)
	if does := ready(t, r, token); does != everything {
		t.Errorf("it %s", does)
	}
	if _, keeps := registry.all(); keeps[0] != 0 {
		t.Errorf("kept for %v", keeps)
	}
}

// An instance registers, then reads what makes it ready, then is ready.
func TestRegistersBeforeItReads(t *testing.T) {
	w := newWorld(t)
	registry := w.registry()
	order := make(chan string, 100)
	registry.hook = func() { order <- "report" }
	w.store.onLoad(func(context.Context) { order <- "read" })
	r := w.open(func(c *Config) { c.Registry, c.Host = registry, "mcp-a" })
	first, keeps := registry.all()
	if steps := <-order + " " + <-order + " " + <-order; steps != "read report read" {
		t.Errorf("it %s", steps)
	}
	report := first[0]
	if report.Health() != "starting" || !report.Loaded.IsZero() || report.Primary != "" || len(report.Verifies) != 0 ||
		report.Host != "mcp-a" || report.Revision != w.doc.Revision || report.Every != time.Hour {
		t.Errorf("%+v", report)
	}
	if keeps[0] != time.Hour+2*time.Minute+3*time.Hour {
		t.Errorf("kept for %v", keeps[0])
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	if report := reportOf(t, w, r); report.Health() != "ok" || report.ID != first[0].ID {
		t.Errorf("%+v", report)
	}
}

// The document that makes an instance ready is the one that it reads after it was
// registered, whatever it has read before.
func TestReadsAgainAfterRegistering(t *testing.T) {
	w := newWorld(t)
	registry := w.registry()
	var kid string
	registry.hook = func() {
		if kid == "" {
			kid = "under way"
			kid = w.stage()
		}
	}
	r := w.open(func(c *Config) { c.Registry = registry })
	if k := keyOf(r, kid); k == nil || !k.Held || r.Status().Revision != w.doc.Revision {
		t.Errorf("%+v", r.Status())
	}
}

// Who was not heard for max_stale is not ready and does not seal. It reports first, then
// reads, and only then counts again.
func TestSilence(t *testing.T) {
	w := newWorld(t)
	registry := w.registry()
	r := w.openWith(registry)
	token := seal(t, r)
	registry.fail(errDown)
	expect := func(what, want string, words ...string) {
		t.Helper()
		if does := ready(t, r, token); does != want {
			t.Errorf("%s: %s", what, does)
		}
		if want != everything {
			contains(t, what, r.Err().Error(), words...)
		}
	}
	publish := func() error { return r.publisher.Publish(t.Context()) }
	read := func() error { return r.reload(t.Context()) }
	// The two loops of the ring are idle in this test: the steps are taken by hand.
	w.clock.advance(time.Hour - 1)
	if err := publish(); !errors.Is(err, errDown) {
		t.Error(err)
	}
	expect("before max_stale", everything)
	contains(t, "degraded", r.Status().Degraded, "the store is down")
	if err := read(); err != nil {
		t.Error(err)
	}
	w.clock.advance(1)
	expect("silent, though it reads", "unseals", "registry", "1h0m0s")
	kid := w.stage()
	if err := read(); err != nil {
		t.Error(err)
	}
	expect("after another read", "unseals", "registry")
	registry.fail(nil)
	if err := publish(); err != nil {
		t.Error(err)
	}
	// The loop was woken and may have read by now, which is what has to happen; so look
	// at what the report itself has left.
	reports, _ := registry.all()
	if last := reports[len(reports)-1]; last.Ready || last.Health() != "not ready" {
		t.Errorf("the report that ended the silence: %+v", last)
	}
	if err := r.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	expect("after report and read", everything)
	if k := keyOf(r, kid); !k.Held {
		t.Errorf("%+v", k)
	}
}

// Between the report that ends a silence and the read after it nothing is sealed.
func TestNothingBetweenReportAndRead(t *testing.T) {
	w := newWorld(t)
	registry := w.registry()
	r := w.openWith(registry)
	token := seal(t, r)
	w.clock.advance(time.Hour)
	reading := make(chan struct{})
	goOn := make(chan struct{})
	w.store.onLoad(func(context.Context) {
		select {
		case reading <- struct{}{}:
			<-goOn
		case <-goOn:
		}
	})
	done := make(chan error, 1)
	go func() { done <- r.Refresh(t.Context()) }()
	<-reading // the report was accepted, and the read has begun
	if does := ready(t, r, token); does != "unseals" {
		t.Errorf("it %s", does)
	}
	contains(t, "not ready", r.Err().Error(), "read")
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if does := ready(t, r, token); does != everything {
		t.Errorf("after the read it %s", does)
	}
}

// A report counts for as long as the registry was told to keep it, though the policy has
// been changed since.
func TestSilenceUnderTheOldPolicy(t *testing.T) {
	w := newWorld(t)
	registry := w.registry()
	r := w.openWith(registry)
	token := seal(t, r)
	registry.fail(errDown)
	policy := w.doc.Policy
	policy.MaxStale = 10 * time.Hour
	w.change(func(d *keyset.Document) error { return d.SetPolicy(w.note(), policy) })
	_ = r.Refresh(t.Context())
	if s := r.Status(); s.Revision != w.doc.Revision {
		t.Fatalf("%+v", s)
	}
	w.clock.advance(time.Hour - 1)
	if does := ready(t, r, token); does != everything {
		t.Errorf("it %s", does)
	}
	w.clock.advance(1)
	if does := ready(t, r, token); does != "unseals" {
		t.Errorf("it %s after the old max_stale", does)
	}
}

// Reports go out at each interval; the last one is marked stopped.
func TestReportsAtIntervals(t *testing.T) {
	w := newWorld(t)
	registry := w.registry()
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		r := w.open(func(c *Config) { c.Registry, c.Now, c.Every = registry, nil, 15*time.Second })
		time.Sleep(time.Hour)
		synctest.Wait()
		reports, _ := registry.all()
		if n := len(reports); n < 240 || n > 280 {
			t.Errorf("%d reports in an hour at an interval of 15 s", n)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		reports, keeps := registry.all()
		last := reports[len(reports)-1]
		if !last.Stopped || last.Ready || last.Primary != "" || keeps[len(keeps)-1] == 0 {
			t.Errorf("%+v", last)
		}
		stopped := 0
		for _, report := range reports {
			if report.Stopped {
				stopped++
			}
		}
		if stopped != 1 {
			t.Errorf("%d reports are marked stopped", stopped)
		}
	})
}

// A start that fails after it was registered leaves no instance behind that others wait for.
func TestFailedStartIsNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	registry := w.registry()
	w.store.onLoad(func(context.Context) {
		if w.store.loads.Load() == 2 {
			w.store.fail(errDown)
		}
	})
	c := w.config()
	c.Registry = registry
	if _, err := Open(t.Context(), c); !errors.Is(err, errDown) {
		t.Fatal(err)
	}
	reports, _ := registry.all()
	if len(reports) != 2 || reports[0].Stopped || !reports[1].Stopped {
		t.Errorf("%+v", reports)
	}
	// One that fails before is not heard of at all.
	if _, err := Open(t.Context(), c); !errors.Is(err, errDown) {
		t.Fatal(err)
	}
	if again, _ := registry.all(); len(again) != len(reports) {
		t.Errorf("%+v", again)
	}
}

// While the store or the registry changes between up and down in every way, an
// instance that is ready has been heard and has read within max_stale, and a read came
// after the report that made it known.
func TestContactNeverLies(t *testing.T) {
	for seed := range 200 {
		r := &Ring{wakes: make(chan struct{}, 1)}
		clock := &clock{}
		clock.unix.Store(origin.UnixNano())
		r.config = Config{Name: "billing", Now: clock.now}
		r.doc = &keyset.Document{TTL: time.Minute, Policy: keyset.Policy{MaxStale: 10 * time.Second, MaxSkew: time.Second}}
		r.contact.registered = true
		r.rebuild()
		var known, goodRead time.Time
		var reading struct { // a read that has begun, if began is set
			began time.Time
			epoch int
			since time.Time // knownSince when it began
		}
		var knownSince time.Time // when the present unbroken row of reports began; no two rows begin at once
		bits := uint64(seed)*0x9e3779b97f4a7c15 + 1
		for range 400 {
			bits ^= bits << 13
			bits ^= bits >> 7
			bits ^= bits << 17
			now := clock.now()
			switch bits % 5 {
			case 0:
				if known.IsZero() || now.Sub(known) >= 10*time.Second {
					knownSince = now
					goodRead = time.Time{}
				}
				known = now
				r.noteAccepted(now, 10*time.Second)
			case 1:
				if reading.began.IsZero() {
					reading.began, reading.epoch, reading.since = now, r.epoch, knownSince
					continue
				}
				r.mu.Lock()
				r.noteRead(reading.began, reading.epoch)
				r.rebuild()
				r.mu.Unlock()
				// Only a read that began after the row of reports did shows what others count on.
				if !known.IsZero() && now.Sub(known) < 10*time.Second && reading.since.Equal(knownSince) && !knownSince.IsZero() {
					goodRead = reading.began
				}
				reading.began = time.Time{}
			default:
				clock.advance(time.Duration(bits>>8%4) * time.Second)
			}
			now = clock.now()
			lost := r.current.Load().contact.lost(now)
			should := !known.IsZero() && now.Sub(known) < 10*time.Second &&
				!goodRead.IsZero() && now.Sub(r.contact.read) < 10*time.Second
			if (lost == "") != should {
				t.Fatalf("seed %d: at %v known %v since %v, read %v: %q", seed, now, known, knownSince, goodRead, lost)
			}
		}
	}
}

// After a silence, too, every key is needed, staged ones as well.
func TestHeardAgainNeedsEveryKey(t *testing.T) {
	w := newWorld(t)
	c, out, both := w.withOutage()
	registry := w.registry()
	r := w.openWith(registry, both)
	k := w.newKey(c)
	out.set(keyset.Denied)
	w.stageKey(k)
	if err := r.Refresh(t.Context()); err != nil {
		t.Errorf("it does not stay ready: %v", err)
	}
	w.clock.advance(time.Hour - 1) // not stale, since it reads, but silent in a moment
	if err := r.reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(1)
	if err := r.Refresh(t.Context()); !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), k.KID) {
		t.Errorf("ready again without the staged key: %v", err)
	}
	out.set("")
	if err := r.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
}

// Whoever is heard again reads at once, not at the next interval.
func TestHeardAgainReadsAtOnce(t *testing.T) {
	w := newWorld(t)
	registry := w.registry()
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		r := w.open(func(c *Config) { c.Registry, c.Now, c.Every = registry, nil, 40*time.Minute })
		synctest.Wait()
		registry.fail(errDown)
		time.Sleep(5 * time.Hour)
		if r.Err() == nil {
			t.Fatal("it is ready though it was not heard")
		}
		registry.fail(nil)
		before, _ := registry.all()
		for {
			time.Sleep(time.Second)
			synctest.Wait()
			if reports, _ := registry.all(); len(reports) > len(before) {
				break
			}
		}
		if err := r.Err(); err != nil {
			t.Error(err)
		}
	})
}
