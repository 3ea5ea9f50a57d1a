package keysettest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/echoseal/echoseal/internal/memstore"
	"github.com/echoseal/echoseal/keyset"
)

// A storeBench is a server of stores that can be disturbed, and what a test changes of
// the stores in front of it.
type storeBench struct {
	change  func(*faultyStore)
	harness func(*StoreHarness)

	server memstore.Server
	silent atomic.Bool
	down   atomic.Pointer[chan struct{}] // closed at each restart
}

func (b *storeBench) step(ctx context.Context, _ string) error {
	if b.silent.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if dies, ok := ctx.Value(death{}).(*int); ok {
		if *dies == 0 {
			*dies--
			runtime.Goexit()
		}
		*dies--
	}
	return nil
}

type death struct{}

func (b *storeBench) open(name string) *faultyStore {
	f := &faultyStore{Store: b.server.Open(name), bench: b, name: name}
	if b.change != nil {
		b.change(f)
	}
	return f
}

func (b *storeBench) run(t *testing.T) {
	b.server.Step = b.step
	down := make(chan struct{})
	b.down.Store(&down)
	h := StoreHarness{
		prompt: 2 * time.Second,
		New:    func(_ testing.TB, name string) keyset.Store { return b.open(name) },
		Silence: func(t testing.TB) {
			b.silent.Store(true)
			t.Cleanup(func() { b.silent.Store(false) })
		},
		Kill: func(t testing.TB, name string, doc []byte, version string, step int) bool {
			s := b.open(name)
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := s.Save(context.WithValue(t.Context(), death{}, &step), doc, version); err != nil {
					t.Errorf("Save: %v", err)
				}
			})
			wg.Wait()
			return step < 0
		},
		Restart: func(testing.TB) {
			down := make(chan struct{})
			close(*b.down.Swap(&down))
		},
	}
	if b.harness != nil {
		b.harness(&h)
	}
	Store(t, h)
}

// A faultyStore is a good store with changes on the way in and out.
type faultyStore struct {
	*memstore.Store

	bench *storeBench
	name  string
	load  func(ctx context.Context) ([]byte, string, error)
	save  func(ctx context.Context, doc []byte, version string) (string, error)
	watch func(ctx context.Context, changed func()) error
}

func (f *faultyStore) Load(ctx context.Context) ([]byte, string, error) {
	if f.load != nil {
		return f.load(ctx)
	}
	return f.Store.Load(ctx)
}

func (f *faultyStore) Save(ctx context.Context, doc []byte, version string) (string, error) {
	if f.save != nil {
		return f.save(ctx, doc, version)
	}
	return f.Store.Save(ctx, doc, version)
}

var errDown = errors.New("the server has gone away")

// Watch ends with an error when the server is started anew.
func (f *faultyStore) Watch(ctx context.Context, changed func()) error {
	if f.watch != nil {
		return f.watch(ctx, changed)
	}
	return f.untilDown(ctx, changed)
}

func (f *faultyStore) untilDown(ctx context.Context, changed func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	down := *f.bench.down.Load()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		select {
		case <-down:
			cancel(errDown)
		case <-ctx.Done():
		}
	})
	err := f.Store.Watch(ctx, changed)
	cancel(nil)
	return errors.Join(err, context.Cause(ctx))
}

func TestStoreKit(t *testing.T) {
	t.Run("with a watch", func(t *testing.T) { new(storeBench).run(t) })
	t.Run("without", func(t *testing.T) {
		b := &storeBench{}
		b.harness = func(h *StoreHarness) {
			h.New = func(_ testing.TB, name string) keyset.Store {
				return struct{ keyset.Store }{b.open(name)}
			}
		}
		b.run(t)
	})
	t.Run("of small documents", func(t *testing.T) {
		(&storeBench{
			harness: func(h *StoreHarness) { h.MaxBytes = 4096 },
			change: func(f *faultyStore) {
				f.save = func(ctx context.Context, doc []byte, version string) (string, error) {
					if len(doc) > 4096 {
						return "", errors.New("too large")
					}
					return f.Store.Save(ctx, doc, version)
				}
			},
		}).run(t)
	})
}

