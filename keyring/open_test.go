package keyring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/keyset"
)

func TestConfigErrors(t *testing.T) {
	w := newWorld(t)
	var noRegistry *fakeRegistry
	var noService *counting
	for name, c := range map[string]struct {
		set  func(*Config)
		word string
	}{
		"no name":            {func(c *Config) { c.Name = "" }, "Name"},
		"no source":          {func(c *Config) { c.Source = nil }, "Source"},
		"a nil source":       {func(c *Config) { c.Source = (*store)(nil) }, "Source"},
		"a nil function":     {func(c *Config) { c.Source = keyset.SourceFunc(nil) }, "Source"},
		"no service":         {func(c *Config) { c.Services = nil }, "Services"},
		"a nil service":      {func(c *Config) { c.Services = keyset.Services{w.kek, noService} }, "service 1"},
		"a nil registry":     {func(c *Config) { c.Registry = noRegistry }, "Registry"},
		"a negative time":    {func(c *Config) { c.StartTimeout = -1 }, "StartTimeout"},
		"an interval of -1":  {func(c *Config) { c.Every = -1 }, "Every"},
		"an interval of 25h": {func(c *Config) { c.Every = 25 * time.Hour }, "Every"},
		"a revision of -1":   {func(c *Config) { c.MinRevision = -1 }, "MinRevision"},
	} {
		config := w.config()
		c.set(&config)
		r, err := Open(t.Context(), config)
		if r != nil || !errors.Is(err, codec.ErrConfig) || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := w.store.loads.Load(); n != 0 {
		t.Errorf("%d reads", n)
	}
}

// Twenty servers start on an empty store: each says so, and no key is made.
func TestStartOnAnEmptyStore(t *testing.T) {
	w := newWorld(t)
	w.store.fail(fmt.Errorf("%w at memory:///keyset", keyset.ErrNotExist))
	calls := w.kek.calls.Load()
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if r, err := Open(t.Context(), w.config()); r != nil || !errors.Is(err, keyset.ErrNotExist) {
				t.Errorf("%v", err)
			}
		})
	}
	wait.Wait()
	if n := w.kek.calls.Load() - calls; n != 0 {
		t.Errorf("%d calls of the key service", n)
	}
}

// hang does not answer, but heeds its context.
func hang(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// When time has run out the error says what was waited for.
func TestStartTimeoutNamesTheStep(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(*world, *Config, *counting)
		kind  error
		words []string
	}{
		"the store": {
			func(w *world, _ *Config, _ *counting) { w.store.onLoad(func(ctx context.Context) { _ = hang(ctx) }) },
			nil, []string{"memory:///keyset"},
		},
		"a store that is deaf": {
			func(w *world, _ *Config, _ *counting) {
				w.store.onLoad(func(context.Context) { time.Sleep(time.Hour) })
			},
			nil, []string{"memory:///keyset"},
		},
		"no document yet": {
			func(w *world, c *Config, _ *counting) { w.store.fail(keyset.ErrNotExist); c.Wait = true },
			keyset.ErrNotExist, []string{"memory:///keyset"},
		},
		"the auth key": {
			func(w *world, _ *Config, _ *counting) { w.kek.Backend = hang },
			keyset.Unavailable, []string{"memkek://a", "auth key"},
		},
		"throttled to the end": {
			func(w *world, _ *Config, _ *counting) {
				w.kek.Backend = func(context.Context) error { return keyset.Throttled }
			},
			keyset.Throttled, []string{"auth key"},
		},
		"a data key": {
			func(_ *world, _ *Config, c *counting) { c.Backend = hang },
			keyset.Unavailable, []string{"memkek://c", "primary"},
		},
		"the registry": {
			func(w *world, c *Config, _ *counting) {
				registry := w.registry()
				registry.fail(errDown)
				c.Registry = registry
			},
			errDown, []string{"memory:///registry"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			other := newKEK("c")
			k := w.newKey(other)
			w.stageKey(k)
			w.promote(k.KID)
			config := w.config()
			config.Services, config.StartTimeout, config.Now = keyset.Services{w.kek, other}, 7*time.Second, nil
			c.set(w, &config, other)
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r, err := Open(t.Context(), config)
				if r != nil || !errors.Is(err, context.DeadlineExceeded) || c.kind != nil && !errors.Is(err, c.kind) {
					t.Fatalf("%v, want %v", err, c.kind)
				}
				if took := time.Since(began); took > 9*time.Second {
					t.Errorf("it took %v", took)
				}
				contains(t, "error", err.Error(), append(c.words, "billing")...)
				time.Sleep(2 * time.Hour) // what is deaf comes to an end
			})
		})
	}
}

