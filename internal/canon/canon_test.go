package canon

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/internal/vectors"
)

func TestCanonicalFormIsPythons(t *testing.T) {
	for _, v := range vectors.Read[vectors.Digests](t).Accept {
		// Lone surrogates in the input files are escapes of escapes: the input is the
		// document as text.
		got, err := Append(nil, []byte(v.Input))
		if err != nil {
			t.Errorf("%.60q: %v", v.Input, err)
			continue
		}
		if string(got) != v.Canonical && v.Canonical != "{}" { // falsy values are the digest's business
			t.Errorf("%.60q = %.60q, want %.60q", v.Input, got, v.Canonical)
		}
		if again, err := Append(nil, got); err != nil || string(again) != string(got) {
			if !strings.Contains(string(got), "Infinity") {
				t.Errorf("the canonical form %.60q is not its own: %.60q, %v", got, again, err)
			}
		}
	}
}

func TestRefusesWhatIsNotJSON(t *testing.T) {
	var docs []string
	for _, v := range vectors.Read[vectors.Digests](t).Reject {
		if v.Bytes != nil {
			docs = append(docs, string(v.Bytes))
		} else {
			docs = append(docs, string(v.Input))
		}
	}
	docs = append(docs, "NaN", "Infinity", "-Infinity", "-", "--1", "1e+", "-01", "00", "1.e1", "\"\\ud80\"", "\"\\ud80g\"", `"\`, `"\u`, "\"\x00\"", "\"\x1f\"",
		"\"\xff\"", "\"\xed\xa0\x80\"", "\"\xc0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\"", "[", "]", "[1", "[1 2]", "{\"a\":1", "{\"a\" 1}", "{1:2}", "{\"a\":1]",
		"true false", "truefalse", "\v1", "\u00a01", "1\x00", "[1]]", ",", "[,1]", "{,}", "\xfe\xff", strings.Repeat("9", 4301), "-"+strings.Repeat("9", 4301))
	for _, doc := range docs {
		got, err := Append(nil, []byte(doc))
		if err == nil {
			t.Errorf("%.60q = %.60q, want an error", doc, got)
		} else if len(doc) > 8 && strings.Contains(err.Error(), doc) {
			t.Errorf("%.60q: the error shows the document: %v", doc, err)
		}
	}
}

func TestDepthAndSizeAreBounded(t *testing.T) {
	nest := func(open, middle, closing string, n int) []byte {
		return []byte(strings.Repeat(open, n) + middle + strings.Repeat(closing, n))
	}
	for _, c := range []struct{ open, closing string }{{"[", "]"}, {`{"a":`, "}"}} {
		if _, err := Append(nil, nest(c.open, "1", c.closing, MaxDepth)); err != nil {
			t.Errorf("%d times %s: %v", MaxDepth, c.open, err)
		}
		if _, err := Append(nil, nest(c.open, "1", c.closing, MaxDepth+1)); err == nil {
			t.Errorf("%d times %s was accepted", MaxDepth+1, c.open)
		}
		if _, err := members([]byte(`{"x":` + string(nest(c.open, "1", c.closing, MaxDepth)) + "}")); err == nil {
			t.Errorf("a member of depth %d was accepted", MaxDepth)
		}
	}
	// Siblings do not add up.
	if _, err := Append(nil, []byte("["+strings.Repeat("[[]],", 2000)+"[]]")); err != nil {
		t.Error(err)
	}
	long := []byte(`{"a":"` + strings.Repeat("x", MaxBytes) + `"}`)
	if _, err := members(long); err == nil || !strings.Contains(err.Error(), "16 MiB") {
		t.Errorf("Members of a document that is too long: %v", err)
	}
	if _, err := Append(nil, make([]byte, MaxBytes+1)); err == nil || !strings.Contains(err.Error(), "16 MiB") {
		t.Errorf("a document that is too long: %v", err)
	}
	for _, doc := range []string{strings.Repeat("[", 1<<20), strings.Repeat(`{"a":`, 1<<18), strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20)} {
		if _, err := Append(nil, []byte(doc)); err == nil {
			t.Error("a deep document was accepted")
		}
	}
}

