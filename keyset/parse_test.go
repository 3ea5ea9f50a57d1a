package keyset_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/internal/strict"
	"github.com/echoseal/echoseal/keyset"
)

type object = map[string]strict.Value

// edit returns the golden document with something changed, and its old tag.
func edit(t testing.TB, change func(object)) []byte {
	t.Helper()
	v, err := strict.Parse(golden())
	if err != nil {
		t.Fatal(err)
	}
	change(v.(object))
	return strict.Append(nil, v)
}

// in returns what holds the value at a path such as keys[0].wrapped[1].service, as a
// function that replaces it, or takes it out.
func (p place) in(doc object) (get func() strict.Value, set func(strict.Value), remove func()) {
	var v strict.Value = doc
	for i, step := range p {
		last := i == len(p)-1
		switch step := step.(type) {
		case string:
			o := v.(object)
			if last {
				return func() strict.Value { return o[step] }, func(v strict.Value) { o[step] = v }, func() { delete(o, step) }
			}
			v = o[step]
		case int:
			a := v.([]strict.Value)
			if last {
				return func() strict.Value { return a[step] }, func(v strict.Value) { a[step] = v }, nil
			}
			v = a[step]
		}
	}
	panic("an empty place")
}

// A place is a path into a document: names and indices.
type place []any

func (p place) String() string {
	var b strings.Builder
	for _, step := range p {
		switch step := step.(type) {
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step)
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		}
	}
	return b.String()
}

// names returns the path without its indices.
func (p place) names() string {
	var names []string
	for _, step := range p {
		if name, ok := step.(string); ok {
			names = append(names, name)
		}
	}
	return strings.Join(names, ".")
}

// parsePlace reads a path such as keys[0].kid.
func parsePlace(path string) (p place) {
	for part := range strings.SplitSeq(path, ".") {
		name, index, indexed := strings.Cut(part, "[")
		p = append(p, name)
		if indexed {
			var n int
			_, _ = fmt.Sscanf(index, "%d]", &n)
			p = append(p, n)
		}
	}
	return p
}

// places returns every place of a document.
func places(v strict.Value, at place, visit func(place, strict.Value)) {
	if len(at) > 0 {
		visit(at, v)
	}
	switch v := v.(type) {
	case object:
		for name, member := range v {
			places(member, append(slices.Clone(at), name), visit)
		}
	case []strict.Value:
		for i, element := range v {
			places(element, append(slices.Clone(at), i), visit)
		}
	}
}

func allPlaces(t testing.TB, visit func(place, strict.Value)) {
	t.Helper()
	v, err := strict.Parse(golden())
	if err != nil {
		t.Fatal(err)
	}
	places(v, nil, visit)
}

// refuses checks that a document is refused with an error that names the member.
func refuses(t *testing.T, what string, doc []byte, says string) {
	t.Helper()
	d, err := keyset.Parse(doc)
	if d != nil || !errors.Is(err, keyset.ErrDocument) || !strings.HasPrefix(err.Error(), "not a usable keyset document: "+says) {
		t.Errorf("%s: %v", what, err)
	}
}

// optional are the members without which a document is still one: on a path without its
// indices.
var optional = []string{
	"policy.was", "peers", "history", "keys.wrapped.version", "auth.wrapped.version",
	"history.kid", "history.actor", "history.reason",
	"keys.drained", "keys.reason",
}

func isOptional(p place, in object) bool {
	if slices.Contains(optional, p.names()) {
		return true
	}
	// Stamps that only the first states of a key have to have.
	if p[0] == "keys" && len(p) == 3 {
		key := in["keys"].([]strict.Value)[p[1].(int)].(object)
		switch p[2] {
		case "staged":
			return key["state"] != "staged"
		case "created":
			return key["state"] == "revoked"
		}
	}
	return false
}

func TestParseEachMemberMissing(t *testing.T) {
	seen := 0
	allPlaces(t, func(p place, _ strict.Value) {
		if _, ok := p[len(p)-1].(string); !ok {
			return
		}
		may := false
		doc := edit(t, func(doc object) {
			may = isOptional(p, doc)
			_, _, remove := p.in(doc)
			remove()
		})
		seen++
		if !may {
			refuses(t, p.String()+" is missing", doc, p.String()+": ")
		} else if _, err := keyset.Parse(doc); err != nil {
			t.Errorf("%s is missing: %v", p, err)
		}
	})
	if seen < 90 {
		t.Errorf("only %d members were tried", seen)
	}
}

