package keysettest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/echoseal/echoseal/keyset"
)

// sizes of data keys, in bytes: a new one has 32, one that was there before up to 1024.
var sizes = []int{32, 33, 64, 100, 256, 1024}

func (k *kit) roundTrip(t *testing.T) {
	s, again := k.New(t, 0), k.New(t, 0)
	for _, n := range sizes {
		dataKey := secret(n)
		w := wrap(t, s, dataKey)
		if w.Service == "" || !s.Opens(w.Service) {
			t.Errorf("Wrap names the key %q, which Opens does not know", w.Service)
		}
		if bytes.Contains(w.Ciphertext, dataKey[:16]) {
			t.Error("the ciphertext holds the data key in the clear")
		}
		opens(t, s, w, dataKey)
		opens(t, s, w, dataKey)

		stored, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		var loaded keyset.WrappedKey
		if err := json.Unmarshal(stored, &loaded); err != nil {
			t.Fatal(err)
		}
		opens(t, again, loaded, dataKey)
	}
}

// buffers checks that a data key belongs to the caller, who zeroes it.
func (k *kit) buffers(t *testing.T) {
	s := k.New(t, 0)
	dataKey := secret(32)
	w := wrap(t, s, dataKey)
	if !bytes.Equal(dataKey, secret(32)) {
		t.Error("Wrap has changed the data key")
	}
	clear(dataKey)
	got, err := s.Unwrap(within(t), w, right())
	if err != nil || !bytes.Equal(got, secret(32)) {
		t.Fatalf("after the wrapped one was zeroed: %d bytes, %v", len(got), err)
	}
	clear(got)
	before := bytes.Clone(w.Ciphertext)
	opens(t, s, w, secret(32))
	if !bytes.Equal(w.Ciphertext, before) {
		t.Error("Unwrap has changed the ciphertext")
	}
}

func (k *kit) contexts(t *testing.T) {
	s := k.New(t, 0)
	w := wrap(t, s, secret(32))
	refuses(t, s, w, nil, mismatch, "no context")
	refuses(t, s, w, map[string]string{}, mismatch, "an empty context")
	for _, name := range slices.Sorted(maps.Keys(right())) {
		for what, change := range map[string]func(c map[string]string){
			"is another":      func(c map[string]string) { c[name] = "other" },
			"is longer":       func(c map[string]string) { c[name] += "x" },
			"is shorter":      func(c map[string]string) { c[name] = c[name][:len(c[name])-1] },
			"has upper case":  func(c map[string]string) { c[name] = strings.ToUpper(c[name]) },
			"is missing":      func(c map[string]string) { delete(c, name) },
			"has a new name":  func(c map[string]string) { c[name+"2"] = c[name]; delete(c, name) },
			"is there twice":  func(c map[string]string) { c[name+"2"] = c[name] },
			"has a companion": func(c map[string]string) { c["other"] = "value" },
		} {
			changed := right()
			change(changed)
			refuses(t, s, w, changed, mismatch, fmt.Sprintf("%s %s", name, what))
		}
	}
	exchanged := right()
	exchanged["echoseal:keyset"], exchanged["echoseal:key"] = exchanged["echoseal:key"], exchanged["echoseal:keyset"]
	refuses(t, s, w, exchanged, mismatch, "two values exchanged")
	opens(t, s, w, secret(32))
}

// lookAlikes checks contexts that are one and the same to who only strings them
// together.
func (k *kit) lookAlikes(t *testing.T) {
	s := k.New(t, 0)
	for _, alike := range [][]map[string]string{
		{{"a": "bc"}, {"ab": "c"}},
		{{"a": "b", "c": "d"}, {"a": "bcd"}, {"ab": "cd"}},
		{{"a": "b", "c": "d"}, {"a": "d", "c": "b"}},
		{{"a": "b,c=d"}, {"a": "b", "c": "d"}},
		{{"a": `b","c":"d`}, {"a": "b", "c": "d"}},
		{{"a": "é"}, {"a": "e\u0301"}},
		{{"a": "\xff"}, {"a": "\xfe"}, {"a": "\ufffd"}},
	} {
		for i, wrapped := range alike {
			w, err := s.Wrap(within(t), secret(32), wrapped)
			if err != nil && !utf8.ValidString(wrapped["a"]) {
				continue // what cannot be told apart may be refused
			}
			if err != nil {
				t.Fatalf("Wrap under %q: %v", wrapped, err)
			}
			for j, other := range alike {
				if i != j {
					refuses(t, s, w, other, mismatch, fmt.Sprintf("%q for %q", other, wrapped))
				}
			}
			if got, err := s.Unwrap(within(t), w, maps.Clone(wrapped)); err != nil || !bytes.Equal(got, secret(32)) {
				t.Errorf("under %q: %d bytes, %v", wrapped, len(got), err)
			}
		}
	}
}

func (k *kit) purpose(t *testing.T) {
	s := k.New(t, 0)
	data := keyset.EncryptionContext(keysetName, entryID, keyset.Data)
	auth := keyset.EncryptionContext(keysetName, entryID, keyset.Auth)
	for _, c := range []struct{ wrapped, unwrapped map[string]string }{{data, auth}, {auth, data}} {
		w, err := s.Wrap(within(t), secret(32), c.wrapped)
		if err != nil {
			t.Fatalf("Wrap: %v", err)
		}
		refuses(t, s, w, c.unwrapped, mismatch, "another purpose")
	}
}