func TestMembersAreSortedByCodePoint(t *testing.T) {
	for in, want := range map[string]string{
		`{"b":1,"a":2}`:                                       `{"a":2,"b":1}`,
		`{"a":1,"a":2}`:                                       `{"a":2}`,
		`{"b":1,"a":2,"b":3,"a":4,"c":5}`:                     `{"a":4,"b":3,"c":5}`,
		`{"a":1,"\u0061":2}`:                                  `{"a":2}`,
		`{"":1,"a":2}`:                                        `{"":1,"a":2}`,
		`{"aa":1,"a":2,"":3}`:                                 `{"":3,"a":2,"aa":1}`,
		`{"z":1,"é":2,"\\":3,"[":4,"]":5}`:                    `{"[":4,"\\":3,"]":5,"z":1,"\u00e9":2}`,
		`{"a\"":1,"a!":2,"a#":3}`:                             `{"a!":2,"a\"":1,"a#":3}`,
		`{"😀":1,"\uffff":2,"\ue000":3,"\ud800":4}`:            `{"\ud800":4,"\ue000":3,"\uffff":2,"\ud83d\ude00":1}`,
		`{"\ud83d\ude00":1,"\ud83d":2,"\ud83dx":3}`:           `{"\ud83d":2,"\ud83dx":3,"\ud83d\ude00":1}`,
		`{"\u007f":1,"\u0080":2,"~":3,"\n":4}`:                `{"\n":4,"~":3,"\u007f":1,"\u0080":2}`,
		`{"b":{"d":1,"c":2},"a":[{"f":{"y":1,"x":2},"e":4}]}`: `{"a":[{"e":4,"f":{"x":2,"y":1}}],"b":{"c":2,"d":1}}`,
		`{"a":{"d":1,"c":2},"b":0,"a":{"f":1,"e":2}}`:         `{"a":{"e":2,"f":1},"b":0}`,
		`[{"b":1,"a":2},{"d":1,"c":{"f":1,"e":2}}]`:           `[{"a":2,"b":1},{"c":{"e":2,"f":1},"d":1}]`,
	} {
		for _, small := range []uint32{0, 20, 1 << 10} {
			got, err := appendCanonical([]byte("before "), []byte(in), small)
			if err != nil || string(got) != "before "+want {
				t.Errorf("%s = %s, %v; want %s (small is %d)", in, got, err, want, small)
			}
		}
	}
}

// Sorting few members is stable with any algorithm.
func TestLastOfManyDuplicatesCounts(t *testing.T) {
	var doc strings.Builder
	for i := range 60 {
		fmt.Fprintf(&doc, `,"%c":%d`, 'a'+i%3, i)
	}
	got, err := Append(nil, []byte("{"+doc.String()[1:]+"}"))
	if want := `{"a":57,"b":58,"c":59}`; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

// Names with a long beginning in common, all of it escapes.
func TestReorderingLongNames(t *testing.T) {
	const members = 400
	var doc, want strings.Builder
	for i := range members {
		fmt.Fprintf(&doc, `,"%s%03d":0`, strings.Repeat(`\u00e9`, 1700), i*7%members)
		fmt.Fprintf(&want, `,"%s%03d":0`, strings.Repeat(`\u00e9`, 1700), i)
	}
	got, err := Append(nil, []byte("{"+doc.String()[1:]+"}"))
	if err != nil || string(got) != "{"+want.String()[1:]+"}" {
		t.Errorf("%.60s…, %v", got, err)
	}
}

func TestReorderingDeepAndWide(t *testing.T) {
	const depth, size = 500, 1 << 20
	text := `"` + strings.Repeat("x", size) + `"`
	doc := strings.Repeat(`{"b":0,"a":`, depth) + text + strings.Repeat("}", depth)
	want := strings.Repeat(`{"a":`, depth) + text + strings.Repeat(`,"b":0}`, depth)
	if got, err := Append(nil, []byte(doc)); err != nil || string(got) != want {
		t.Errorf("deep: %v", err)
	}
	const objects = 100_000
	doc = "[" + strings.Repeat(`{"b":0,"a":1},`, objects) + "0]"
	want = "[" + strings.Repeat(`{"a":1,"b":0},`, objects) + "0]"
	if got, err := Append(nil, []byte(doc)); err != nil || string(got) != want {
		t.Errorf("wide: %v", err)
	}
}

func TestNumbers(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "-0.0": "-0.0", "0.0": "0.0", "-0e5": "-0.0", "1": "1", "-1": "-1", "1.0": "1.0", "1e0": "1.0", "1E2": "100.0", "1e+2": "100.0",
		"123456789012345678901234567890": "123456789012345678901234567890",
		"1e15":                           "1000000000000000.0", "1e16": "1e+16", "9999999999999998.0": "9999999999999998.0", "1e22": "1e+22", "1.5e300": "1.5e+300",
		"1e-4": "0.0001", "1e-5": "1e-05", "0.00012": "0.00012", "0.000012": "1.2e-05", "5e-324": "5e-324", "1e-400": "0.0", "1e400": "Infinity", "-1e400": "-Infinity",
		"0.1": "0.1", "0.30000000000000004": "0.30000000000000004", "100000000000000000000.0": "1e+20", "2.5": "2.5", "1796187701.5": "1796187701.5",
		strings.Repeat("9", 4300): strings.Repeat("9", 4300), "-" + strings.Repeat("9", 4300): "-" + strings.Repeat("9", 4300),
	} {
		if got, err := Append(nil, []byte(in)); err != nil || string(got) != want {
			t.Errorf("%.40s = %.40s, %v; want %.40s", in, got, err, want)
		}
	}
}

