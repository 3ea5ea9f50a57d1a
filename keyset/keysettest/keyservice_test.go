package keysettest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/keyset"
)

// A bench is a back end that can be disturbed, and what a test changes of the services
// in front of it.
type bench struct {
	change  func(keyset.KeyService) keyset.KeyService
	harness func(*KeyServiceHarness)

	mu     sync.Mutex
	calls  int
	silent bool
	kind   keyset.Kind
	left   int // how many calls fail, all if negative
}

// call is a call of the back end.
func (b *bench) call(ctx context.Context) error {
	b.mu.Lock()
	b.calls++
	silent, fails := b.silent, b.left != 0
	if b.left > 0 {
		b.left--
	}
	kind := b.kind
	b.mu.Unlock()
	switch {
	case silent:
		<-ctx.Done()
		return ctx.Err()
	case fails:
		return kind
	}
	return nil
}

func (b *bench) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

func (b *bench) run(t *testing.T) {
	h := KeyServiceHarness{
		New: func(_ testing.TB, keys ...int) keyset.KeyService {
			var names []string
			for _, key := range keys {
				names = append(names, []string{"first", "second"}[key])
			}
			mem := memkek.New(names...)
			mem.Backend = b.call
			if b.change != nil {
				return b.change(full{mem, names})
			}
			return full{mem, names}
		},
		Calls: func() (n int) {
			b.set(func() { n = b.calls })
			return n
		},
		Silence: func(t testing.TB) {
			b.set(func() { b.silent = true })
			t.Cleanup(func() { b.set(func() { b.silent = false }) })
		},
		Fail: func(t testing.TB, kind keyset.Kind, calls int) {
			b.set(func() { b.kind, b.left = kind, calls })
			t.Cleanup(func() { b.set(func() { b.left = 0 }) })
		},
		Kinds: []keyset.Kind{keyset.Throttled, keyset.Unavailable, keyset.Denied, keyset.Disabled},
	}
	if b.harness != nil {
		b.harness(&h)
	}
	KeyService(t, h)
}

// full has all optional interfaces.
type full struct {
	*memkek.Service

	names []string
}

func (f full) Generate(ctx context.Context, ec map[string]string) ([]byte, keyset.WrappedKey, error) {
	dataKey := make([]byte, 32)
	_, _ = rand.Read(dataKey)
	w, err := f.Wrap(ctx, dataKey, ec)
	if err != nil {
		return nil, w, err
	}
	return dataKey, w, nil
}

func (f full) Rewrap(ctx context.Context, w keyset.WrappedKey, ec map[string]string) (keyset.WrappedKey, error) {
	dataKey, err := f.Unwrap(ctx, w, ec)
	if err != nil {
		return keyset.WrappedKey{}, err
	}
	return f.Wrap(ctx, dataKey, ec)
}

func (f full) Describe(ctx context.Context) ([]keyset.KeyDescription, error) {
	var all []keyset.KeyDescription
	for _, name := range f.names {
		one := memkek.New(name)
		one.Backend = f.Backend
		_, err := one.Wrap(ctx, make([]byte, 32), nil)
		all = append(all, keyset.KeyDescription{Service: "memkek://" + name, Err: err})
	}
	return all, nil
}

func TestKit(t *testing.T) {
	t.Run("with all optional interfaces", func(t *testing.T) { new(bench).run(t) })
	t.Run("with none", func(t *testing.T) {
		(&bench{change: func(s keyset.KeyService) keyset.KeyService { return s.(full).Service }}).run(t)
	})
	t.Run("without a back end", func(t *testing.T) {
		(&bench{harness: func(h *KeyServiceHarness) {
			why := "there is no back end"
			*h = KeyServiceHarness{New: h.New, Without: map[string]string{"silence": why, "retries": why, "refusals": why, "no stray call": why}}
		}}).run(t)
	})
}

