package strict

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/echoseal/echoseal/internal/canon"
)

// accepted are documents and their canonical text.
var accepted = map[string]string{
	` {"b" : 1,"a":[ ] ,"c":{ }}` + "\t\r\n": `{"a":[],"b":1,"c":{}}`,
	`null`:                                   `null`,
	`[true,false,null]`:                      `[true,false,null]`,
	`0`:                                      `0`,
	`9007199254740991`:                       `9007199254740991`,
	`""`:                                     `""`,
	`"\"\\\/\b\f\n\r\t\u0000\u001F\u007f"`:   `"\"\\/\b\f\n\r\t\u0000\u001f\u007f"`,
	"\"\x7f\"":                               `"\u007f"`,
	`"é\u00e9\u00E9"`:                        `"\u00e9\u00e9\u00e9"`,
	`"😀\ud83d\ude00\uD83D\uDE00"`:            `"\ud83d\ude00\ud83d\ude00\ud83d\ude00"`,
	`"\ufffd` + "\ufffd" + `"`:               `"\ufffd\ufffd"`,
	// By code points, in which UTF-16 would have the last two the other way round.
	`{"😀":1,"\uffff":2,"é":3,"z":4,"Z":5,"":6}`: `{"":6,"Z":5,"z":4,"\u00e9":3,"\uffff":2,"\ud83d\ude00":1}`,
	`{"name":1,"Name":2,"NAME":3}`:              `{"NAME":3,"Name":2,"name":1}`,
}

func TestParseAccepts(t *testing.T) {
	for doc, want := range accepted {
		v, err := Parse([]byte(doc))
		if err != nil {
			t.Errorf("%q: %v", doc, err)
			continue
		}
		if got := string(Append(nil, v)); got != want {
			t.Errorf("%q: %s", doc, got)
		}
		checkAgainstOthers(t, []byte(doc), v)
	}
}

// checkAgainstOthers checks what was accepted with package canon, which makes the
// canonical text of what it reads by another way, and with encoding/json.
func checkAgainstOthers(t *testing.T, doc []byte, v Value) {
	t.Helper()
	text := Append(nil, v)
	if theirs, err := canon.Append(nil, doc); err != nil || string(theirs) != string(text) {
		t.Errorf("%q: %s, and canon gives %s, %v", doc, text, theirs, err)
	}
	if !json.Valid(doc) {
		t.Errorf("%q is not JSON to encoding/json", doc)
	}
	again, err := Parse(text)
	if err != nil || string(Append(nil, again)) != string(text) {
		t.Errorf("%q: %s is not read as it was written: %v", doc, text, err)
	}
}

