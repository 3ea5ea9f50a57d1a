package keysettest

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/keyset"
)

// strangeVersions are of no document, as far as they are not read as something else.
var strangeVersions = []string{"0", "-1", "1", "00", "01", " ", "*", "null", "x", "9223372036854775807", "18446744073709551616", strings.Repeat("0", 64)}

// emptyPlace checks that there is nothing where nothing was saved, and that nothing
// can be replaced there.
func (k *storeKit) emptyPlace(t *testing.T) {
	name := place()
	s := k.New(t, name)
	missing := func() {
		t.Helper()
		doc, version, err := k.New(t, name).Load(within(t))
		if !errors.Is(err, keyset.ErrNotExist) || doc != nil || version != "" {
			t.Errorf("Load of an empty place gives %d bytes, version %q, %v; want only ErrNotExist", len(doc), version, err)
		}
	}
	missing()
	_, _, taken := k.holding(t, "elsewhere")
	for _, version := range append([]string{taken}, strangeVersions...) {
		loses(t, s, version, "where nothing is")
		missing()
	}
	mustSave(t, s, "created", "")
}

// loses checks that a version is not that of the document.
func loses(t *testing.T, s keyset.Store, version, what string) {
	t.Helper()
	newVersion, err := s.Save(within(t), []byte("the loser's"), version)
	switch {
	case !errors.Is(err, keyset.ErrConflict):
		t.Errorf("Save with version %q %s: %v, want ErrConflict", version, what, err)
	case errors.Is(err, keyset.ErrNotExist):
		t.Errorf("Save with version %q %s: %v is ErrNotExist, too", version, what, err)
	case newVersion != "":
		t.Errorf("Save with version %q %s fails, and returns version %q", version, what, newVersion)
	}
}

// create checks that version "" only creates.
func (k *storeKit) create(t *testing.T) {
	name, s, version := k.holding(t, "first")
	k.holds(t, name, s, "first", version)
	loses(t, s, "", "where something is")
	loses(t, k.New(t, name), "", "where something is")
	k.holds(t, name, s, "first", version)
	other := k.New(t, place())
	if _, _, err := other.Load(within(t)); !errors.Is(err, keyset.ErrNotExist) {
		t.Errorf("another place: %v", err)
	}
}

// documents are some that a store could take for something else, or change.
var documents = []string{
	"x", "{}", `{"b": [1, 2.0],  "a": null, "a": 10e-1}`, "null", "true", "1e400", "0", `""`, `"`, `\`, `\u0041\n`, "<&>", "%s%41+",
	" spaces before and after ", "\n\nlines\r\nafter\n", "\ttab", "\ufeff{}", "a\x00b\x00", "\x01\x1b\x7f",
	"e\u0301 \u00e9", "\u2028\u2029\u0085", "\U0001f511", "\ufffd\ufffe\uffff", "eyJhIjoxfQ==", "---\n- yaml\n",
}

// roundTrip checks that a document comes back byte by byte.
func (k *storeKit) roundTrip(t *testing.T) {
	name := place()
	s := k.New(t, name)
	version := ""
	all := documents
	for _, size := range []int{k.MaxBytes / 16, k.MaxBytes - 1, k.MaxBytes} {
		all = append(all, large(size))
	}
	for _, doc := range append(all, all[0]) {
		version = mustSave(t, s, doc, version)
		k.holds(t, name, s, doc, version)
	}
}

// large returns a document of a size that looks like a keyset.
func large(size int) string {
	const part = `{"service":"awskms:///arn:aws:kms:eu-west-1","ciphertext":"AQIDBA=="},` + "\n  \u00e9"
	doc := strings.ToValidUTF8(strings.Repeat(part, size/len(part)+1)[:size], "")
	return doc + strings.Repeat(" ", size-len(doc))
}

// versions checks that a version tells one document from all others, and that only the
// version of the present document replaces it.
func (k *storeKit) versions(t *testing.T) {
	name, s, a := k.holding(t, "A")
	for range 3 {
		k.holds(t, name, s, "A", a)
	}
	_, _, foreign := k.holding(t, "elsewhere")
	b := mustSave(t, s, "B", a)
	k.holds(t, name, s, "B", b)
	again := mustSave(t, s, "A", b)
	k.holds(t, name, s, "A", again)
	if b == a || b == again {
		t.Errorf("A, B and A again have the versions %q, %q and %q", a, b, again)
	}
	loses(t, s, b, "when A is back in the place of B")
	known := []string{a, b, again}
	for _, version := range append([]string{foreign, again + "0", "0" + again, " " + again, again + "\n"}, strangeVersions...) {
		if version != again && version != a { // a hash is the same for A again
			loses(t, s, version, "of nothing that is here")
		}
	}
	k.holds(t, name, s, "A", again)
	for _, doc := range []string{"C", "D", "E", "F", "G", "H", "I", "J", "K", "L"} {
		version := mustSave(t, s, doc, known[len(known)-1])
		for _, old := range known {
			if old == version {
				t.Errorf("%s has the version %q of an earlier document", doc, version)
			}
		}
		known = append(known, version)
	}
	for _, old := range known[:len(known)-1] {
		loses(t, s, old, "of a document that was replaced")
	}
	k.holds(t, name, s, "L", known[len(known)-1])

	// The same document again is a change of nothing, and no error.
	last := mustSave(t, s, "L", known[len(known)-1])
	k.holds(t, name, s, "L", last)
}

// conflict checks that of two writers one wins, and the other is told.
func (k *storeKit) conflict(t *testing.T) {
	name, s, version := k.holding(t, "old")
	one, two := k.New(t, name), k.New(t, name)
	for _, w := range []keyset.Store{one, two} {
		if _, v := mustLoad(t, w); v != version {
			t.Fatalf("version %q, want %q", v, version)
		}
	}
	won := mustSave(t, one, "the winner's", version)
	loses(t, two, version, "that another writer has replaced")
	loses(t, one, version, "that it has replaced itself")
	k.holds(t, name, s, "the winner's", won)
	doc, v := mustLoad(t, two)
	newest := mustSave(t, two, doc+" and the loser's", v)
	k.holds(t, name, s, "the winner's and the loser's", newest)
}

// buffers checks that a document belongs to whoever has it.
func (k *storeKit) buffers(t *testing.T) {
	const want = "a document of the caller's"
	name := place()
	s := k.New(t, name)
	mine := []byte(want)
	version, err := s.Save(within(t), mine, "")
	if err != nil {
		t.Fatalf("Save: %v", err)
	}
	if string(mine) != want {
		t.Error("Save changes the document")
	}
	clear(mine)
	k.holds(t, name, s, want, version)
	for range 2 {
		doc, _, err := s.Load(within(t))
		if err != nil {
			t.Fatalf("Load: %v", err)
		}
		if !bytes.Equal(doc, []byte(want)) {
			t.Errorf("Load gives %q, want %q", doc, want)
		}
		clear(doc)
		_ = append(doc, "and more"...)
	}
	k.holds(t, name, s, want, version)
}