// Each value is replaced by one of every other type.
func TestParseEachMemberOfAnotherType(t *testing.T) {
	others := []strict.Value{nil, true, int64(7), "x", []strict.Value{}, object{}}
	allPlaces(t, func(p place, v strict.Value) {
		for _, other := range others {
			if fmt.Sprintf("%T", other) == fmt.Sprintf("%T", v) {
				continue
			}
			doc := edit(t, func(doc object) {
				_, set, _ := p.in(doc)
				set(other)
			})
			refuses(t, fmt.Sprintf("%s is a %T", p, other), doc, p.String()+": ")
		}
	})
}

// A name in other letters is another name: its member is unknown, and the real one is
// missing.
func TestParseNamesAreExact(t *testing.T) {
	allPlaces(t, func(p place, v strict.Value) {
		name, ok := p[len(p)-1].(string)
		if !ok {
			return
		}
		for _, other := range []string{strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], name + " ", name + "\x00", "\u200b" + name} {
			may := false
			doc := edit(t, func(doc object) {
				may = isOptional(p, doc)
				_, _, remove := p.in(doc)
				remove()
				other := append(slices.Clone(p[:len(p)-1]), other)
				_, set, _ := other.in(doc)
				set(v)
			})
			if !may {
				refuses(t, fmt.Sprintf("%q in place of %s", other, p), doc, p.String()+": ")
			} else if d, err := keyset.Parse(doc); err != nil || !d.HasUnknownMembers() {
				t.Errorf("%q in place of %s: %v", other, p, err)
			}
		}
	})
}

// Members that nobody knows are ignored, but for the tag, wherever they are.
func TestParseUnknownMembers(t *testing.T) {
	auth := goldenAuthKey(t)
	objects := 0
	allPlaces(t, func(p place, v strict.Value) {
		if _, ok := v.(object); !ok {
			return
		}
		objects++
		unknown := func(value strict.Value) []byte {
			return edit(t, func(doc object) {
				get, _, _ := p.in(doc)
				get().(object)["x_new"] = value
			})
		}
		d, err := keyset.Parse(unknown(object{"deep": []strict.Value{nil}}))
		if err != nil || !d.HasUnknownMembers() {
			t.Fatalf("in %s: %v", p, err)
		}
		if err := auth.Verify(d); !errors.Is(err, keyset.ErrTag) {
			t.Errorf("in %s: the tag does not cover it: %v", p, err)
		}
		one, two := withTag(t, unknown(int64(1))), unknown(int64(2))
		if d, err = keyset.Parse(one); err != nil || auth.Verify(d) != nil {
			t.Fatalf("in %s, tagged: %v", p, err)
		}
		if text, err := auth.Encode(d); err == nil || text != nil || !strings.Contains(err.Error(), "would lose") {
			t.Errorf("in %s: it is written anew: %v", p, err)
		}
		if next := d.Next(); !next.HasUnknownMembers() {
			t.Errorf("in %s: a copy does not know that it has unknown members", p)
		}
		if d, err = keyset.Parse(two); err != nil || auth.Verify(d) == nil {
			t.Errorf("in %s: the tag does not cover the value: %v", p, err)
		}
	})
	if objects < 20 {
		t.Errorf("only %d objects were tried", objects)
	}
}

// Every proper prefix is refused.
func TestParseCutAtEveryByte(t *testing.T) {
	text := golden()
	whole := len(strings.TrimRight(string(text), "\n"))
	for n := range whole {
		if d, err := keyset.Parse(text[:n]); d != nil || !errors.Is(err, keyset.ErrDocument) {
			t.Fatalf("%d of %d bytes: %v", n, len(text), err)
		}
	}
	if _, err := keyset.Parse(text[:whole]); err != nil {
		t.Errorf("without the line end: %v", err)
	}
}