func (k *kit) damaged(t *testing.T) {
	s := k.New(t, 0)
	w := wrap(t, s, secret(32))
	whole := w.Ciphertext
	try := func(ciphertext []byte, what string) {
		t.Helper()
		w.Ciphertext = ciphertext
		refuses(t, s, w, right(), damage, what)
	}
	for n := range whole {
		try(whole[:n:n], fmt.Sprintf("cut to %d of %d bytes", n, len(whole)))
		try(whole[n+1:], fmt.Sprintf("the first %d of %d bytes cut off", n+1, len(whole)))
	}
	for i := range len(whole) * 8 {
		flipped := bytes.Clone(whole)
		flipped[i/8] ^= 1 << (i % 8)
		try(flipped, fmt.Sprintf("bit %d of %d flipped", i, len(whole)*8))
	}
	try(nil, "none")
	try(append(bytes.Clone(whole), 0), "a byte more")
	try(append(bytes.Clone(whole), whole...), "twice")
	try(bytes.Repeat([]byte{0xff}, len(whole)), "all ones")
	try(secret(len(whole)), "anything")
}

// encoded checks what becomes of a ciphertext that went through an encoder too many.
func (k *kit) encoded(t *testing.T) {
	s := k.New(t, 0)
	w := wrap(t, s, secret(32))
	c := w.Ciphertext
	// A service that changes what it reads may do so with the right ciphertext only, one
	// that happens to end in a space, say.
	opens(t, s, w, secret(32))
	quoted, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"base64":           base64.StdEncoding.EncodeToString(c),
		"base64url":        base64.RawURLEncoding.EncodeToString(c),
		"hex":              hex.EncodeToString(c),
		"a JSON string":    string(quoted),
		"a line end after": string(c) + "\n",
		"a space before":   " " + string(c),
		"a NUL after":      string(c) + "\x00",
	} {
		w.Ciphertext = []byte(text)
		refuses(t, s, w, right(), damage, what)
	}
}

// anotherKey checks that a data key opens under its own key only.
func (k *kit) anotherKey(t *testing.T) {
	first, second, both := k.New(t, 0), k.New(t, 1), k.New(t, 0, 1)
	one, two := wrap(t, first, secret(32)), wrap(t, second, secret(33))
	if one.Service == two.Service {
		t.Fatalf("two keys have the name %q", one.Service)
	}
	opens(t, both, one, secret(32))
	opens(t, both, two, secret(33))
	if w := wrap(t, both, secret(32)); w.Service != one.Service {
		t.Errorf("of two keys %s wraps, and not the first, %s", w.Service, one.Service)
	}
	if w := wrap(t, k.New(t, 1, 0), secret(32)); w.Service != two.Service {
		t.Errorf("of two keys %s wraps, and not the first, %s", w.Service, two.Service)
	}
	refuses(t, first, two, right(), unlisted, "wrapped under a key that is not listed")
	refuses(t, second, one, right(), unlisted, "wrapped under a key that is not listed")
	for what, w := range map[string]keyset.WrappedKey{
		"the second's ciphertext under the first's name": {Service: one.Service, Version: one.Version, Ciphertext: two.Ciphertext},
		"the first's ciphertext under the second's name": {Service: two.Service, Version: two.Version, Ciphertext: one.Ciphertext},
		"the second's ciphertext and version":            {Service: one.Service, Version: two.Version, Ciphertext: two.Ciphertext},
	} {
		refuses(t, both, w, right(), damage, what)
		if first.Opens(w.Service) {
			refuses(t, first, w, right(), damage, what)
		}
	}
}

// strangers returns names of keys that a service for key 0 does not have.
func (k *kit) strangers(t *testing.T) []string {
	name := wrap(t, k.New(t, 0), secret(32)).Service
	scheme, _, _ := strings.Cut(name, "://")
	return []string{
		"", " ", scheme, scheme + "://", scheme + ":///", name + "x", " " + name, name + " ", name + "\n", name + "\x00", name[:len(name)-1],
		name[len(scheme):], "x" + name, wrap(t, k.New(t, 1), secret(32)).Service,
		"http://127.0.0.1:1/", "file:///etc/passwd", "other:///key",
	}
}

func (k *kit) opens(t *testing.T) {
	first, both := k.New(t, 0), k.New(t, 0, 1)
	one, two := wrap(t, first, secret(32)).Service, wrap(t, k.New(t, 1), secret(32)).Service
	for _, c := range []struct {
		what string
		s    keyset.KeyService
		name string
		want bool
	}{
		{"its key", first, one, true},
		{"the first of two", both, one, true},
		{"the second of two", both, two, true},
		{"a key that is not listed", first, two, false},
	} {
		if c.s.Opens(c.name) != c.want {
			t.Errorf("%s: Opens(%q) is %v", c.what, c.name, !c.want)
		}
	}
	for _, name := range k.strangers(t) {
		if first.Opens(name) {
			t.Errorf("Opens(%q), and has only %q", name, one)
		}
	}
}

func (k *kit) unknownKey(t *testing.T) {
	s := k.New(t, 0)
	w := wrap(t, s, secret(32))
	for _, name := range k.strangers(t) {
		w.Service = name
		refuses(t, s, w, right(), unlisted, fmt.Sprintf("wrapped under %q", name))
	}
}

func (k *kit) concurrent(t *testing.T) {
	s := k.New(t, 0, 1)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 8 {
				dataKey := secret(sizes[j%len(sizes)])
				ec := keyset.EncryptionContext(keysetName, fmt.Sprint(i, j), keyset.Data)
				w, err := s.Wrap(within(t), dataKey, ec)
				if err != nil {
					t.Errorf("Wrap: %v", err)
					return
				}
				if got, err := s.Unwrap(within(t), w, ec); err != nil || !bytes.Equal(got, dataKey) || !s.Opens(w.Service) {
					t.Errorf("Unwrap gives %d bytes, %v", len(got), err)
				}
				refuses(t, s, w, right(), mismatch, "the context of another")
			}
		})
	}
	wg.Wait()
}
