package keyset_test

import (
	"encoding/json"
	"testing"

	"github.com/echoseal/echoseal/keyset"
)

func TestContextBytes(t *testing.T) {
	for _, c := range []struct {
		name string
		in   map[string]string
		want string
	}{
		{"nil", nil, `{}`},
		{"empty", map[string]string{}, `{}`},
		{
			"what a wrapped key has", keyset.EncryptionContext("fleet", "0b0c", keyset.Auth),
			`{"echoseal:key":"0b0c","echoseal:keyset":"fleet","echoseal:purpose":"auth"}`,
		},
		{"in the order of code points", map[string]string{"\U0001f600": "", "\uffff": "", "b": "", "B": "", "": ""}, `{"":"","B":"","b":"","\uffff":"","\ud83d\ude00":""}`},
		{"escapes", map[string]string{"a\"\\/": "\x00\b\t\n\f\r\x7f<é"}, `{"a\"\\/":"\u0000\b\t\n\f\r\u007f<\u00e9"}`},
		{"not UTF-8", map[string]string{"\x80a": "\xff"}, `{"\udc80a":"\udcff"}`},
		{"a surrogate in UTF-8's form", map[string]string{"a": "\xed\xa0\x80\xed\xb0\x80"}, `{"a":"\udced\udca0\udc80\udced\udcb0\udc80"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(keyset.ContextBytes(c.in))
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if !json.Valid([]byte(got)) {
				t.Errorf("%s is not JSON", got)
			}
		})
	}
}

// Contexts that a careless encoding takes for one another.
func TestContextBytesDiffer(t *testing.T) {
	seen := make(map[string]int)
	for i, c := range []map[string]string{
		{"a": "bc"},
		{"ab": "c"},
		{"a": "b", "c": ""},
		{"a": "b", "": "c"},
		{"a": "b,c"},
		{"a": `b","c":"`},
		{`a":"b","c`: ""},
		{"a": "\xff"},
		{"a": "\ufffd"},
		{"a": `\udcff`},
		{"a": "\xed\xb3\xbf"}, // U+DCFF in UTF-8's form
		{"a": "é"},
		{"a": "e\u0301"},
	} {
		text := string(keyset.ContextBytes(c))
		if first, ok := seen[text]; ok {
			t.Errorf("contexts %d and %d are both %s", first, i, text)
		}
		seen[text] = i
	}
}