// Every byte that changes anything is under the tag, or makes it another document.
func TestParseEveryByteChanged(t *testing.T) {
	auth, text := goldenAuthKey(t), golden()
	for i := range text {
		for _, bit := range []byte{1 << (i % 8), 'a' ^ 'A'} {
			doc := slices.Clone(text)
			doc[i] ^= bit
			d, err := keyset.Parse(doc)
			if err != nil {
				continue
			}
			if isSpace(text[i]) && isSpace(doc[i]) {
				continue
			}
			if auth.Verify(d) == nil {
				t.Fatalf("byte %d, %q for %q: the tag still fits", i, doc[i], text[i])
			}
		}
	}
}

func isSpace(c byte) bool { return strings.IndexByte(" \t\r\n", c) >= 0 }

// testdata/malformed.json has what is put in the place of what stands in the golden
// document, and what the error begins with. A schema member that is false says that
// keyset.schema.json cannot tell.
func TestParseRefuses(t *testing.T) {
	text, err := os.ReadFile("testdata/malformed.json")
	must(t, err)
	rows, err := strict.Parse(text)
	must(t, err)
	for _, row := range rows.([]strict.Value) {
		row := row.(object)
		path, says := row["path"].(string), row["error"].(string)
		doc := edit(t, func(doc object) {
			_, set, _ := parsePlace(path).in(doc)
			set(row["value"])
		})
		what := fmt.Sprintf("%s = %.60v", path, row["value"])
		refuses(t, what, doc, says)
		// Nor does a tag that fits make it a document.
		if path != "tag" {
			refuses(t, what+", tagged", withTag(t, doc), says)
		}
	}
}

func wrapping() strict.Value { return object{"service": "a://b", "ciphertext": "AAAA"} }