// AppendString and AppendText are each other's inverse on all text.
func TestTextRoundTrips(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var text []byte
		for range random.IntN(12) {
			switch random.IntN(6) {
			case 0:
				text = appendRune(text, rune(random.IntN(0x80)))
			case 1:
				text = appendRune(text, rune(random.IntN(0x10000)))
			case 2:
				text = appendRune(text, rune(0x10000+random.IntN(0x100000)))
			case 3:
				text = appendRune(text, rune(0xd800+random.IntN(0x800)))
			default:
				text = append(text, "plain text"[:random.IntN(10)]...)
			}
		}
		quoted, ok := AppendString(nil, string(text))
		if ok != IsText(string(text)) {
			t.Fatalf("%q: AppendString says %v, IsText %v", text, ok, !ok)
		}
		if !ok {
			continue
		}
		for _, c := range quoted {
			if c < 0x20 || c > 0x7e {
				t.Fatalf("%q is not ASCII", quoted)
			}
		}
		if back, ok := AppendText(nil, quoted[1:len(quoted)-1]); !ok || string(back) != string(text) {
			t.Fatalf("%q came back as %q", text, back)
		}
		if again, err := Append(nil, quoted); err != nil || string(again) != string(quoted) {
			t.Fatalf("%s is not canonical: %s, %v", quoted, again, err)
		}
	}
}

func TestWhatIsNotText(t *testing.T) {
	for _, s := range []string{"\xff", "a\x80", "\xc0\xaf", "\xed\xa0", "\xed\xa0\x80\xed\xb0\x80", "x\xf8\x88\x80\x80\x80", "\xf4\x90\x80\x80", strings.Repeat("a", 31) + "\xe2\x82"} {
		if _, ok := AppendString(nil, s); ok || IsText(s) {
			t.Errorf("%q passes as text", s)
		}
	}
	for _, s := range []string{"", "\xed\xa0\x80", "\xed\xb0\x80\xed\xa0\x80", "\xed\xa0\x80\xed\xa0\x80", "\xed\xa0\x80😀", "\xed\xa0\x80x\xed\xb0\x80", "\ufffd"} {
		if _, ok := AppendString(nil, s); !ok || !IsText(s) {
			t.Errorf("%q does not pass as text", s)
		}
	}
}

// The word-wise scan agrees with the byte-wise one at every place in a word.
func TestPlainAtEveryOffset(t *testing.T) {
	for c := range 256 {
		for at := range 17 {
			s := []byte("aaaaaaaaaaaaaaaaa")
			s[at] = byte(c)
			want := len(s)
			if !isPlain(byte(c)) {
				want = at
			}
			if got := plain(string(s)); got != want {
				t.Fatalf("byte %#x at %d: %d, want %d", c, at, got, want)
			}
		}
	}
}

