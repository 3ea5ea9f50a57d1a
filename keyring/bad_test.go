package keyring

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/internal/strict"
	"github.com/echoseal/echoseal/keyset"
)

// A badDocument is what must never replace a good one.
type badDocument struct {
	text    []byte
	running error // what a running ring says
	fresh   error // and Open; nil: it cannot know
	words   string
}

// badDocuments returns them for a world whose document is at revision 3 or higher.
func badDocuments(w *world) map[string]badDocument {
	good := w.encode(w.doc)
	foreign := newWorld(w.t)
	other := newKEK("other")
	stranger := []byte("an auth key of somebody else, 32")
	wrongService := keyset.WrappedKey{Service: "memkek://a", Ciphertext: w.doc.Auth.Wrapped[0].Ciphertext}
	elsewhere, err := other.Wrap(w.t.Context(), stranger, keyset.EncryptionContext("billing", w.doc.Auth.ID, keyset.Auth))
	if err != nil {
		w.t.Fatal(err)
	}
	elsewhere.Service = "memkek://a" // says that it is ours
	set := func(name string, v strict.Value) func(object) { return func(doc object) { doc[name] = v } }
	next := func(doc object) { doc["revision"] = w.doc.Revision + 1 }
	both := func(a, b func(object)) func(object) { return func(doc object) { a(doc); b(doc) } }
	big := bytes.Repeat([]byte(" "), 2<<20)
	copy(big, good)
	all := map[string]badDocument{
		"empty":               {[]byte{}, keyset.ErrDocument, keyset.ErrDocument, "empty"},
		"space":               {[]byte(" \n"), keyset.ErrDocument, keyset.ErrDocument, "empty"},
		"not JSON":            {[]byte("version: 1\n"), keyset.ErrDocument, keyset.ErrDocument, "JSON"},
		"a list":              {[]byte("[]"), keyset.ErrDocument, keyset.ErrDocument, "object"},
		"something behind":    {append(bytes.Clone(good), "{}"...), keyset.ErrDocument, keyset.ErrDocument, "behind"},
		"2 MiB":               {big, keyset.ErrDocument, keyset.ErrDocument, "larger"},
		"a member twice":      {bytes.Replace(good, []byte(`"version": 1,`), []byte(`"version": 1, "version": 1,`), 1), keyset.ErrDocument, keyset.ErrDocument, "twice"},
		"another version":     {w.retagged(set("version", int64(2))), keyset.ErrDocument, keyset.ErrDocument, "version"},
		"another name":        {w.retagged(both(next, set("name", "shipping"))), ErrForeign, ErrForeign, "shipping"},
		"another keyset":      {foreign.encode(foreign.doc), ErrForeign, nil, "lineage"},
		"another lineage":     {w.retagged(both(next, set("lineage", foreign.doc.Lineage))), ErrForeign, nil, "lineage"},
		"a lower revision":    {w.retagged(set("revision", w.doc.Revision-1)), ErrOlder, nil, "revision"},
		"the first revision":  {w.retagged(set("revision", int64(1))), ErrOlder, nil, "revision"},
		"the same revision":   {w.retagged(set("ttl", "9m0s")), ErrFork, nil, "same revision"},
		"a wrong tag":         {edited(w.t, good, next), keyset.ErrTag, keyset.ErrTag, "tag"},
		"no tag":              {edited(w.t, good, func(doc object) { delete(doc, "tag") }), keyset.ErrDocument, keyset.ErrDocument, "tag"},
		"tag of another key":  {tagged(w.t, good, stranger, next), keyset.ErrTag, keyset.ErrTag, "tag"},
		"another auth id":     {w.retagged(both(next, func(doc object) { doc["auth"].(object)["id"] = foreign.doc.Auth.ID })), ErrForeign, keyset.ContextMismatch, ""},
		"auth of another key": {tagged(w.t, good, stranger, both(next, func(doc object) { doc["auth"].(object)["wrapped"] = wrappedBy(elsewhere) })), keyset.ErrTag, keyset.ContextMismatch, ""},
		"auth of no service": {edited(w.t, good, func(doc object) {
			doc["auth"].(object)["wrapped"] = wrappedBy(keyset.WrappedKey{Service: "memkek://other", Ciphertext: elsewhere.Ciphertext})
		}), keyset.ErrTag, keyset.ErrConfig, ""},
		"auth of another's URI": {edited(w.t, good, func(doc object) {
			doc["auth"].(object)["wrapped"] = wrappedBy(keyset.WrappedKey{Service: "https://evil.example/key", Ciphertext: wrongService.Ciphertext})
		}), keyset.ErrTag, keyset.ErrConfig, ""},
	}
	for cut := range len(good) - 1 { // without the last line end it is whole
		all[fmt.Sprintf("cut at byte %d", cut)] = badDocument{good[:cut], keyset.ErrDocument, keyset.ErrDocument, ""}
	}
	return all
}

