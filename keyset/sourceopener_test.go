package keyset_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/keyset"
)

func sources() keyset.SourceOpeners {
	return keyset.SourceOpeners{
		keyset.FileOpener(), keyset.EnvOpener(),
		keyset.NewSourceOpener(func(_ context.Context, uri string) (keyset.SourceFunc, error) {
			if strings.HasSuffix(uri, "bad") {
				return nil, keyset.Denied
			}
			return func(context.Context) ([]byte, error) { return []byte(uri), nil }, nil
		}, "one", "two"),
	}
}

func TestSourceOpeners(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keyset.json")
	put(t, path, "a file", 0o600)
	put(t, filepath.Join(dir, "a b"), "with a space", 0o600)
	t.Chdir(dir)
	t.Setenv("ECHOSEAL_TEST_KEYSET", "a variable")
	for uri, want := range map[string]string{
		path: "a file", "keyset.json": "a file", "./keyset.json": "a file", "a b": "with a space",
		"file://" + path: "a file", "FILE://" + path: "a file", "file://localhost" + path: "a file", "file://" + dir + "/a%20b": "with a space",
		"env://ECHOSEAL_TEST_KEYSET": "a variable",
		"one://x":                    "one://x", "Two://x?y=z://": "Two://x?y=z://",
	} {
		source, err := sources().Open(t.Context(), uri)
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		doc, _, err := source.Load(t.Context())
		if err != nil || string(doc) != want {
			t.Errorf("%s: %q, %v", uri, doc, err)
		}
		_, writable := source.(keyset.Store)
		if writable != (strings.Contains(want, "file") || strings.Contains(want, "space")) {
			t.Errorf("%s is writable: %v", uri, writable)
		}
	}
}

func TestSourceOpenersErrors(t *testing.T) {
	for _, c := range []struct {
		uri  string
		list keyset.SourceOpeners
		err  error
		says string
	}{
		{"", sources(), keyset.ErrConfig, "no store: give its URI; the schemes are file, env, one, two"},
		{"three://user:canary@host", sources(), keyset.ErrConfig, `no store has the scheme "three"; the schemes are file, env, one, two`},
		{"one://bad", sources(), keyset.Denied, "denied"},
		{"/canary", nil, keyset.ErrConfig, "the store is not given as SCHEME://…; this program knows no scheme"},
		{"file:///canary", nil, keyset.ErrConfig, `no store has the scheme "file"; this program knows no scheme`},
		{"file:/canary", sources(), keyset.ErrConfig, "three slashes"},
		{"file://canary/x", sources(), keyset.ErrConfig, "three slashes"},
		{"file://user:canary@/x", sources(), keyset.ErrConfig, "three slashes"},
		{"file:///canary?mode=1", sources(), keyset.ErrConfig, "three slashes"},
		{"file:///canary#1", sources(), keyset.ErrConfig, "three slashes"},
		{"file:///canary%", sources(), keyset.ErrConfig, "three slashes"},
		{"file://", sources(), keyset.ErrConfig, "three slashes"},
		{"file:///", sources(), keyset.ErrConfig, "not the path of a file"},
		{"env://", sources(), keyset.ErrConfig, "env://NAME"},
		{"env:///canary", sources(), keyset.ErrConfig, "env://NAME"},
		{"env://A=canary", sources(), keyset.ErrConfig, "env://NAME"},
	} {
		source, err := c.list.Open(t.Context(), c.uri)
		if source != nil || !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v", c.uri, source, err)
			continue
		}
		if strings.Contains(err.Error(), "canary") {
			t.Errorf("the error shows the URI: %v", err)
		}
	}
}

func TestReadOnlySources(t *testing.T) {
	doc := []byte("a document")
	t.Setenv("ECHOSEAL_TEST_KEYSET", string(doc))
	t.Setenv("ECHOSEAL_TEST_EMPTY", "")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, source := range map[string]keyset.Source{"env://ECHOSEAL_TEST_KEYSET": keyset.Env("ECHOSEAL_TEST_KEYSET"), "bytes in the program": keyset.Bytes(doc)} {
		if fmt.Sprint(source) != name {
			t.Errorf("%s is called %v", name, source)
		}
		var version string
		for range 2 {
			got, v, err := source.Load(t.Context())
			if err != nil || string(got) != "a document" || v == "" || version != "" && v != version {
				t.Errorf("%s: %q, version %q, %v", name, got, v, err)
			}
			clear(got)
			version = v
		}
		if _, ok := source.(keyset.Store); ok {
			t.Errorf("%s is a Store", name)
		}
		if got, _, err := source.Load(cancelled); got != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled: %q, %v", name, got, err)
		}
	}
	constant := keyset.Bytes(doc)
	clear(doc)
	if got, _, err := constant.Load(t.Context()); err != nil || string(got) != "a document" {
		t.Errorf("%q, %v", got, err)
	}
	for _, source := range []keyset.Source{keyset.Env("ECHOSEAL_TEST_EMPTY"), keyset.Env("ECHOSEAL_TEST_MISSING"), keyset.Bytes(nil)} {
		if got, version, err := source.Load(t.Context()); got != nil || version != "" || !errors.Is(err, keyset.ErrNotExist) || !strings.Contains(err.Error(), fmt.Sprint(source)) {
			t.Errorf("%v: %q, %q, %v", source, got, version, err)
		}
	}
	t.Setenv("ECHOSEAL_TEST_KEYSET", "another")
	if got, _, err := keyset.Env("ECHOSEAL_TEST_KEYSET").Load(t.Context()); err != nil || string(got) != "another" {
		t.Errorf("%q, %v", got, err)
	}
}