// A faulty is a good service with changes on the way in and out.
type faulty struct {
	full

	wrap     func(w keyset.WrappedKey, dataKey []byte, ec map[string]string) keyset.WrappedKey
	unwrap   func(w keyset.WrappedKey, ec map[string]string, open opening) ([]byte, error)
	opens    func(string) bool
	generate func(dataKey []byte) []byte
	rewrap   func(old, w keyset.WrappedKey) keyset.WrappedKey
	describe func([]keyset.KeyDescription) []keyset.KeyDescription
	fail     func(context.Context, *keyset.KeyError) error
	before   func(context.Context, string) context.Context
}

type opening func(keyset.WrappedKey, map[string]string) ([]byte, error)

func (f faulty) enter(ctx context.Context, op string) context.Context {
	if f.before != nil {
		return f.before(ctx, op)
	}
	return ctx
}

func (f faulty) leave(ctx context.Context, err error) error {
	var e *keyset.KeyError
	if f.fail != nil && errors.As(err, &e) {
		return f.fail(ctx, e)
	}
	return err
}

func (f faulty) Wrap(ctx context.Context, dataKey []byte, ec map[string]string) (keyset.WrappedKey, error) {
	w, err := f.full.Wrap(f.enter(ctx, "wrap"), dataKey, ec)
	if err == nil && f.wrap != nil {
		w = f.wrap(w, dataKey, ec)
	}
	return w, f.leave(ctx, err)
}

func (f faulty) Unwrap(ctx context.Context, w keyset.WrappedKey, ec map[string]string) ([]byte, error) {
	in := f.enter(ctx, "unwrap")
	open := func(w keyset.WrappedKey, ec map[string]string) ([]byte, error) { return f.full.Unwrap(in, w, ec) }
	if f.unwrap == nil {
		f.unwrap = func(w keyset.WrappedKey, ec map[string]string, open opening) ([]byte, error) { return open(w, ec) }
	}
	dataKey, err := f.unwrap(w, ec, open)
	return dataKey, f.leave(ctx, err)
}

func (f faulty) Opens(name string) bool {
	if f.opens != nil {
		return f.opens(name)
	}
	return f.full.Opens(name)
}

func (f faulty) Generate(ctx context.Context, ec map[string]string) ([]byte, keyset.WrappedKey, error) {
	dataKey, w, err := f.full.Generate(f.enter(ctx, "generate"), ec)
	if err == nil && f.generate != nil {
		dataKey = f.generate(dataKey)
	}
	return dataKey, w, f.leave(ctx, err)
}

func (f faulty) Rewrap(ctx context.Context, old keyset.WrappedKey, ec map[string]string) (keyset.WrappedKey, error) {
	w, err := f.full.Rewrap(f.enter(ctx, "rewrap"), old, ec)
	if err == nil && f.rewrap != nil {
		w = f.rewrap(old, w)
	}
	return w, f.leave(ctx, err)
}

func (f faulty) Describe(ctx context.Context) ([]keyset.KeyDescription, error) {
	all, err := f.full.Describe(ctx)
	if f.describe != nil {
		all = f.describe(all)
	}
	return all, err
}

// with changes what is read of the context.
func with(read func(map[string]string) map[string]string) faulty {
	stored := new(sync.Map) // by ciphertext, what it was wrapped under
	return faulty{
		wrap: func(w keyset.WrappedKey, _ []byte, ec map[string]string) keyset.WrappedKey {
			stored.Store(string(w.Ciphertext), maps.Clone(ec))
			return w
		},
		unwrap: func(w keyset.WrappedKey, ec map[string]string, open opening) ([]byte, error) {
			if under, ok := stored.Load(string(w.Ciphertext)); ok && fmt.Sprint(read(ec)) == fmt.Sprint(read(under.(map[string]string))) {
				ec = under.(map[string]string)
			}
			return open(w, ec)
		},
	}
}

func without(name string) faulty {
	return with(func(ec map[string]string) map[string]string {
		rest := maps.Clone(ec)
		delete(rest, name)
		return rest
	})
}

// reads changes the ciphertext on its way in.
func reads(read func([]byte) []byte) faulty {
	return faulty{unwrap: func(w keyset.WrappedKey, ec map[string]string, open opening) ([]byte, error) {
		w.Ciphertext = read(w.Ciphertext)
		return open(w, ec)
	}}
}

