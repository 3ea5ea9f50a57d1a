package inspect_test

import (
	"strings"
	"testing"

	"github.com/echoseal/echoseal/cmd/keytool/internal/inspect"
)

const good = "v1.8JxgNTojzqodyaR_Tekjq-zv-la5dAzkndJ5P2nNYw5iH0BNhm8OIV1-ZcU"

func TestFind(t *testing.T) {
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"a": 1},"requestState":"` + good + `"}}`
	for _, c := range []struct {
		name, input string
		tokens      []string
		target      string // of the first
		arguments   string
	}{
		{"bare", good, []string{good}, "", ""},
		{"bare, with a line end", good + "\r\n", []string{good}, "", ""},
		{"with a byte order mark", "\xef\xbb\xbf" + good, []string{good}, "", ""},
		{"quoted", `"` + good + `"`, []string{good}, "", ""},
		{"call", call, []string{good}, "pay", `{"a": 1}`},
		{"escaped", strings.ReplaceAll(call, "v1.", `\u00761\u002e`), []string{good}, "pay", `{"a": 1}`},
		{"batch", "[" + call + "," + call + "]", []string{good, good}, "pay", `{"a": 1}`},
		{"response", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"` + good + `"}}`, []string{good}, "", ""},
		{"events", "event: message\ndata: " + call + "\n\n", []string{good}, "pay", `{"a": 1}`},
		{"method last", `{"params":{"requestState":"` + good + `","uri":"file:///x"},"method":"resources/read"}`, []string{good}, "file:///x", ""},
		{"prompt", `{"method":"prompts/get","params":{"name":"p","requestState":"` + good + `"}}`, []string{good}, "p", ""},
		{"a request without a token", `{"method":"tools/call","params":{"name":"pay"}}`, []string{""}, "pay", ""},
		{"surrogates", `{"method":"tools/call","params":{"name":"a\ud800b\ud83d\ude00"}}`, []string{""}, "a\xed\xa0\x80b\U0001f600", ""},
		{"a token in arguments", `{"method":"tools/call","params":{"name":"x","arguments":{"requestState":"` + good + `"}}}`, []string{good, ""}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, more, err := inspect.Find([]byte(c.input))
			if err != nil || more != 0 || len(found) != len(c.tokens) {
				t.Fatalf("%d found, %d more: %v", len(found), more, err)
			}
			for i, f := range found {
				if f.Token != c.tokens[i] {
					t.Errorf("token %d is %.80q", i, f.Token)
				}
			}
			switch r := found[0].Request; {
			case r == nil && c.target != "":
				t.Error("no request")
			case r != nil && (r.Target != c.target || string(r.Arguments) != c.arguments):
				t.Errorf("target %q, arguments %q", r.Target, r.Arguments)
			}
		})
	}
}

func TestFindRefuses(t *testing.T) {
	for _, input := range []string{
		"", " \n ", "two words", "{}", "[1,2]", "{", `{"requestState":`, `{"requestState":1}`, "[]]", `{"a":1}{"b":2}`,
		strings.Repeat("[", 600) + strings.Repeat("]", 600), "data: {\n\n", `{"requestState":"x"} trailing`,
	} {
		if found, _, err := inspect.Find([]byte(input)); err == nil {
			t.Errorf("%.40q: %d found", input, len(found))
		} else if len(err.Error()) > 200 {
			t.Errorf("%.40q: %v", input, err)
		}
	}
}

func TestIdentify(t *testing.T) {
	mac := strings.Repeat("A", 43) // 32 bytes
	for token, want := range map[string]inspect.Format{
		good:                          inspect.V1,
		good + "=":                    inspect.V1, // and it says what is wrong
		"v1.AAAA":                     inspect.V1,
		"v1.eyJhIjoxfQ." + mac:        inspect.TypeScript,
		"v1.AAAA." + mac:              inspect.MCPD,
		"v1e." + mac:                  inspect.MCPD,
		"rs1.AAAAAAAAAAAAAA." + mac:   inspect.RustSigned,
		"rs2.k1.AAAAAAAAAAA." + mac:   inspect.RustSealed,
		"":                            inspect.Unknown,
		"plain state":                 inspect.Unknown,
		`{"step":1}`:                  inspect.Unknown,
		"v2." + mac:                   inspect.Unknown,
		"v1." + mac + "." + mac + ".": inspect.Unknown,
		"rs1." + mac:                  inspect.Unknown,
	} {
		s := inspect.Identify(token)
		if s.Format != want {
			t.Errorf("%q is %s, want %s", token, s.Format, want)
		}
		if want != inspect.V1 && s.Note == "" || token == good && (s.Note != "" || s.KID != "f09c6035") {
			t.Errorf("%q: %+v", token, s)
		}
	}
}

func FuzzFind(f *testing.F) {
	for _, seed := range []string{
		good, `"` + good + `"`, `{"method":"tools/call","params":{"name":"x","arguments":{},"requestState":"` + good + `"}}`,
		"data: {\"requestState\":\"a\"}\n\n", `[[[[]]]]`, `{"params":{"requestState":"\ud800\udc00\ud800"}}`, "\xef\xbb\xbf{}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		found, more, err := inspect.Find(input)
		if err == nil && len(found) == 0 || len(found) > inspect.MaxTokens || more > 0 && len(found) < inspect.MaxTokens {
			t.Fatalf("%d found, %d more: %v", len(found), more, err)
		}
		for _, one := range found {
			if s := inspect.Identify(one.Token); s.Format == "" || s.PayloadBytes < 0 {
				t.Fatalf("%q: %+v", one.Token, s)
			}
		}
	})
}