// Two of what there may be one of.
func TestParseRefusesTwice(t *testing.T) {
	text := string(golden())
	for old, twice := range map[string]string{
		`"name": "billing",`:  `"name": "billing", "name": "billing",`,
		`"revision": 11,`:     `"revision": 11, "\u0072evision": 12,`,
		`"state": "primary",`: `"state": "primary", "state": "revoked",`,
		`"tag":`:              `"tag": "", "tag":`,
		`"confirmed": true,`:  `"confirmed": true, "confirmed": false,`,
		`"version": "3",`:     `"version": "3", "version": "4",`,
		`"max_skew": "1m0s",`: `"max_skew": "1m0s", "max_skew": "1m0s",`,
		`"action": "init",`:   `"action": "init", "action": "init",`,
		`"revision": 11`:      `"revision": 11.0`,
		`"min_instances": 2`:  `"min_instances": 2e0`,
		`"actor": "ops@`:      `"actor": "\ud800ops@`,
		`"name": "python-a"`:  `"name": "python-a\`,
	} {
		doc := strings.Replace(text, old, twice, 1)
		if d, err := keyset.Parse([]byte(doc)); doc == text || d != nil || !errors.Is(err, keyset.ErrDocument) {
			t.Errorf("%s: %v", twice, err)
		}
	}
	for _, doc := range []string{"", " ", "null", "[]", `"x"`, "{}", text + "{}", text + "\x00", "\ufeff" + text, text + text, "// x\n" + text} {
		if d, err := keyset.Parse([]byte(doc)); d != nil || !errors.Is(err, keyset.ErrDocument) {
			t.Errorf("%.30q: %v", doc, err)
		}
	}
	double := edit(t, func(doc object) { doc["keys"] = append(doc["keys"].([]strict.Value), doc["keys"].([]strict.Value)[2]) })
	refuses(t, "two primaries of one id", double, "keys[4].id: another entry has it")
	primaries := edit(t, func(doc object) {
		another := maps.Clone(doc["keys"].([]strict.Value)[2].(object))
		another["id"], another["kid"] = "44444444-4444-4444-8444-444444444444", "44444444"
		doc["keys"] = append(doc["keys"].([]strict.Value), another)
	})
	refuses(t, "two primaries", primaries, "keys: 2 are primary, and exactly one must be")
	peers := edit(t, func(doc object) { doc["peers"] = slices.Repeat(doc["peers"].([]strict.Value), 2) })
	refuses(t, "two peers of one name", peers, "peers[1].name: another peer has it")
}

// What is odd and harms nobody does not stop a server.
func TestParseAccepts(t *testing.T) {
	for _, c := range []struct {
		path  string
		value strict.Value
	}{
		{"revision", int64(1<<53 - 1)},
		{"ttl", "1s"},
		{"ttl", "1.5s"},
		{"policy.settle", "0s"},
		{"policy.max_stale", "0s"},
		{"policy.max_skew", "1ns"},
		{"policy.was.settle", "1s"}, // less than what is in force
		{"policy.was.until", "2099-01-01T00:00:00.000Z"},
		{"keys[0].format", "v2"},
		{"keys[0].promoted", "2031-01-01T00:00:00.000Z"}, // in the future, and after demoted
		{"keys[2].staged", "2099-01-01T00:00:00.000Z"},   // after promoted
		{"keys[2].reason", "left over"},
		{"keys[1].wrapped", []strict.Value{}},
		{"keys[0].max_ttl", "87600h0m0s"},
		{"peers", []strict.Value{}},
		{"peers[0].kids[1]", "00000000"}, // retired since
		{"history", []strict.Value{}},
		{"auth.wrapped", slices.Repeat([]strict.Value{wrapping()}, 16)},
		{"keys[1].reason", strings.Repeat("é", 100)},
		{"keys[2].wrapped[1].service", "https://not.one.of.ours/?a=b"},
	} {
		p := parsePlace(c.path)
		doc := withTag(t, edit(t, func(doc object) {
			_, set, _ := p.in(doc)
			set(c.value)
		}))
		auth := goldenAuthKey(t)
		d, err := keyset.Parse(doc)
		if err != nil {
			t.Errorf("%s = %.40v: %v", c.path, c.value, err)
			continue
		}
		if err := auth.Verify(d); err != nil {
			t.Errorf("%s = %.40v: %v", c.path, c.value, err)
		}
		if _, err := auth.Encode(d.Next()); (err != nil) != (d.Revision == 1<<53-1) { // which has no next
			t.Errorf("%s = %.40v: written: %v", c.path, c.value, err)
		}
	}
	// Two staged keys, though Stage adds no second one.
	doc := edit(t, func(doc object) {
		keys := doc["keys"].([]strict.Value)
		another := maps.Clone(keys[3].(object))
		another["id"], another["kid"] = "44444444-4444-4444-8444-444444444444", "44444444"
		doc["keys"] = append(keys, another)
	})
	if _, err := keyset.Parse(doc); err != nil {
		t.Error(err)
	}
}

// Nothing that stands in a document that nobody has verified gets into a log by an error.
func TestParseErrorsShowNoContent(t *testing.T) {
	const canary = "canary-7f3a"
	allPlaces(t, func(p place, v strict.Value) {
		if _, ok := v.(string); !ok {
			return
		}
		for _, bad := range []string{canary + "\x01", strings.Repeat(canary, 300)} {
			doc := edit(t, func(doc object) {
				_, set, _ := p.in(doc)
				set(bad)
			})
			if _, err := keyset.Parse(doc); err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: %v", p, err)
			}
		}
	})
}

func TestParseSize(t *testing.T) {
	text := golden()
	full := append(slices.Clone(text), strings.Repeat(" ", keyset.MaxBytes-len(text))...)
	if d, err := keyset.Parse(full); err != nil || d.Size() != keyset.MaxBytes {
		t.Errorf("%d bytes: %v", len(full), err)
	}
	refuses(t, "one byte more", append(full, ' '), "it is larger than 1048576 bytes")
	refuses(t, "2 MiB", make([]byte, 2<<20), "it is larger than 1048576 bytes")
}

// The longest lists of what is not right are refused early.
func TestParseHostileLists(t *testing.T) {
	for _, name := range []string{"keys", "peers", "history"} {
		for _, element := range []strict.Value{object{}, nil, object{"wrapped": []strict.Value{}}} {
			doc := edit(t, func(doc object) { doc[name] = slices.Repeat([]strict.Value{element}, 40_000) })
			refuses(t, fmt.Sprintf("%s of %v", name, element), doc, name+"[0]")
		}
	}
	kids := edit(t, func(doc object) {
		doc["peers"].([]strict.Value)[0].(object)["kids"] = slices.Repeat([]strict.Value{"2d358424"}, 80_000)
	})
	if _, err := keyset.Parse(kids); err != nil {
		t.Error(err)
	}
}
