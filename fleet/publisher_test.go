package fleet_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/internal/memfleet"
)

var errDown = errors.New("registry is down")

// A life is a publisher on a registry in memory.
type life struct {
	fleet.Publisher
	registry memfleet.Registry
	key      *fleet.Key

	mu   sync.Mutex
	made []time.Time // of each report
	logs strings.Builder
}

const every = 16 * time.Second

func newLife(key *fleet.Key) *life {
	l := &life{key: key}
	l.Registry, l.ID, l.Every = &l.registry, id(1), every
	l.Report = func(stopped bool) ([]byte, time.Duration, error) {
		r := report(1)
		r.Now, r.Stopped = time.Now(), stopped
		l.mu.Lock()
		l.made = append(l.made, r.Now)
		l.mu.Unlock()
		signed, err := l.key.Sign(r)
		return signed, fleet.Keep(every, time.Hour, time.Minute), err
	}
	l.Logger = slog.New(slog.NewTextHandler(l, nil))
	return l
}

// Write takes what is logged.
func (l *life) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.logs.Write(line)
}

func (l *life) logged() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.logs.String()
}

// attempts returns how many reports were made.
func (l *life) attempts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.made)
}

func (l *life) registered(t *testing.T) (fleet.Report, bool) {
	t.Helper()
	o := fleet.Collect(t.Context(), l.key, nil, &l.registry)
	if len(o.Instances) == 0 {
		return fleet.Report{}, false
	}
	return o.Instances[0].Report, o.Instances[0].Err == nil
}

func TestPublisher(t *testing.T) {
	key := mustKey(t, 0)
	synctest.Test(t, func(t *testing.T) {
		l := newLife(key)
		if !l.Accepted().IsZero() {
			t.Errorf("accepted at %v, before anything was", l.Accepted())
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { l.Run(ctx) })
		synctest.Wait()
		if r, ok := l.registered(t); !ok || r.Stopped || !l.Accepted().Equal(time.Now()) {
			t.Errorf("after the start: %+v, accepted at %v", r, l.Accepted())
		}
		// It stays fresh: no two reports are further apart than the interval.
		time.Sleep(100 * every)
		synctest.Wait()
		l.mu.Lock()
		made := slices.Clone(l.made)
		l.mu.Unlock()
		for i, at := range made[1:] {
			if d := at.Sub(made[i]); d > every || d < every*7/8-1 {
				t.Errorf("%v between two reports", d)
			}
		}
		if r, _ := l.registered(t); !r.Fresh(time.Now()) {
			t.Error("the report is not fresh")
		}
		cancel()
		running.Wait()
		count := l.attempts()
		if err := l.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if r, ok := l.registered(t); !ok || !r.Stopped {
			t.Errorf("after the end: %+v", r)
		}
		// Nothing follows the last one.
		if err := l.Publish(t.Context()); err == nil {
			t.Error("Publish after Stop succeeds")
		}
		if err := l.Stop(t.Context()); err != nil || l.attempts() != count+1 {
			t.Errorf("a second Stop: %v, %d reports", err, l.attempts()-count)
		}
		if r, _ := l.registered(t); !r.Stopped {
			t.Error("the last report is not the one that says stopped")
		}
		if l.logged() != "" {
			t.Errorf("logged: %s", l.logged())
		}
	})
}

// While the registry fails the publisher goes on, soon at first, and says so once.
func TestPublisherGoesOn(t *testing.T) {
	key := mustKey(t, 0)
	synctest.Test(t, func(t *testing.T) {
		l := newLife(key)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { l.Run(ctx) })
		synctest.Wait()
		accepted := l.Accepted()
		l.registry.Fail(errDown)
		time.Sleep(every)
		synctest.Wait()
		failed := l.attempts()
		time.Sleep(every / 2)
		synctest.Wait()
		if n := l.attempts() - failed; n < 2 {
			t.Errorf("%d attempts in half an interval after the first failure, want more", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := l.attempts(); n > 10+int(time.Hour*8/7/every) {
			t.Errorf("%d attempts in an hour, more than one an interval", n)
		}
		if !l.Accepted().Equal(accepted) {
			t.Errorf("accepted at %v, but the registry has failed since %v", l.Accepted(), accepted)
		}
		if n := strings.Count(l.logged(), "WARN"); n != 1 || !strings.Contains(l.logged(), errDown.Error()) || !strings.Contains(l.logged(), "memfleet://") {
			t.Errorf("%d warnings: %s", n, l.logged())
		}
		l.registry.Fail(nil)
		time.Sleep(every)
		synctest.Wait()
		if !l.Accepted().After(accepted.Add(time.Hour)) {
			t.Errorf("accepted at %v", l.Accepted())
		}
		if n := strings.Count(l.logged(), "INFO"); n != 1 {
			t.Errorf("%d notes that it works again: %s", n, l.logged())
		}
		cancel()
		running.Wait()
	})
}

// slow is a registry that takes its time.
type slow struct {
	memfleet.Registry
	delay time.Duration
}

func (s *slow) Publish(ctx context.Context, id string, signed []byte, keep time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.delay):
		return s.Registry.Publish(ctx, id, signed, keep)
	}
}

