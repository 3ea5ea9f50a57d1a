package keyset_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/echoseal/echoseal/internal/strict"
	"github.com/echoseal/echoseal/keyset"
)

// Whatever is parsed is written, and read as the same; what is refused is ErrDocument.
func FuzzParse(f *testing.F) {
	text := golden()
	f.Add(text)
	v, err := strict.Parse(text)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(strict.Append(nil, v))
	for _, change := range []func(object){
		func(d object) { d["x"] = object{"y": []strict.Value{nil, int64(1)}} },
		func(d object) { delete(d, "peers"); delete(d, "history") },
		func(d object) { d["peers"], d["history"] = []strict.Value{}, []strict.Value{} },
		func(d object) { delete(d["policy"].(object), "was") },
		func(d object) { d["keys"] = d["keys"].([]strict.Value)[2:3] },
		func(d object) { d["keys"].([]strict.Value)[0].(object)["format"] = "v2" },
		func(d object) { d["keys"].([]strict.Value)[1].(object)["wrapped"] = []strict.Value{} },
		func(d object) { d["revision"] = int64(1<<53 - 1) },
		func(d object) { d["ttl"] = "1.000000001s" },
	} {
		f.Add(edit(f, change))
	}
	f.Fuzz(checkText)
}

// The same of a good document with other text in one place.
func FuzzMember(f *testing.F) {
	var texts []place
	allPlaces(f, func(p place, v strict.Value) {
		if s, ok := v.(string); ok {
			f.Add(uint(len(texts)), s)
			texts = append(texts, p)
		}
	})
	// The order of a map's members is not the same twice.
	slices.SortFunc(texts, func(a, b place) int { return strings.Compare(a.String(), b.String()) })
	f.Fuzz(func(t *testing.T, n uint, value string) {
		if !utf8.ValidString(value) {
			return
		}
		checkText(t, edit(t, func(doc object) {
			_, set, _ := texts[n%uint(len(texts))].in(doc)
			set(value)
		}))
	})
}

func checkText(t *testing.T, doc []byte) {
	d, err := keyset.Parse(doc)
	if err != nil {
		if d != nil || !errors.Is(err, keyset.ErrDocument) {
			t.Fatalf("%v, %v", d, err)
		}
		return
	}
	auth, err := keyset.NewAuthKey(d.Auth.ID, goldenAuth)
	must(t, err)
	d, err = keyset.Parse(withTag(t, doc))
	if err != nil || auth.Verify(d) != nil {
		t.Fatalf("with its tag: %v", err)
	}
	next := d.Next()
	written, err := auth.Encode(next)
	if err != nil {
		if d.HasUnknownMembers() || d.Revision == 1<<53-1 || len(doc) > keyset.MaxBytes/2 {
			return
		}
		t.Fatalf("it is not written: %v\n%s", err, doc)
	}
	read, err := keyset.Parse(written)
	if err != nil || auth.Verify(read) != nil {
		t.Fatalf("what is written is not read: %v\n%s", err, written)
	}
	again, err := auth.Encode(read)
	if err != nil || !bytes.Equal(written, again) {
		t.Fatalf("it is not written as it was read: %v\n%s\n%s", err, written, again)
	}
	next.Peers, read.Peers = append([]keyset.Peer{}, next.Peers...), append([]keyset.Peer{}, read.Peers...)
	next.History, read.History = append([]keyset.Event{}, next.History...), append([]keyset.Event{}, read.History...)
	if !reflect.DeepEqual(next, read) {
		t.Fatalf("it is read as another\n%+v\n%+v", next, read)
	}
}
