package keyring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/internal/strict"
	"github.com/echoseal/echoseal/keyset"
)

// A store holds one document in memory, and can be made to fail.
type store struct {
	mu    sync.Mutex
	text  []byte
	err   error
	hook  func(context.Context) // called by each Load before it reads
	loads atomic.Int64
}

func (s *store) Load(ctx context.Context) ([]byte, string, error) {
	s.loads.Add(1)
	s.mu.Lock()
	hook := s.hook
	s.mu.Unlock()
	if hook != nil {
		hook(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	return bytes.Clone(s.text), "", s.err
}

func (s *store) String() string { return "memory:///keyset" }

func (s *store) put(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text, s.err = bytes.Clone(text), nil
}

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *store) onLoad(hook func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// A clock is set by hand.
type clock struct{ unix atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.unix.Load()) }
func (c *clock) advance(d time.Duration) { c.unix.Add(int64(d)) }

// counting counts the calls of a key service.
type counting struct {
	*memkek.Service

	calls atomic.Int64
}

func (c *counting) Unwrap(ctx context.Context, w keyset.WrappedKey, ec map[string]string) ([]byte, error) {
	c.calls.Add(1)
	return c.Service.Unwrap(ctx, w, ec)
}

// A world is a keyset in a store, with the hands of keytool.
type world struct {
	t     testing.TB
	kek   *counting // the key service of servers and keytool, for memkek://a and memkek://b
	doc   *keyset.Document
	auth  *keyset.AuthKey
	store *store
	clock *clock
	log   *logs
}

var origin = time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC)

func newWorld(t testing.TB) *world {
	w := &world{t: t, kek: newKEK("a", "b"), store: &store{}, clock: &clock{}, log: &logs{}}
	w.clock.unix.Store(origin.UnixNano())
	doc, auth, err := keyset.Init(t.Context(), keyset.Services{w.kek}, keyset.InitOptions{Name: "billing", Note: w.note()})
	if err != nil {
		t.Fatal(err)
	}
	w.doc, w.auth = doc, auth
	w.save()
	return w
}

func newKEK(names ...string) *counting { return &counting{Service: memkek.New(names...)} }

func (w *world) note() keyset.Note { return keyset.Note{At: w.clock.now(), Actor: "test"} }

// encode returns the text of a document, which need not be a good one.
func (w *world) encode(d *keyset.Document) []byte {
	w.t.Helper()
	text, err := w.auth.Encode(d)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

func (w *world) save() { w.t.Helper(); w.store.put(w.encode(w.doc)) }

// change saves the next revision.
func (w *world) change(moves ...func(*keyset.Document) error) {
	w.t.Helper()
	next := w.doc.Next()
	for _, move := range moves {
		if err := move(next); err != nil {
			w.t.Fatal(err)
		}
	}
	w.doc = next
	w.save()
}

func (w *world) newKey(services ...keyset.KeyService) keyset.Key {
	w.t.Helper()
	if len(services) == 0 {
		services = []keyset.KeyService{w.kek}
	}
	k, err := w.doc.GenerateKey(w.t.Context(), services, w.clock.now())
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

func (w *world) stage(services ...keyset.KeyService) string {
	w.t.Helper()
	k := w.newKey(services...)
	w.stageKey(k)
	return k.KID
}

func (w *world) stageKey(k keyset.Key) {
	w.t.Helper()
	w.change(func(d *keyset.Document) error { return d.Stage(w.note(), k) })
}

func (w *world) promote(kid string) {
	w.t.Helper()
	w.change(func(d *keyset.Document) error { return d.Promote(w.note(), kid) })
}

func (w *world) retire(kid string) {
	w.t.Helper()
	w.change(func(d *keyset.Document) error {
		return errors.Join(d.Drain(w.note(), kid), d.Retire(w.note(), kid))
	})
}

func (w *world) revoke(kid string) {
	w.t.Helper()
	w.change(func(d *keyset.Document) error { return d.Revoke(w.note(), kid) })
}

// config is that of a ring that does nothing of itself while a test lasts: its clock is
// set by hand, and Refresh makes it read.
func (w *world) config() Config {
	return Config{Name: "billing", Source: w.store, Services: keyset.Services{w.kek}, Every: time.Hour, Now: w.clock.now, Logger: slog.New(w.log.handler())}
}

func (w *world) open(set ...func(*Config)) *Ring {
	w.t.Helper()
	c := w.config()
	for _, set := range set {
		set(&c)
	}
	r, err := Open(w.t.Context(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = r.Close() })
	return r
}

func seal(t testing.TB, r *Ring) string {
	t.Helper()
	token, err := r.Seal([]byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// opens reports whether a ring accepts a token.
func opens(t testing.TB, r *Ring, token string) bool {
	t.Helper()
	payload, err := r.Unseal(token)
	if err != nil && !errors.Is(err, codec.ErrInvalid) {
		t.Fatal(err)
	}
	return err == nil && string(payload) == "payload"
}

// keyOf returns what the status says of a key.
func keyOf(r *Ring, kid string) *KeyStatus {
	for _, k := range r.Status().Keys {
		if k.KID == kid {
			return &k
		}
	}
	return nil
}

// logs keeps what was logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) handler() slog.Handler {
	return slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
}

// text returns what was logged since the last call.
func (l *logs) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.buf.Reset()
	return l.buf.String()
}

// contains reports an error that lacks one of some words.
func contains(t testing.TB, what, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s: %q is not in %q", what, word, text)
		}
	}
}

var errDown = fmt.Errorf("the store is down")

func denied(context.Context) error { return keyset.Denied }

type strictValue = strict.Value

func mustRing(t testing.TB, keys ...*local.Key) *local.Ring {
	t.Helper()
	ring, err := local.NewRing(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// reportOf returns the report of a ring, as whoever rotates sees it.
func reportOf(t testing.TB, w *world, r *Ring) fleet.Report {
	t.Helper()
	signed, err := r.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key, err := fleet.NewKey(w.authSecret())
	if err != nil {
		t.Fatal(err)
	}
	report, err := key.Verify(signed)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// idle waits until nothing is being unwrapped.
func idle(t testing.TB, r *Ring) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		busy := r.busy
		for _, w := range r.unopened {
			if w.retry.busy {
				busy++
			}
		}
		r.mu.Unlock()
		if busy == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("unwrapping does not end")
		}
	}
}
