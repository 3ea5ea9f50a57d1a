package keyset_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/keyset"
)

var (
	fleet  = keyset.EncryptionContext("fleet", "1", keyset.Data)
	secret = bytes.Repeat([]byte{0xa5}, 32)
)

// counting notes each call, in all that share one log.
type counting struct {
	keyset.KeyService

	name string
	log  *[]string
}

func (c counting) Unwrap(ctx context.Context, w keyset.WrappedKey, ec map[string]string) ([]byte, error) {
	*c.log = append(*c.log, c.name+" "+w.Service)
	return c.KeyService.Unwrap(ctx, w, ec)
}

// named has a name for errors.
type named struct{ keyset.KeyService }

func (named) String() string { return "memkek://a" }

func failing(kind keyset.Kind) func(context.Context) error {
	return func(context.Context) error { return kind }
}

func wrap(t *testing.T, s keyset.KeyService) keyset.WrappedKey {
	t.Helper()
	w, err := s.Wrap(t.Context(), secret, fleet)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestServicesUnwrap(t *testing.T) {
	a, b, other := memkek.New("a"), memkek.New("b"), memkek.New("other")
	wrapped := []keyset.WrappedKey{wrap(t, other), wrap(t, a), wrap(t, b)}
	damaged := slices.Clone(wrapped)
	damaged[1].Ciphertext = bytes.Repeat([]byte{1}, 60)

	for _, c := range []struct {
		name     string
		services keyset.Services
		wrapped  []keyset.WrappedKey
		calls    string
		kinds    []keyset.Kind // of the error
	}{
		{"in the order of what is wrapped", keyset.Services{b, a}, wrapped, "1 memkek://a", nil},
		{"only what is configured", keyset.Services{b}, wrapped, "0 memkek://b", nil},
		{"the next if one fails", keyset.Services{a, b}, damaged, "0 memkek://a, 1 memkek://b", nil},
		{"two services for one key", keyset.Services{b, memkek.New("a", "b"), a}, damaged[1:2], "1 memkek://a, 2 memkek://a", []keyset.Kind{keyset.ContextMismatch}},
		{"every error is kept", keyset.Services{broken(keyset.Denied, "a"), broken(keyset.Disabled, "b")}, wrapped, "0 memkek://a, 1 memkek://b", []keyset.Kind{keyset.Denied, keyset.Disabled}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log []string
			services := make(keyset.Services, len(c.services))
			for i, s := range c.services {
				services[i] = counting{s, string(rune('0' + i)), &log}
			}
			got, err := services.Unwrap(t.Context(), c.wrapped, fleet)
			if calls := strings.Join(log, ", "); calls != c.calls {
				t.Errorf("calls %q, want %q", calls, c.calls)
			}
			if len(c.kinds) == 0 {
				if err != nil || !bytes.Equal(got, secret) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				return
			}
			if got != nil {
				t.Error("there is a data key with the error")
			}
			for _, kind := range c.kinds {
				if !errors.Is(err, kind) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v: not %v in one line", err, kind)
				}
			}
		})
	}
}

func broken(kind keyset.Kind, names ...string) *memkek.Service {
	s := memkek.New(names...)
	s.Backend = failing(kind)
	return s
}