// What a writer has sent before it died may be carried out after the next reading.
func TestStoreKitWithLateWrites(t *testing.T) {
	var late sync.Map // of func(), by the name of the place
	(&storeBench{
		harness: func(h *StoreHarness) {
			h.Kill = func(t testing.TB, name string, doc []byte, version string, step int) bool {
				save := func() {
					if _, err := h.New(t, name).Save(t.Context(), doc, version); err != nil {
						t.Error(err)
					}
				}
				if step > 0 {
					save()
					return false
				}
				late.Store(name, save)
				return true
			}
		},
		change: func(f *faultyStore) {
			f.load = func(ctx context.Context) ([]byte, string, error) {
				doc, version, err := f.Store.Load(ctx)
				if save, ok := late.LoadAndDelete(f.name); ok {
					save.(func())()
				}
				return doc, version, err
			}
		},
	}).run(t)
}

// reading makes a change of what Load returns.
func reading(change func(doc []byte, version string, err error) ([]byte, string, error)) func(*faultyStore) {
	return func(f *faultyStore) {
		f.load = func(ctx context.Context) ([]byte, string, error) { return change(f.Store.Load(ctx)) }
	}
}

// saving makes a change of what Save writes.
func saving(change func(doc []byte) []byte) func(*faultyStore) {
	return func(f *faultyStore) {
		f.save = func(ctx context.Context, doc []byte, version string) (string, error) {
			return f.Store.Save(ctx, change(doc), version)
		}
	}
}

// overwriting saves in the place of any version for which it is told to.
func overwriting(when func(version, present string) bool) func(*faultyStore) {
	return func(f *faultyStore) {
		f.save = func(ctx context.Context, doc []byte, version string) (string, error) {
			_, present, err := f.Store.Load(ctx)
			if (err == nil || errors.Is(err, keyset.ErrNotExist)) && when(version, present) {
				version = present
			}
			return f.Store.Save(ctx, doc, version)
		}
	}
}

func watching(watch func(ctx context.Context, f *faultyStore, changed func()) error) func(*faultyStore) {
	return func(f *faultyStore) {
		f.watch = func(ctx context.Context, changed func()) error { return watch(ctx, f, changed) }
	}
}