func members(doc []byte) (all []string, err error) {
	m := Members{Doc: doc}
	for m.Next() {
		all = append(all, fmt.Sprintf("%s=%s", m.Name, m.Value))
	}
	return all, m.Err()
}

func TestMembers(t *testing.T) {
	got, err := members([]byte(" { \"a\" : 1 , \"\\u0061\":[ 2, {\"x\":null}],\"b\":\"\\n\"} \n"))
	if want := `"a"=1;"\u0061"=[ 2, {"x":null}];"b"="\n"`; err != nil || strings.Join(got, ";") != want {
		t.Errorf("%s, %v; want %s", strings.Join(got, ";"), err, want)
	}
	for _, doc := range []string{"", " ", "[]", "1", "null", `"a"`, "{", `{"a":1}x`, `{"a":1,}`, `{"a":nul}`, `{"a":"` + "\xff" + `"}`, `{"a":1 1}`} {
		if _, err := members([]byte(doc)); err == nil {
			t.Errorf("%q was accepted", doc)
		}
	}
}

func FuzzAppend(f *testing.F) {
	f.Add([]byte(`{"b":[1,2.50,-0,1e400,"\ud83d\ude00\ud800"],"a":{"é":null,"e":true}}`))
	f.Add([]byte(`{"a":1,"a":{"c":1,"b":{"e":1,"d":[]}},"\u0000":""}`))
	f.Add([]byte(`{"\ud800":1,"\ud800\udc00":2,"\uffff":3,"\n":{"z":1,"y":[{"b":"\/","a":2}],"y":3}}`))
	f.Add([]byte(" [ ] "))
	f.Add([]byte(`"\`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		before := string(doc)
		out, err := Append([]byte("x"), doc)
		if string(doc) != before {
			t.Fatal("the document was changed")
		}
		// The two ways through a document agree on what is one.
		s := scanner{src: string(doc)}
		s.space()
		p := s.value()
		if p == "" {
			if s.space(); s.i != len(doc) {
				p = trailing
			}
		}
		if (p == "") != (err == nil) && (p != "" || !strings.Contains(err.Error(), "4300")) {
			t.Fatalf("scanner: %q, writer: %v", p, err)
		}
		if err != nil {
			return
		}
		if late, err := appendCanonical([]byte("x"), doc, 0); err != nil || string(late) != string(out) {
			t.Fatalf("%q = %q, but put in order at the end %q, %v", doc, out, late, err)
		}
		if want := "x" + canonical(strings.TrimSpace(string(doc))); string(out) != want {
			t.Fatalf("%q = %q, want %q", doc, out, want)
		}
		if strings.Contains(string(out), "Infinity") {
			return // canonical, but no JSON
		}
		again, err := Append([]byte("x"), out[1:])
		if err != nil || string(again) != string(out) {
			t.Fatalf("%q is not a fixed point: %q, %v", out, again, err)
		}
	})
}

func FuzzMembers(f *testing.F) {
	f.Add([]byte(`{"v":1,"s":"\ud800","x":[{}]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		m := Members{Doc: doc}
		for m.Next() {
			for _, quoted := range [][]byte{m.Name, m.Value} {
				if quoted[0] != '"' {
					continue
				}
				if text, ok := AppendText(nil, quoted[1:len(quoted)-1]); !ok || !IsText(string(text)) {
					t.Fatalf("%q is no text", quoted)
				}
			}
		}
		if m.Next() {
			t.Fatal("it goes on after its end")
		}
		_, err := Append(nil, doc)
		if m.Err() == nil && err != nil && !strings.Contains(err.Error(), "4300") {
			t.Fatalf("%q is an object in one way only: %v", doc, err)
		}
		if m.Err() != nil {
			return
		}
		if out, err := Append(nil, doc); err == nil && out[0] != '{' {
			t.Fatalf("%q is an object in one way only", doc)
		}
	})
}