// refused are documents and a phrase of the error; those that encoding/json takes as well
// have their own reason to be there.
var refused = map[string]string{
	"":                        "it is empty",
	" \n":                     "it is empty",
	"\x00":                    "it is not JSON",
	"{}\x00":                  "something behind the document",
	"{}{}":                    "something behind the document",
	"{} x":                    "something behind the document",
	"\ufeff{}":                "it is not JSON",
	"{}\ufeff":                "something behind the document",
	"\v{}":                    "it is not JSON",
	"\u00a0{}":                "it is not JSON",
	"{\"a\":\"\xff\"}":        "it is not UTF-8",
	"{\"\xed\xa0\x80\":1}":    "it is not UTF-8",
	"\xff\xfe{\x00}\x00":      "it is not UTF-8",
	"[\"\xc0\x80\"]":          "it is not UTF-8",
	`{"a":1,"a":1}`:           "a member is there twice",
	`{"a":1,"\u0061":1}`:      "a member is there twice",
	`{"é":1,"\u00e9":1}`:      "a member is there twice",
	`{"x":{"a":{},"a":{}}}`:   "a member is there twice",
	`1.0`:                     "not an integer",
	`1e2`:                     "not an integer",
	`1E2`:                     "not an integer",
	`-1`:                      "not an integer",
	`-0`:                      "not an integer",
	`-`:                       "not an integer",
	`+1`:                      "it is not JSON",
	`.5`:                      "it is not JSON",
	`01`:                      "a number begins with 0",
	`00`:                      "a number begins with 0",
	`9007199254740992`:        "not an integer",
	`99999999999999999999`:    "not an integer",
	`18446744073709551617`:    "not an integer",
	`NaN`:                     "it is not JSON",
	`Infinity`:                "it is not JSON",
	`nul`:                     "it is not JSON",
	`nulL`:                    "it is not JSON",
	`True`:                    "it is not JSON",
	`truefalse`:               "something behind the document",
	`'a'`:                     "it is not JSON",
	`{a:1}`:                   "the name of a member is missing",
	`{1:1}`:                   "the name of a member is missing",
	`{"a":1,}`:                "the name of a member is missing",
	`{,"a":1}`:                "the name of a member is missing",
	`{"a" 1}`:                 "a colon is missing",
	`{"a":}`:                  "it is not JSON",
	`{"a":1 "b":2}`:           "an object does not end",
	`{"a":1]`:                 "an object does not end",
	`[1,]`:                    "it is not JSON",
	`[,1]`:                    "it is not JSON",
	`[1 2]`:                   "an array does not end",
	`[1}`:                     "an array does not end",
	`[`:                       "it ends too early",
	`{"a":`:                   "it ends too early",
	`[1`:                      "an array does not end",
	`{`:                       "the name of a member is missing",
	`"a`:                      "a string does not end",
	`"a\`:                     "a string does not end",
	"\"a\nb\"":                "a control character",
	"\"\x00\"":                "a control character",
	"\"\x1f\"":                "a control character",
	`"\x41"`:                  "a bad escape",
	`"\'"`:                    "a bad escape",
	`"\u00g0"`:                "a bad escape",
	`"\u12"`:                  "a bad escape",
	`"\U0041"`:                "a bad escape",
	`"\u+123"`:                "a bad escape",
	`"\ud800"`:                "a lone surrogate",
	`"\udc00"`:                "a lone surrogate",
	`"\ud800x"`:               "a lone surrogate",
	`"\ud800\n"`:              "a lone surrogate",
	`"\ud800\ud800\udc00"`:    "a lone surrogate",
	`"\udc00\ud800"`:          "a lone surrogate",
	`{"\ud800":1}`:            "a lone surrogate",
	`// x` + "\n{}":           "it is not JSON",
	`{"a":1/*,"a":2*/}`:       "an object does not end",
	strings.Repeat("[", 5000): "nested more than 32 deep",
}

func TestParseRefuses(t *testing.T) {
	for doc, want := range refused {
		if v, err := Parse([]byte(doc)); err == nil || v != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, %v", doc, v, err)
		}
	}
}

func TestParseDepth(t *testing.T) {
	for _, c := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
		deep := func(n int) []byte { return []byte(strings.Repeat(c[0], n) + "1" + strings.Repeat(c[1], n)) }
		if _, err := Parse(deep(MaxDepth)); err != nil {
			t.Errorf("%d times %s: %v", MaxDepth, c[0], err)
		}
		if _, err := Parse(deep(MaxDepth + 1)); err == nil {
			t.Errorf("%d times %s is accepted", MaxDepth+1, c[0])
		}
	}
}

// What stands in a document that nobody has verified is not repeated to a log.
func TestParseErrorsShowNoContent(t *testing.T) {
	for _, doc := range []string{
		`{"canary":1,"canary":2}`, `{"a":"canary`, `canary`, `{"a":1} canary`, `["canary\q"]`, `{"canary"}`, `["canary\ud800"]`,
	} {
		if _, err := Parse([]byte(doc)); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", doc, err)
		}
	}
}

// The densest documents of 1 MiB take no memory that would hurt, and no time that grows
// faster than their size.
func TestParseMemory(t *testing.T) {
	const size, limit = 1 << 20, 100 << 20
	for _, element := range []string{"0", "{}", "[]", `""`, "null", `{"":0}`, `{"":[{"":{}}]}`} {
		doc := []byte("[" + strings.Repeat(element+",", size/(len(element)+1)-1) + "0]")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		v, err := Parse(doc)
		runtime.ReadMemStats(&after)
		if err != nil || len(v.([]Value)) < 2 {
			t.Fatalf("%s: %v", element, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > limit {
			t.Errorf("%s again and again: %d MiB", element, got>>20)
		}
	}
}

func FuzzParse(f *testing.F) {
	for doc := range accepted {
		f.Add([]byte(doc))
	}
	for doc := range refused {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		v, err := Parse(doc)
		if err == nil {
			checkAgainstOthers(t, doc, v)
			return
		}
		// What is refused is not JSON, or one of the few kinds that we name.
		if !json.Valid(doc) || !utf8.Valid(doc) {
			return
		}
		for _, reason := range []string{"a member is there twice", "not an integer", "a lone surrogate", "nested more than"} {
			if strings.Contains(err.Error(), reason) {
				return
			}
		}
		t.Errorf("%q is refused: %v", doc, err)
	})
}