// storeFaults are stores with one fault each, and a subtest that must find it.
var storeFaults = map[string]struct {
	change func(*faultyStore)
	finds  string
}{
	"says nothing of an empty place": {reading(func(doc []byte, version string, err error) ([]byte, string, error) {
		if errors.Is(err, keyset.ErrNotExist) {
			return nil, "", nil
		}
		return doc, version, err
	}), "empty_place"},
	"has an error of its own": {reading(func(doc []byte, version string, err error) ([]byte, string, error) {
		if err != nil {
			return nil, "", errors.New("404")
		}
		return doc, version, nil
	}), "empty_place"},
	"gives an empty place a version": {reading(func(doc []byte, version string, err error) ([]byte, string, error) {
		if err != nil {
			version = "0"
		}
		return doc, version, err
	}), "empty_place"},
	"makes what is to be replaced": {overwriting(func(_, present string) bool { return present == "" }), "empty_place"},
	"takes 0 for none": {overwriting(func(version, present string) bool {
		return version == "0" && present == ""
	}), "empty_place"},
	"overwrites when it creates":  {overwriting(func(version, _ string) bool { return version == "" }), "create"},
	"has no versions":             {overwriting(func(string, string) bool { return true }), "conflict"},
	"reads a part of the version": {overwriting(func(version, present string) bool { return present != "" && strings.HasPrefix(version, present) }), "versions"},
	"trims the version":           {overwriting(func(version, present string) bool { return strings.TrimSpace(version) == present && version != "" }), "versions"},
	"one place for all": {func(f *faultyStore) {
		f.Store = f.bench.server.Open("one")
	}, "create"},
	"counts lengths": {func(f *faultyStore) {
		length := func(doc []byte) string { return fmt.Sprint(len(doc)) }
		f.load = func(ctx context.Context) ([]byte, string, error) {
			doc, version, err := f.Store.Load(ctx)
			if err == nil {
				version = length(doc)
			}
			return doc, version, err
		}
		f.save = func(ctx context.Context, doc []byte, version string) (string, error) {
			old, present, err := f.Store.Load(ctx)
			if err == nil && version == length(old) {
				version = present
			}
			if _, err := f.Store.Save(ctx, doc, version); err != nil {
				return "", err
			}
			return length(doc), nil
		}
	}, "versions"},
	"returns the old version": {func(f *faultyStore) {
		f.save = func(ctx context.Context, doc []byte, version string) (string, error) {
			newVersion, err := f.Store.Save(ctx, doc, version)
			if version != "" && err == nil {
				newVersion = version
			}
			return newVersion, err
		}
	}, "versions"},
	"a version for each reading": {func(f *faultyStore) {
		n := new(atomic.Int64)
		f.load = func(ctx context.Context) ([]byte, string, error) {
			doc, version, err := f.Store.Load(ctx)
			return doc, fmt.Sprint(version, ".", n.Add(1)), err
		}
	}, "versions"},
	"a conflict is any error": {func(f *faultyStore) {
		f.save = func(ctx context.Context, doc []byte, version string) (string, error) {
			newVersion, err := f.Store.Save(ctx, doc, version)
			if err != nil {
				err = errors.New("409")
			}
			return newVersion, err
		}
	}, "conflict"},
	"a version beside the error": {func(f *faultyStore) {
		f.save = func(ctx context.Context, doc []byte, version string) (string, error) {
			newVersion, err := f.Store.Save(ctx, doc, version)
			if err != nil {
				newVersion = version + "0"
			}
			return newVersion, err
		}
	}, "conflict"},
	"trims":           {saving(bytes.TrimSpace), "round_trip"},
	"adds a line end": {saving(func(doc []byte) []byte { return append(bytes.Clone(doc), '\n') }), "round_trip"},
	"compacts JSON": {saving(func(doc []byte) []byte {
		var out bytes.Buffer
		if json.Compact(&out, doc) != nil {
			return doc
		}
		return out.Bytes()
	}), "round_trip"},
	"ends at NUL":         {saving(func(doc []byte) []byte { before, _, _ := bytes.Cut(doc, []byte{0}); return before }), "round_trip"},
	"drops the mark":      {saving(func(doc []byte) []byte { return bytes.TrimPrefix(doc, []byte("\ufeff")) }), "round_trip"},
	"normalises":          {saving(func(doc []byte) []byte { return bytes.ReplaceAll(doc, []byte("e\u0301"), []byte("\u00e9")) }), "round_trip"},
	"cuts at 64 KiB":      {saving(func(doc []byte) []byte { return doc[:min(len(doc), 64<<10)] }), "round_trip"},
	"cuts the last byte":  {saving(func(doc []byte) []byte { return doc[:min(len(doc), keyset.MaxBytes-1)] }), "round_trip"},
	"keeps the caller's":  {keeping(), "caller's_buffers"},
	"shares what it has":  {sharing(), "caller's_buffers"},
	"writes in two parts": {inParts(), "readers"},
	"reads in two parts": {func(f *faultyStore) {
		f.load = func(ctx context.Context) ([]byte, string, error) {
			_, version, err := f.Store.Load(ctx)
			if err != nil {
				return nil, "", err
			}
			time.Sleep(time.Millisecond)
			doc, _, err := f.Store.Load(ctx)
			return doc, version, err
		}
	}, "readers"},
	"compares before it swaps": {func(f *faultyStore) {
		f.save = func(ctx context.Context, doc []byte, version string) (string, error) {
			_, present, err := f.Store.Load(ctx)
			if err == nil && version != present {
				return "", keyset.ErrConflict
			}
			for {
				time.Sleep(time.Millisecond)
				_, present, err = f.Store.Load(ctx)
				if err != nil && !errors.Is(err, keyset.ErrNotExist) {
					return "", err
				}
				newVersion, err := f.Store.Save(ctx, doc, present)
				if !errors.Is(err, keyset.ErrConflict) {
					return newVersion, err
				}
			}
		}
	}, "concurrent_writers"},
	"creates twice": {func(f *faultyStore) {
		f.save = func(ctx context.Context, doc []byte, version string) (string, error) {
			if _, _, err := f.Store.Load(ctx); err == nil || version != "" {
				return f.Store.Save(ctx, doc, version)
			}
			for time.Sleep(time.Millisecond); ; {
				_, present, _ := f.Store.Load(ctx)
				if newVersion, err := f.Store.Save(ctx, doc, present); err == nil {
					return newVersion, nil
				}
			}
		}
	}, "concurrent_creation"},
	"ignores its context": {func(f *faultyStore) {
		f.save = func(_ context.Context, doc []byte, version string) (string, error) {
			return f.Store.Save(context.Background(), doc, version)
		}
	}, "cancelled"},
	"reads without its context": {func(f *faultyStore) {
		f.load = func(context.Context) ([]byte, string, error) { return f.Store.Load(context.Background()) }
	}, "cancelled"},
	"saves all the same": {func(f *faultyStore) {
		f.save = func(ctx context.Context, doc []byte, version string) (string, error) {
			newVersion, err := f.Store.Save(context.WithoutCancel(ctx), doc, version)
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			return newVersion, err
		}
	}, "cancelled"},
	"is late": {func(f *faultyStore) {
		f.load = func(ctx context.Context) ([]byte, string, error) {
			doc, version, err := f.Store.Load(ctx)
			if ctx.Err() != nil {
				time.Sleep(grace + 100*time.Millisecond)
			}
			return doc, version, err
		}
	}, "silence"},
	"takes silence for nothing": {reading(func(doc []byte, version string, err error) ([]byte, string, error) {
		if err != nil && !errors.Is(err, keyset.ErrNotExist) {
			err = fmt.Errorf("%w: %w", keyset.ErrNotExist, err)
		}
		return doc, version, err
	}), "silence"},
	"takes silence for a conflict": {func(f *faultyStore) {
		f.save = func(ctx context.Context, doc []byte, version string) (string, error) {
			newVersion, err := f.Store.Save(ctx, doc, version)
			if ctx.Err() != nil {
				err = keyset.ErrConflict
			}
			return newVersion, err
		}
	}, "silence"},
	"watches in silence": {watching(func(_ context.Context, _ *faultyStore, changed func()) error {
		time.Sleep(soon + grace + 100*time.Millisecond)
		changed()
		return nil
	}), "silence"},
	"truncates first":        {inParts(), "killed_writer"},
	"dies with the lock":     {locking(), "killed_writer"},
	"forgets at a restart":   {forgetting(), "restart"},
	"tells of no change":     {watching(func(ctx context.Context, _ *faultyStore, _ func()) error { <-ctx.Done(); return ctx.Err() }), "Watcher"},
	"tells of one change":    {watching(once), "Watcher"},
	"never watches":          {watching(func(context.Context, *faultyStore, func()) error { return errDown }), "Watcher"},
	"watches for ever":       {watching(forever), "Watcher"},
	"tells afterwards":       {watching(afterwards), "Watcher"},
	"tells too early":        {tooEarly(), "Watcher"},
	"watches only what is":   {watching(onlyPresent), "Watcher"},
	"is lost at a restart":   {watching(lost), "restart"},
	"watches when cancelled": {watching(whenCancelled), "Watcher"},
}