func fails(change func(*keyset.KeyError)) faulty {
	return faulty{fail: func(_ context.Context, e *keyset.KeyError) error {
		changed := *e
		change(&changed)
		return &changed
	}}
}

// faults are services with one fault each, and a subtest that must find it.
var faults = map[string]struct {
	faulty

	finds string
}{
	"loses a byte": {faulty{unwrap: func(w keyset.WrappedKey, ec map[string]string, open opening) ([]byte, error) {
		dataKey, err := open(w, ec)
		return dataKey[:max(0, len(dataKey)-1)], err
	}}, "round_trip"},
	"only 32 bytes": {faulty{wrap: func(w keyset.WrappedKey, dataKey []byte, _ map[string]string) keyset.WrappedKey {
		if len(dataKey) > 32 {
			w.Ciphertext = w.Ciphertext[:60]
		}
		return w
	}}, "round_trip"},
	"writes the key in the clear": {faulty{wrap: func(w keyset.WrappedKey, dataKey []byte, _ map[string]string) keyset.WrappedKey {
		w.Ciphertext = append(bytes.Clone(w.Ciphertext), dataKey...)
		return w
	}}, "round_trip"},
	"zeroes what is the caller's": {faulty{wrap: func(w keyset.WrappedKey, dataKey []byte, _ map[string]string) keyset.WrappedKey {
		clear(dataKey)
		return w
	}}, "caller's_buffers"},
	"caches data keys": {cache(), "caller's_buffers"},
	"has no context":   {with(func(map[string]string) map[string]string { return nil }), "contexts"},
	"does not bind the keyset": {
		without("echoseal:keyset"), "contexts",
	},
	"does not bind the purpose": {without("echoseal:purpose"), "purpose"},
	"ignores what is more in the context": {with(func(ec map[string]string) map[string]string {
		return map[string]string{"a": ec["echoseal:keyset"], "b": ec["echoseal:key"], "c": ec["echoseal:purpose"]}
	}), "contexts"},
	"strings the context together": {with(func(ec map[string]string) map[string]string {
		return map[string]string{"all": strings.NewReplacer(":", "", " ", "", "[", "").Replace(fmt.Sprint(ec))}
	}), "look-alike_contexts"},
	"ignores bytes at the end": {reads(func(c []byte) []byte { return c[:min(len(c), 60)] }), "damaged_ciphertext"},
	"does not authenticate": {faulty{unwrap: func(w keyset.WrappedKey, ec map[string]string, open opening) ([]byte, error) {
		dataKey, err := open(w, ec)
		if errors.Is(err, keyset.ContextMismatch) && len(w.Ciphertext) == 60 {
			return w.Ciphertext[:32], nil
		}
		return dataKey, err
	}}, "damaged_ciphertext"},
	"trims space": {reads(bytes.TrimSpace), "encoded_ciphertext"},
	"decodes base64 unasked": {reads(func(c []byte) []byte {
		if raw, err := base64.StdEncoding.DecodeString(string(c)); err == nil {
			return raw
		}
		return c
	}), "encoded_ciphertext"},
	"opens by trial": {faulty{unwrap: func(w keyset.WrappedKey, ec map[string]string, open opening) ([]byte, error) {
		dataKey, err := open(w, ec)
		for _, name := range []string{"memkek://first", "memkek://second"} {
			if err != nil {
				w.Service = name
				dataKey, err = open(w, ec)
			}
		}
		return dataKey, err
	}}, "another_key"},
	"opens everything":      {faulty{opens: func(string) bool { return true }}, "Opens"},
	"opens by prefix":       {faulty{opens: func(name string) bool { return strings.HasPrefix(name, "memkek://first") }}, "Opens"},
	"opens without looking": {faulty{opens: func(string) bool { return false }}, "Opens"},
	"calls whatever is named": {faulty{before: func(ctx context.Context, _ string) context.Context {
		return ctx
	}, unwrap: func(w keyset.WrappedKey, ec map[string]string, open opening) ([]byte, error) {
		dataKey, err := open(w, ec)
		if errors.Is(err, keyset.WrongKey) {
			stray := w
			stray.Service = "memkek://first"
			_, _ = open(stray, ec)
		}
		return dataKey, err
	}}, "no_stray_call"},
	"says nothing of a wrong key": {fails(func(e *keyset.KeyError) {
		if e.Kind == keyset.WrongKey {
			e.Kind = keyset.Denied
		}
	}), "unknown_key"},
	"gives the key with the error": {faulty{unwrap: func(w keyset.WrappedKey, ec map[string]string, open opening) ([]byte, error) {
		dataKey, err := open(w, ec)
		if err != nil {
			return []byte{0}, err
		}
		return dataKey, nil
	}}, "damaged_ciphertext"},
	"gives a plain error":    {faulty{fail: func(context.Context, *keyset.KeyError) error { return errors.New("no") }}, "contexts"},
	"names no key":           {fails(func(e *keyset.KeyError) { e.Key = "" }), "contexts"},
	"names no operation":     {fails(func(e *keyset.KeyError) { e.Operation = "" }), "contexts"},
	"names no remedy":        {fails(func(e *keyset.KeyError) { e.Remedy = "" }), "refusals"},
	"shows the context":      {fails(func(e *keyset.KeyError) { e.Remedy += keysetName }), "contexts"},
	"shows the data key":     {fails(func(e *keyset.KeyError) { e.Remedy += fmt.Sprintf("%x", secret(32)) }), "damaged_ciphertext"},
	"shows it as numbers":    {fails(func(e *keyset.KeyError) { e.Remedy += fmt.Sprint(secret(32)) }), "damaged_ciphertext"},
	"ignores its context":    {faulty{before: func(context.Context, string) context.Context { return context.Background() }}, "cancelled"},
	"is late":                {late(), "silence"},
	"hides the cancellation": {fails(func(e *keyset.KeyError) { e.Err = nil }), "cancelled"},
	"retries nothing":        {faulty{before: onlyOnce}, "retries"},
	"storms":                 {storm(keyset.Throttled, 100), "retries"},
	"repeats refused calls":  {storm(keyset.Denied, 3), "refusals"},
	"short data key":         {faulty{generate: func(dataKey []byte) []byte { return dataKey[:16] }}, "Generator"},
	"one data key for all":   {faulty{generate: func([]byte) []byte { return secret(32) }}, "Generator"},
	"rewraps nothing":        {faulty{rewrap: func(old, _ keyset.WrappedKey) keyset.WrappedKey { return old }}, "Rewrapper"},
	"rewraps to a wreck": {faulty{rewrap: func(_, w keyset.WrappedKey) keyset.WrappedKey {
		w.Ciphertext[0] ^= 1
		return w
	}}, "Rewrapper"},
	"describes in another order": {faulty{describe: func(all []keyset.KeyDescription) []keyset.KeyDescription {
		return append(all[1:], all[0])
	}}, "Describer"},
	"always well": {faulty{describe: func(all []keyset.KeyDescription) []keyset.KeyDescription {
		for i := range all {
			all[i].Err = nil
		}
		return all
	}}, "Describer"},
	"not safe for concurrent use": {unsafe(), "concurrent_use"},
}

