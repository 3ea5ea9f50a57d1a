package keysettest

import (
	"bytes"
	"testing"

	"github.com/echoseal/echoseal/keyset"
)

const optional = "not implemented: optional"

func (k *kit) generator(t *testing.T) {
	s := k.New(t, 0, 1)
	g, ok := s.(keyset.Generator)
	if !ok {
		t.Log(optional)
		return
	}
	wrapping := wrap(t, s, secret(32))
	seen := make(map[string]bool)
	for range 4 {
		dataKey, w, err := g.Generate(within(t), right())
		if err != nil {
			t.Fatalf("Generate: %v", err)
		}
		if len(dataKey) != 32 || seen[string(dataKey)] || bytes.Equal(dataKey, make([]byte, len(dataKey))) {
			t.Fatalf("a data key of %d bytes is short, zero or no new one", len(dataKey))
		}
		seen[string(dataKey)] = true
		if w.Service != wrapping.Service || w.Version != wrapping.Version {
			t.Errorf("Generate names the key %s version %q, Wrap %s version %q", w.Service, w.Version, wrapping.Service, wrapping.Version)
		}
		opens(t, k.New(t, 0), w, dataKey)
		refuses(t, s, w, keyset.EncryptionContext(keysetName, "other", keyset.Data), mismatch, "another context")
		clear(dataKey)
	}
}

func (k *kit) rewrapper(t *testing.T) {
	from, to, next := k.New(t, 0), k.New(t, 1, 0), k.New(t, 1)
	r, ok := to.(keyset.Rewrapper)
	if !ok {
		t.Log(optional)
		return
	}
	for _, n := range sizes {
		old := wrap(t, from, secret(n))
		w, err := r.Rewrap(within(t), old, right())
		if err != nil {
			t.Fatalf("Rewrap of %d bytes: %v", n, err)
		}
		if !next.Opens(w.Service) || from.Opens(w.Service) {
			t.Errorf("Rewrap names the key %s, which is not the first", w.Service)
		}
		opens(t, next, w, secret(n))
		opens(t, from, old, secret(n))
		refuses(t, to, w, keyset.EncryptionContext(keysetName, "other", keyset.Data), mismatch, "another context after Rewrap")

		again, err := r.Rewrap(within(t), w, right())
		if err != nil {
			t.Fatalf("Rewrap under the same key: %v", err)
		}
		opens(t, next, again, secret(n))
	}
	old := wrap(t, from, secret(32))
	damagedKey := old
	damagedKey.Ciphertext = bytes.Clone(old.Ciphertext)
	damagedKey.Ciphertext[len(old.Ciphertext)-1] ^= 1
	unknown := old
	unknown.Service += "x"
	for _, c := range []struct {
		what  string
		w     keyset.WrappedKey
		ec    map[string]string
		kinds []keyset.Kind
	}{
		{"another context", old, keyset.EncryptionContext(keysetName, entryID, keyset.Auth), mismatch},
		{"a damaged ciphertext", damagedKey, right(), damage},
		{"a key that is not listed", unknown, right(), unlisted},
	} {
		w, err := r.Rewrap(within(t), c.w, c.ec)
		if err == nil || w.Ciphertext != nil {
			t.Errorf("Rewrap with %s: %d bytes, %v", c.what, len(w.Ciphertext), err)
			continue
		}
		speaks(t, err, c.kinds, "Rewrap with "+c.what)
	}
}

func (k *kit) describer(t *testing.T) {
	one, two := wrap(t, k.New(t, 0), secret(32)), wrap(t, k.New(t, 1), secret(32))
	d, ok := k.New(t, 1, 0).(keyset.Describer)
	if !ok {
		t.Log(optional)
		return
	}
	described, err := d.Describe(within(t))
	if err != nil || len(described) != 2 {
		t.Fatalf("Describe tells of %d keys, %v; want 2", len(described), err)
	}
	for i, w := range []keyset.WrappedKey{two, one} {
		got := described[i]
		if got.Service != w.Service || got.Err != nil {
			t.Errorf("key %d is %s, %v; want %s", i, got.Service, got.Err, w.Service)
		}
		if got.Version != "" && w.Version != "" && got.Version != w.Version {
			t.Errorf("key %d wraps with version %q, Describe says %q", i, w.Version, got.Version)
		}
	}
	if k.faults(keyset.Denied) {
		k.Fail(t, keyset.Denied, -1)
		described, err = d.Describe(within(t))
		if err != nil {
			speaks(t, err, []keyset.Kind{keyset.Denied}, "Describe")
			return
		}
		for _, got := range described {
			if got.Err == nil {
				t.Errorf("%s is described as usable while its back end refuses", got.Service)
				continue
			}
			speaks(t, got.Err, []keyset.Kind{keyset.Denied}, "Describe")
		}
	}
}