// keeping does not copy what it saves.
func keeping() func(*faultyStore) {
	var all sync.Map
	return func(f *faultyStore) {
		f.save = func(ctx context.Context, doc []byte, version string) (string, error) {
			newVersion, err := f.Store.Save(ctx, doc, version)
			if err == nil {
				all.Store(f.name, doc)
			}
			return newVersion, err
		}
		f.load = func(ctx context.Context) ([]byte, string, error) {
			doc, version, err := f.Store.Load(ctx)
			if kept, ok := all.Load(f.name); ok && err == nil {
				doc = bytes.Clone(kept.([]byte))
			}
			return doc, version, err
		}
	}
}

// sharing gives the same bytes to all readers.
func sharing() func(*faultyStore) {
	var all sync.Map
	return func(f *faultyStore) {
		f.load = func(ctx context.Context) ([]byte, string, error) {
			doc, version, err := f.Store.Load(ctx)
			if err == nil {
				shared, _ := all.LoadOrStore(f.name+version, doc)
				doc = shared.([]byte)
			}
			return doc, version, err
		}
	}
}

// inParts writes one half after the other.
func inParts() func(*faultyStore) {
	return func(f *faultyStore) {
		f.save = func(ctx context.Context, doc []byte, version string) (string, error) {
			half, err := f.Store.Save(ctx, doc[:len(doc)/2], version)
			if err != nil {
				return "", err
			}
			time.Sleep(time.Millisecond)
			return f.Store.Save(ctx, doc, half)
		}
	}
}