// The age of a report counts from when it was made, however long its way was, and one on
// its way is waited for by nobody but Publish.
func TestAcceptedIsWhenTheReportWasMade(t *testing.T) {
	key := mustKey(t, 0)
	synctest.Test(t, func(t *testing.T) {
		l := newLife(key)
		l.Registry = &slow{delay: 10 * time.Second}
		quick := l.Report
		l.Report = func(stopped bool) ([]byte, time.Duration, error) {
			signed, keep, err := quick(stopped)
			time.Sleep(time.Second) // signing may take a while, too
			return signed, keep, err
		}
		start := time.Now()
		done := make(chan error)
		go func() { done <- l.Publish(t.Context()) }()
		time.Sleep(5 * time.Second)
		if !l.Accepted().IsZero() {
			t.Errorf("accepted at %v, while it is on its way", l.Accepted())
		}
		if err := <-done; err != nil || !l.Accepted().Equal(start) {
			t.Errorf("%v, accepted at %v, made at %v", err, l.Accepted(), start)
		}
	})
}

// An attempt that hangs is given up, and the end of Run is not a failure of the registry.
func TestPublisherGivesUp(t *testing.T) {
	key := mustKey(t, 0)
	synctest.Test(t, func(t *testing.T) {
		l := newLife(key)
		l.Registry = &slow{delay: time.Hour}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { l.Run(ctx) })
		time.Sleep(every / 2)
		cancel()
		running.Wait()
		if l.logged() != "" {
			t.Errorf("logged: %s", l.logged())
		}
		ctx, cancel = context.WithCancel(t.Context())
		running.Go(func() { l.Run(ctx) })
		time.Sleep(10 * every)
		synctest.Wait()
		if n := l.attempts(); n < 5 {
			t.Errorf("%d attempts in ten intervals", n)
		}
		if !strings.Contains(l.logged(), "deadline exceeded") {
			t.Errorf("logged: %s", l.logged())
		}
		cancel()
		running.Wait()
	})
}

// A report is never overtaken by an older one.
func TestReportsKeepTheirOrder(t *testing.T) {
	key := mustKey(t, 0)
	synctest.Test(t, func(t *testing.T) {
		l := newLife(key)
		l.Registry = &slow{delay: time.Second}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if err := l.Publish(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if !slices.IsSortedFunc(l.made, time.Time.Compare) || l.made[9].Sub(l.made[0]) != 9*time.Second {
			t.Errorf("made at %v", l.made)
		}
	})
}

func TestPublisherErrors(t *testing.T) {
	l := newLife(mustKey(t, 0))
	l.Report = func(bool) ([]byte, time.Duration, error) { return nil, 0, errDown }
	wantErr(t, "no report", l.Publish(t.Context()), errDown, "making the report")
	l = newLife(mustKey(t, 0))
	l.registry.Fail(errDown)
	wantErr(t, "Publish", l.Publish(t.Context()), errDown, "memfleet://")
	wantErr(t, "Stop", l.Stop(t.Context()), errDown, "memfleet://")
	l.registry.Fail(nil)
	if err := l.Publish(t.Context()); err == nil {
		t.Error("Publish after Stop succeeds")
	}
	defer func() {
		if recover() == nil {
			t.Error("Run without an interval does not panic")
		}
	}()
	l.Every = 0
	l.Run(t.Context())
}

// However rarely reports are wished for, one that hangs is not waited for as long.
func TestHangingReportIsTriedAgainSoon(t *testing.T) {
	key := mustKey(t, 0)
	synctest.Test(t, func(t *testing.T) {
		l := newLife(key)
		l.Every = 24 * time.Hour
		l.Registry = &slow{delay: time.Hour}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { l.Run(ctx) })
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if n := l.attempts(); n < 2 {
			t.Errorf("%d attempts in two hours", n)
		}
		cancel()
		running.Wait()
	})
}