// A running ring keeps what it has, says why, and calls no key service; the next good
// revision heals it.
func TestBadDocumentAgainstRunningRing(t *testing.T) {
	w := newWorld(t)
	w.promote(w.stage())
	bad := badDocuments(w)
	r := w.open()
	token := seal(t, r)
	calls := w.kek.calls.Load()
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		c := bad[name]
		w.store.put(c.text)
		if err := r.Refresh(t.Context()); !errors.Is(err, c.running) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %v with %q", name, err, c.running, c.words)
		}
		s := r.Status()
		if s.Revision != w.doc.Revision || s.Degraded == "" || !s.Ready() || !errors.Is(s.LastErr, c.running) {
			t.Errorf("%s: %+v", name, s)
		}
		if !opens(t, r, token) || !opens(t, r, seal(t, r)) {
			t.Errorf("%s: the old keys do not work", name)
		}
	}
	if n := w.kek.calls.Load() - calls; n != 0 {
		t.Errorf("%d calls of the key service for documents that were refused", n)
	}
	w.stage()
	if err := r.Refresh(t.Context()); err != nil {
		t.Errorf("the next good revision: %v", err)
	}
	if s := r.Status(); s.Degraded != "" || s.Revision != w.doc.Revision {
		t.Errorf("not healed: %+v", s)
	}
}

func TestBadDocumentAgainstFreshStart(t *testing.T) {
	w := newWorld(t)
	w.promote(w.stage())
	bad := badDocuments(w)
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		c := bad[name]
		if c.fresh == nil {
			continue
		}
		calls := w.kek.calls.Load()
		w.store.put(c.text)
		r, err := Open(t.Context(), w.config())
		if r != nil || !errors.Is(err, c.fresh) || !strings.Contains(err.Error(), "billing") || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %v with %q", name, err, c.fresh, c.words)
		}
		if n := w.kek.calls.Load() - calls; n > 1 {
			t.Errorf("%s: %d calls of the key service before the tag was checked", name, n)
		}
	}
}

func TestFreshStartErrors(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(*world, *Config)
		is    error
		words []string
	}{
		"no document":       {func(w *world, _ *Config) { w.store.fail(keyset.ErrNotExist) }, keyset.ErrNotExist, []string{"billing", "memory:///keyset"}},
		"the store is down": {func(w *world, _ *Config) { w.store.fail(errDown) }, errDown, []string{"billing", "memory:///keyset"}},
		"another name":      {func(_ *world, c *Config) { c.Name = "shipping" }, ErrForeign, []string{"shipping", "billing"}},
		"an old copy":       {func(_ *world, c *Config) { c.MinRevision = 7 }, ErrOlder, []string{"revision 1", "7"}},
		"another service":   {func(_ *world, c *Config) { c.Services = keyset.Services{newKEK("c")} }, keyset.ErrConfig, []string{"memkek://a"}},
		"a service denies":  {func(w *world, _ *Config) { w.kek.Backend = denied }, keyset.Denied, []string{"memkek://a", "auth key"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			config := w.config()
			c.set(w, &config)
			r, err := Open(t.Context(), config)
			if r != nil || !errors.Is(err, c.is) {
				t.Fatalf("%v, want %v", err, c.is)
			}
			contains(t, "error", err.Error(), c.words...)
		})
	}
}
