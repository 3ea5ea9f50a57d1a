package canon

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestNamesDiffer(t *testing.T) {
	many := func(last string) string {
		var b strings.Builder
		b.WriteByte('{')
		for i := range 40 {
			fmt.Fprintf(&b, `"k%d":%d,`, i, i)
		}
		return b.String() + last + "}"
	}
	for _, doc := range []string{
		"1", `"a"`, "null", "[]", "{}", `{"a":1}`, `{"a":1,"b":{"a":1}}`, `[{"a":1},{"a":2},{"A":3}]`, `{"":1," ":2}`, `{"é":1,"e":2}`,
		many(`"x":1`), many(`"k40":{"k1":1}`),
		`{"\ud800":1,"\ud800\ud800":2}`, `{"\udc00\ud800":1,"\ufffd":2}`,
	} {
		if err := NamesDiffer([]byte(doc)); err != nil {
			t.Errorf("%.80s: %v", doc, err)
		}
	}
	for _, doc := range []string{
		`{"a":1,"a":2}`, `{"a":1,"b":2,"A":3}`, `{"a":1,"\u0061":2}`, `{"":1,"":2}`, `[1,{"x":{"a":1,"a":1}}]`, `{"é":1,"É":2}`, `{"k":1,"\u212a":2}`, `{"s":1,"ſ":2}`, `{"\ud800":1,"\ud800":2}`,
		`{"\ud800\udbff":1,"\ufffd\ufffd":2}`, `{"\udc00\ud800":1,"\ud800\ud800":2}`,
		`{"\ud800":1,"\ud801":2}`, `{"\ud800":1,"\ufffd":2}`,
		`{"to":{"admin":true},"to":null}`, many(`"k7":1`), many(`"K7":1`), many(`"\u006b7":1`), many(`"K":1,"k":2`),
	} {
		if err := NamesDiffer([]byte(doc)); err == nil || !strings.Contains(err.Error(), "same name") {
			t.Errorf("%.80s: %v", doc, err)
		}
	}
	for _, doc := range []string{"", "{", `{"a"}`, `{"a":1}x`, "[1,]", `{"a":1,}`, strings.Repeat("[", 600), `{"a":nul}`} {
		if err := NamesDiffer([]byte(doc)); err == nil || strings.Contains(err.Error(), "same name") {
			t.Errorf("%.80s: %v", doc, err)
		}
	}
}

// Two names are one exactly if they are to encoding/json.
func TestNamesDifferAsToEncodingJSON(t *testing.T) {
	parts := []string{``, `\ud800`, `\udbff`, `\udc00`, `\ud83d\ude00`, "😀", "\ufffd", `\ufffd`, "a", `\u0041`, "k", "\u212a", "é", `\u00c9`}
	var names []string
	for _, a := range parts {
		for _, b := range parts {
			names = append(names, a+b)
		}
	}
	text := func(name string) (s string) {
		if err := json.Unmarshal([]byte(`"`+name+`"`), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, a := range names {
		for _, b := range names {
			doc := `{"` + a + `":1,"` + b + `":2}`
			if got, want := NamesDiffer([]byte(doc)) == nil, !strings.EqualFold(text(a), text(b)); got != want {
				t.Errorf("%s: %t, want %t", doc, got, want)
			}
		}
	}
}

// Both ways of finding a name agree.
func TestFoldAgreesWithEqualFold(t *testing.T) {
	all := []string{"", "a", "A", "k", "K", "\u212a", "s", "S", "ſ", "é", "É", "ß", "ẞ", "ss", "I", "i", "İ", "ı", "Σ", "σ", "ς", "\ufffd"}
	for _, a := range all {
		for _, b := range all {
			if got, want := fold(a) == fold(b), strings.EqualFold(a, b); got != want {
				t.Errorf("%q and %q: %t, want %t", a, b, got, want)
			}
		}
	}
}