func cache() faulty {
	kept := new(sync.Map)
	return faulty{unwrap: func(w keyset.WrappedKey, ec map[string]string, open opening) ([]byte, error) {
		id := fmt.Sprint(w, ec)
		if dataKey, ok := kept.Load(id); ok {
			return dataKey.([]byte), nil
		}
		dataKey, err := open(w, ec)
		if err == nil {
			kept.Store(id, dataKey)
		}
		return dataKey, err
	}}
}

func late() faulty {
	return faulty{fail: func(ctx context.Context, e *keyset.KeyError) error {
		if ctx.Err() != nil {
			time.Sleep(grace + 100*time.Millisecond)
		}
		return e
	}}
}

// onlyOnce ends the wait before a second attempt.
func onlyOnce(ctx context.Context, _ string) context.Context { return attempts{ctx, new(int)} }

type attempts struct {
	context.Context

	asked *int
}

func (a attempts) Err() error {
	if *a.asked++; *a.asked > 1 {
		return errors.New("no second attempt")
	}
	return a.Context.Err()
}

// storm repeats calls that end with kind.
func storm(kind keyset.Kind, times int) faulty {
	return faulty{unwrap: func(w keyset.WrappedKey, ec map[string]string, open opening) ([]byte, error) {
		dataKey, err := open(w, ec)
		for range times {
			if errors.Is(err, kind) {
				dataKey, err = open(w, ec)
			}
		}
		return dataKey, err
	}}
}