// locking has a lock that the death of its holder does not free.
func locking() func(*faultyStore) {
	var locks sync.Map
	return func(f *faultyStore) {
		f.save = func(ctx context.Context, doc []byte, version string) (string, error) {
			if _, held := locks.LoadOrStore(f.name, true); held {
				return "", errors.New("locked")
			}
			newVersion, err := f.Store.Save(ctx, doc, version)
			locks.Delete(f.name)
			return newVersion, err
		}
	}
}

// forgetting keeps nothing over a restart.
func forgetting() func(*faultyStore) {
	var saved sync.Map
	return func(f *faultyStore) {
		f.save = func(ctx context.Context, doc []byte, version string) (string, error) {
			saved.Store(f.name, f.bench.down.Load())
			return f.Store.Save(ctx, doc, version)
		}
		f.load = func(ctx context.Context) ([]byte, string, error) {
			if down, ok := saved.Load(f.name); ok && down != f.bench.down.Load() {
				return nil, "", keyset.ErrNotExist
			}
			return f.Store.Load(ctx)
		}
	}
}

func once(ctx context.Context, f *faultyStore, changed func()) error {
	var first sync.Once
	return f.untilDown(ctx, func() { first.Do(changed) })
}

func forever(ctx context.Context, f *faultyStore, changed func()) error {
	err := f.untilDown(ctx, changed)
	time.Sleep(grace + 500*time.Millisecond)
	return err
}

// afterwards leaves a goroutine behind that tells of a change.
func afterwards(ctx context.Context, f *faultyStore, changed func()) error {
	err := f.untilDown(ctx, changed)
	time.AfterFunc(quiet/2, changed)
	return err
}

// tooEarly tells of a change before it can be read.
func tooEarly() func(*faultyStore) {
	var old sync.Map
	return func(f *faultyStore) {
		f.save = func(ctx context.Context, doc []byte, version string) (string, error) {
			before, _, err := f.Store.Load(ctx)
			if err == nil {
				old.Store(f.name, before)
				time.AfterFunc(2*quiet, func() { old.Delete(f.name) })
			}
			return f.Store.Save(ctx, doc, version)
		}
		f.load = func(ctx context.Context) ([]byte, string, error) {
			doc, version, err := f.Store.Load(ctx)
			if before, ok := old.Load(f.name); ok && err == nil {
				doc = before.([]byte)
			}
			return doc, version, err
		}
	}
}