func TestServicesNotConfigured(t *testing.T) {
	untouched := memkek.New("a")
	untouched.Backend = func(context.Context) error {
		t.Error("the service was called")
		return nil
	}
	stored := []keyset.WrappedKey{
		{Service: "memkek://b", Ciphertext: []byte("x")},
		{Service: "awskms:///arn\n" + strings.Repeat("x", 5000), Ciphertext: []byte("x")},
		{Service: "memkek://b", Ciphertext: []byte("y")},
	}
	var many []keyset.WrappedKey
	for i := range 100 {
		many = append(many, keyset.WrappedKey{Service: fmt.Sprintf("memkek://x%d", i), Ciphertext: []byte("x")})
	}
	for _, c := range []struct {
		name     string
		services keyset.Services
		wrapped  []keyset.WrappedKey
		names    []string
	}{
		{"no service", nil, stored, []string{"no key service is configured"}},
		{"nothing wrapped", keyset.Services{untouched}, nil, []string{"no wrapped key"}},
		{"none opens it", keyset.Services{untouched}, stored, []string{`"memkek://b"`, `"awskms:///arn\n`, "none of the 1 configured key services opens"}},
		{"many", keyset.Services{untouched}, many, []string{`under "memkek://x0" and under "memkek://x1" and under "memkek://x2" and under "memkek://x3" and under others, and none`}},
		{"what is configured", keyset.Services{untouched, named{untouched}, named{untouched}}, stored, []string{"none of the 3 configured key services (memkek://a, memkek://a) opens"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.services.Unwrap(t.Context(), c.wrapped, fleet)
			if got != nil || !errors.Is(err, keyset.ErrConfig) {
				t.Fatalf("%v, %v", got, err)
			}
			for _, name := range c.names {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("%v does not say %s", err, name)
				}
			}
			if n := len(err.Error()); n > 1000 || strings.Count(err.Error(), "memkek://b") > 1 {
				t.Errorf("%d bytes: %v", n, err)
			}
			if _, err := c.services.Rewrap(t.Context(), c.wrapped, fleet); !errors.Is(err, keyset.ErrConfig) {
				t.Errorf("Rewrap: %v", err)
			}
		})
	}
	if _, _, err := (keyset.Services{}).Generate(t.Context(), fleet); !errors.Is(err, keyset.ErrConfig) {
		t.Errorf("Generate: %v", err)
	}
}

func TestServicesOpens(t *testing.T) {
	services := keyset.Services{memkek.New("a"), memkek.New("b", "c")}
	for name, want := range map[string]bool{"memkek://a": true, "memkek://c": true, "memkek://d": false, "": false} {
		if services.Opens(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// A region that does not answer leaves time for the one that does.
func TestServicesShareTheTime(t *testing.T) {
	// The entropy source of FIPS 140-3 mode does not work on a fake clock: whatever
	// draws randomness comes first.
	first, second, third := memkek.New("a"), memkek.New("b"), memkek.New("c")
	wrapped := []keyset.WrappedKey{wrap(t, first), wrap(t, second), wrap(t, third)}
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		first.Backend, second.Backend = hang, hang
		services := keyset.Services{first, second, third}

		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		start := time.Now()
		if got, err := services.Unwrap(ctx, wrapped, fleet); err != nil || !bytes.Equal(got, secret) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if took := time.Since(start); took != 20*time.Second {
			t.Errorf("two of three shares took %v", took)
		}

		third.Backend = hang
		start = time.Now()
		ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if _, err := services.Unwrap(ctx, wrapped, fleet); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, keyset.Unavailable) {
			t.Errorf("%v", err)
		}
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("all three took %v", took)
		}

		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		var log []string
		services[0], services[1] = counting{first, "0", &log}, counting{second, "1", &log}
		if _, err := services.Unwrap(ctx, wrapped, fleet); !errors.Is(err, context.Canceled) || len(log) != 1 {
			t.Errorf("cancelled: %v, calls %q", err, log)
		}
	})
}

// generating is a Generator that gives what it is told to.
type generating struct {
	keyset.KeyService

	dataKey []byte
	err     error
}

func (g generating) Generate(ctx context.Context, ec map[string]string) ([]byte, keyset.WrappedKey, error) {
	w, _ := g.Wrap(ctx, g.dataKey, ec)
	return g.dataKey, w, g.err
}

func TestServicesGenerate(t *testing.T) {
	a := memkek.New("a")
	services := keyset.Services{a, broken(keyset.Denied, "b")}
	seen := make(map[string]bool)
	for range 3 {
		dataKey, w, err := services.Generate(t.Context(), fleet)
		if err != nil || len(dataKey) != 32 || seen[string(dataKey)] || w.Service != "memkek://a" {
			t.Fatalf("%d bytes of %s, %v", len(dataKey), w.Service, err)
		}
		seen[string(dataKey)] = true
		if got, err := services.Unwrap(t.Context(), []keyset.WrappedKey{w}, fleet); err != nil || !bytes.Equal(got, dataKey) {
			t.Errorf("it unwraps to %d bytes, %v", len(got), err)
		}
	}

	good := generating{KeyService: a, dataKey: bytes.Clone(secret)}
	if dataKey, w, err := (keyset.Services{good}).Generate(t.Context(), fleet); err != nil || !bytes.Equal(dataKey, secret) || w.Service != "memkek://a" {
		t.Errorf("a generator: %d bytes, %v", len(dataKey), err)
	}
	for name, bad := range map[string]generating{
		"too short":  {KeyService: a, dataKey: bytes.Clone(secret[:16])},
		"with error": {KeyService: a, dataKey: bytes.Clone(secret), err: keyset.Denied},
	} {
		dataKey, w, err := (keyset.Services{bad}).Generate(t.Context(), fleet)
		if err == nil || dataKey != nil || w.Ciphertext != nil {
			t.Errorf("%s: %d bytes, %v", name, len(dataKey), err)
		}
		if !bytes.Equal(bad.dataKey, make([]byte, len(bad.dataKey))) {
			t.Errorf("%s: the refused data key was not zeroed", name)
		}
	}
	if _, _, err := (keyset.Services{broken(keyset.Denied, "a")}).Generate(t.Context(), fleet); !errors.Is(err, keyset.Denied) {
		t.Errorf("a service that fails: %v", err)
	}
}