// unsafe mixes up what is under way at one time.
func unsafe() faulty {
	var mu sync.Mutex
	busy := 0
	return faulty{unwrap: func(w keyset.WrappedKey, ec map[string]string, open opening) ([]byte, error) {
		mu.Lock()
		busy++
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		mixed := busy > 1
		busy--
		mu.Unlock()
		dataKey, err := open(w, ec)
		if mixed && err == nil {
			dataKey[0] ^= 1
		}
		return dataKey, err
	}}
}

// faultyHarnesses are harnesses that do not say what they lack.
var faultyHarnesses = map[string]struct {
	change func(*KeyServiceHarness)
	finds  string
}{
	"lacks Calls":            {func(h *KeyServiceHarness) { h.Calls = nil }, "no_stray_call"},
	"lacks Silence":          {func(h *KeyServiceHarness) { h.Silence = nil }, "silence"},
	"lacks Fail":             {func(h *KeyServiceHarness) { h.Fail = nil }, "refusals"},
	"cannot throttle":        {func(h *KeyServiceHarness) { h.Kinds = h.Kinds[1:] }, "retries"},
	"cannot deny":            {func(h *KeyServiceHarness) { h.Kinds = h.Kinds[:2] }, "refusals"},
	"declares what is not":   {func(h *KeyServiceHarness) { h.Without = map[string]string{"silent": "typing error"} }, "TestKitFindsFaults"},
	"does not fail as asked": {func(h *KeyServiceHarness) { h.Fail = func(testing.TB, keyset.Kind, int) {} }, "refusals"},
}

// A kit that passes everything is none: each fault must be found, in a process of its
// own since the kit fails its test.
func TestKitFindsFaults(t *testing.T) {
	if name := os.Getenv("KEYSETTEST_FAULT"); name != "" {
		b := &bench{}
		if c, ok := faultyHarnesses[name]; ok {
			b.harness = c.change
		} else {
			b.change = func(s keyset.KeyService) keyset.KeyService {
				f := faults[name].faulty
				f.full = s.(full)
				return f
			}
		}
		b.run(t)
		return
	}
	finds := make(map[string]string)
	for name, c := range faults {
		finds[name] = c.finds
	}
	for name, c := range faultyHarnesses {
		finds[name] = c.finds
	}
	findsFaults(t, finds, "Opens")
}

// findsFaults runs a test of a kit again, in a process of its own for each fault, which
// the named subtest must find. For one that the test itself must find, before it comes to
// subtests, any subtest will do.
func findsFaults(t *testing.T, finds map[string]string, anySubtest string) {
	t.Helper()
	self := t.Name()
	for name, subtest := range finds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := subtest
			if subtest == self {
				runs = anySubtest
			}
			cmd := exec.Command(os.Args[0], "-test.run=^"+self+"$/^"+runs+"$", "-test.timeout=2m")
			cmd.Env = append(os.Environ(), "KEYSETTEST_FAULT="+name)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatal("the kit passes it")
			}
			found := false
			for line := range strings.Lines(string(out)) {
				found = found || strings.Contains(line, "--- FAIL") && strings.Contains(line, subtest)
			}
			if !found {
				t.Errorf("no subtest %q failed:\n%.2000s", subtest, out)
			}
		})
	}
}