func onlyPresent(ctx context.Context, f *faultyStore, changed func()) error {
	if _, _, err := f.Store.Load(ctx); err != nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.untilDown(ctx, changed)
}

func lost(ctx context.Context, f *faultyStore, changed func()) error {
	if err := f.untilDown(ctx, changed); ctx.Err() != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func whenCancelled(ctx context.Context, f *faultyStore, changed func()) error {
	if ctx.Err() != nil {
		time.Sleep(grace + 500*time.Millisecond)
	}
	return f.untilDown(ctx, changed)
}

// faultyStoreHarnesses are harnesses that do not say what they lack, or do not do what
// they should.
var faultyStoreHarnesses = map[string]struct {
	change func(*StoreHarness)
	finds  string
}{
	"lacks Silence":          {func(h *StoreHarness) { h.Silence = nil }, "silence"},
	"lacks Kill":             {func(h *StoreHarness) { h.Kill = nil }, "killed_writer"},
	"lacks Restart":          {func(h *StoreHarness) { h.Restart = nil }, "restart"},
	"is not silent":          {func(h *StoreHarness) { h.Silence = func(testing.TB) {} }, "silence"},
	"kills nobody":           {func(h *StoreHarness) { h.Kill = killsNobody(h.New) }, "killed_writer"},
	"writes nothing at last": {func(h *StoreHarness) { h.Kill = func(testing.TB, string, []byte, string, int) bool { return false } }, "killed_writer"},
	"lets a stranger in":     {func(h *StoreHarness) { h.Kill = conflictsAfterwards(h) }, "killed_writer"},
	"kills without end":      {func(h *StoreHarness) { h.Kill = func(testing.TB, string, []byte, string, int) bool { return true } }, "killed_writer"},
	"declares what is not":   {func(h *StoreHarness) { h.Without = map[string]string{"silent": "typing error"} }, "TestStoreKitFindsFaults"},
}

// conflictsAfterwards lets the writer die, and another one come that is not of the test.
func conflictsAfterwards(h *StoreHarness) func(testing.TB, string, []byte, string, int) bool {
	open := h.New
	var strange sync.Map
	h.New = func(t testing.TB, name string) keyset.Store {
		s := open(t, name).(*faultyStore)
		s.load = func(ctx context.Context) ([]byte, string, error) {
			doc, version, err := s.Store.Load(ctx)
			if _, ok := strange.LoadAndDelete(name); ok {
				_, saveErr := s.Store.Save(ctx, []byte("strange"), version)
				err = errors.Join(err, saveErr)
			}
			return doc, version, err
		}
		return s
	}
	kill := killsNobody(open)
	return func(t testing.TB, name string, doc []byte, version string, step int) bool {
		if step > 0 {
			return kill(t, name, doc, version, step)
		}
		strange.Store(name, true)
		return true
	}
}

func killsNobody(open func(testing.TB, string) keyset.Store) func(testing.TB, string, []byte, string, int) bool {
	return func(t testing.TB, name string, doc []byte, version string, _ int) bool {
		if _, err := open(t, name).Save(t.Context(), doc, version); err != nil {
			t.Error(err)
		}
		return false
	}
}

// Each fault must be found, in a process of its own since the kit fails its test.
func TestStoreKitFindsFaults(t *testing.T) {
	if name := os.Getenv("KEYSETTEST_FAULT"); name != "" {
		b := &storeBench{change: storeFaults[name].change, harness: faultyStoreHarnesses[name].change}
		b.run(t)
		return
	}
	finds := make(map[string]string)
	for name, c := range storeFaults {
		finds[name] = c.finds
	}
	for name, c := range faultyStoreHarnesses {
		finds[name] = c.finds
	}
	findsFaults(t, finds, "create")
}