// rewrapping is a Rewrapper that gives what it is told to, and notes every data key
// that it has shown.
type rewrapping struct {
	keyset.KeyService

	result keyset.WrappedKey
	err    error
	asked  *[]keyset.WrappedKey
	shown  *[][]byte
}

func (r rewrapping) Rewrap(_ context.Context, w keyset.WrappedKey, _ map[string]string) (keyset.WrappedKey, error) {
	*r.asked = append(*r.asked, w)
	return r.result, r.err
}

func (r rewrapping) Unwrap(ctx context.Context, w keyset.WrappedKey, ec map[string]string) ([]byte, error) {
	dataKey, err := r.KeyService.Unwrap(ctx, w, ec)
	*r.shown = append(*r.shown, dataKey)
	return dataKey, err
}

func TestServicesRewrap(t *testing.T) {
	a, b := memkek.New("a"), memkek.New("b")
	old := wrap(t, b)

	w, err := keyset.Services{a, b}.Rewrap(t.Context(), []keyset.WrappedKey{old}, fleet)
	if err != nil || w.Service != "memkek://a" {
		t.Fatalf("from b to a: %+v, %v", w, err)
	}
	if got, err := a.Unwrap(t.Context(), w, fleet); err != nil || !bytes.Equal(got, secret) {
		t.Errorf("it unwraps to %d bytes, %v", len(got), err)
	}

	stranger, err := b.Wrap(t.Context(), bytes.Repeat([]byte{1}, 32), fleet)
	if err != nil {
		t.Fatal(err)
	}
	good := wrap(t, b)
	for _, c := range []struct {
		name   string
		result keyset.WrappedKey
		err    error
		want   error
	}{
		{"the same data key", good, nil, nil},
		{"another data key", stranger, nil, keyset.Corrupt},
		{"what nobody opens", keyset.WrappedKey{Service: "memkek://z", Ciphertext: []byte("x")}, nil, keyset.WrongKey},
		{"an error", good, keyset.Denied, keyset.Denied},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []keyset.WrappedKey
			var shown [][]byte
			services := keyset.Services{rewrapping{b, c.result, c.err, &asked, &shown}, a}
			w, err := services.Rewrap(t.Context(), []keyset.WrappedKey{old}, fleet)
			if len(asked) != 1 || !bytes.Equal(asked[0].Ciphertext, old.Ciphertext) {
				t.Errorf("the rewrapper was asked %d times", len(asked))
			}
			for _, dataKey := range shown {
				if !bytes.Equal(dataKey, make([]byte, len(dataKey))) {
					t.Error("a data key was not zeroed")
				}
			}
			if !errors.Is(err, c.want) || err == nil != (c.want == nil) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			if err == nil && !bytes.Equal(w.Ciphertext, c.result.Ciphertext) || err != nil && w.Ciphertext != nil {
				t.Errorf("result %+v", w)
			}
		})
	}

	t.Run("a rewrapper that does not open it", func(t *testing.T) {
		var asked []keyset.WrappedKey
		var shown [][]byte
		services := keyset.Services{rewrapping{a, old, nil, &asked, &shown}, b}
		w, err := services.Rewrap(t.Context(), []keyset.WrappedKey{old}, fleet)
		if err != nil || w.Service != "memkek://a" || len(asked) != 0 {
			t.Errorf("%s, %v, asked %d times", w.Service, err, len(asked))
		}
	})
}