func TestStartIsEndedByItsContext(t *testing.T) {
	w := newWorld(t)
	w.kek.Backend = hang
	ctx, cancel := context.WithCancel(t.Context())
	w.store.onLoad(func(context.Context) { cancel() })
	if r, err := Open(ctx, w.config()); r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// The context of Open bounds the opening only.
func TestContextBoundsOpeningOnly(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := Open(ctx, w.config())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	cancel()
	w.stage()
	if err := r.Refresh(t.Context()); err != nil || r.Status().Revision != w.doc.Revision {
		t.Errorf("%v", err)
	}
}

func TestWaitForTheDocument(t *testing.T) {
	w := newWorld(t)
	w.store.fail(keyset.ErrNotExist)
	config := w.config()
	config.Wait, config.Now = true, nil
	synctest.Test(t, func(t *testing.T) {
		time.AfterFunc(20*time.Second, func() { w.store.fail(nil) })
		r, err := Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
	})
	// It waits for nothing else.
	w.store.fail(errDown)
	if _, err := Open(t.Context(), config); !errors.Is(err, errDown) {
		t.Error(err)
	}
}

// The first region does not answer: the second one has its share of the time.
func TestStartWithARegionThatHangs(t *testing.T) {
	w := newWorld(t)
	other := newKEK("c")
	secret := w.authSecret()
	data, err := keyset.Services{w.kek}.OpenSecret(t.Context(), "billing", *w.doc.Primary())
	if err != nil {
		t.Fatal(err)
	}
	auth, err := other.Wrap(t.Context(), secret, keyset.EncryptionContext("billing", w.doc.Auth.ID, keyset.Auth))
	if err != nil {
		t.Fatal(err)
	}
	key, err := other.Wrap(t.Context(), data, keyset.EncryptionContext("billing", w.doc.Primary().ID, keyset.Data))
	if err != nil {
		t.Fatal(err)
	}
	w.change(func(d *keyset.Document) error {
		return d.Rewrap(w.note(), map[string][]keyset.WrappedKey{
			"": append(d.Auth.Wrapped, auth), d.Primary().KID: append(d.Primary().Wrapped, key),
		})
	})
	w.kek.Backend = hang
	config := w.config()
	config.Services, config.Now = keyset.Services{w.kek, other}, nil
	synctest.Test(t, func(t *testing.T) {
		r, err := Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		s := r.Status()
		contains(t, "degraded", s.Degraded, "memkek://a", "unavailable")
		if !s.Ready() {
			t.Errorf("%+v", s)
		}
	})
}

// A hundred instances start at once at a key service that allows twenty calls a second:
// all of them are ready inside their start-up time.
func TestHundredStartsUnderThrottling(t *testing.T) {
	w := newWorld(t)
	w.promote(w.stage())
	w.stage()
	var mu sync.Mutex
	var second int64
	var made, throttled int
	synctest.Test(t, func(t *testing.T) {
		w.kek.Backend = func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			if now := time.Now().Unix(); now != second {
				second, made = now, 0
			}
			if made++; made > 20 {
				throttled++
				return keyset.Throttled
			}
			return nil
		}
		config := w.config()
		config.Now, config.StartTimeout, config.Logger = nil, time.Minute, slog.New(slog.DiscardHandler)
		began := time.Now()
		var wait sync.WaitGroup
		for i := range 100 {
			wait.Go(func() {
				r, err := Open(t.Context(), config)
				if err != nil {
					t.Errorf("instance %d after %v: %v", i, time.Since(began), err)
					return
				}
				defer func() { _ = r.Close() }()
				for r.Err() != nil && time.Since(began) < 2*time.Minute {
					time.Sleep(time.Second)
				}
				if err := r.Err(); err != nil {
					t.Errorf("instance %d is not ready: %v", i, err)
				}
			})
		}
		wait.Wait()
		if throttled == 0 {
			t.Error("nothing was throttled")
		}
	})
}

// Data keys are unwrapped side by side, but not without bound.
func TestDataKeysInParallel(t *testing.T) {
	w := newWorld(t)
	for range 15 {
		w.promote(w.stage())
	}
	var mu sync.Mutex
	var now, most int
	config := w.config()
	config.Now = nil
	synctest.Test(t, func(t *testing.T) {
		w.kek.Backend = func(context.Context) error {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		}
		began := time.Now()
		r, err := Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		if took := time.Since(began); took != 300*time.Millisecond || most != parallelCalls {
			t.Errorf("the auth key and 16 data keys took %v, with %d calls at once", took, most)
		}
	})
}

// A try that the end of the time cuts off says nothing of why the tries before it failed.
func TestStartTimeoutTellsTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		tries := 0
		err := persist(ctx, temporary, func() error {
			if tries++; tries == 1 {
				return keyset.Throttled
			}
			return errors.Join(keyset.Unavailable, hang(ctx))
		})
		if !errors.Is(err, keyset.Throttled) || tries != 2 {
			t.Errorf("%v after %d tries", err, tries)
		}
	})
}

// A start whose primary is lost does not wait for the other keys.
func TestStartWithoutAPrimaryEndsAtOnce(t *testing.T) {
	w := newWorld(t)
	slow, lost := newKEK("c"), newKEK("d")
	primary, staged := w.newKey(lost), w.newKey(slow)
	w.stageKey(primary)
	w.promote(primary.KID)
	w.stageKey(staged)
	slow.Backend, lost.Backend = hang, denied
	config := w.config()
	config.Services, config.Now = keyset.Services{w.kek, slow, lost}, nil
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if r, err := Open(t.Context(), config); r != nil || !errors.Is(err, keyset.Denied) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
