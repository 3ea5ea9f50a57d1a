package inspect_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
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
		{"a message a line", call + "\n" + call + "\n", []string{good, good}, "pay", `{"a": 1}`},
		{"with the head of an HTTP message", "POST /mcp HTTP/1.1\r\nHost: x\r\n\r\n" + call, []string{good}, "pay", `{"a": 1}`},
		{"with the head of a response", "HTTP/1.1 200 OK\nContent-Type: text/event-stream\n\nevent: message\ndata: " + call + "\n\n", []string{good}, "pay", `{"a": 1}`},
		{"an event of several lines", "data: {\ndata: \"requestState\":\ndata:\"" + good + "\"}\n\n", []string{good}, "", ""},
		{"tokens, a line each", good + "\n" + good + "\r\n" + good, []string{good, good, good}, "", ""},
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

// What somebody is likely to give instead is answered with what to do, and not repeated.
func TestFindHelps(t *testing.T) {
	for _, c := range []struct{ name, input, want string }{
		{"a word before it", "Bearer " + good, "grep -oE"},
		{"in a line of a log", "requestState=" + good + " refused", "grep -oE"},
		{"wrapped", good[:30] + "\n" + good[30:], "tr -d"},
		{"wrapped as in a shell", good[:30] + "\\\n" + good[30:], "tr -d"},
		{"a space inside", good[:30] + " " + good[30:], "tr -d"},
		{"a line of printed JSON", `"requestState": "` + good + `",`, "grep -oE"},
		{"JSON, and something behind it", `{"requestState":"` + good + `"}` + "\n* Connection #0 left intact", "grep -oE"},
		{"a line of our log", "level=WARN reason=unknown_key kid=9f2c61ab token_id=1a2b3c4d", "never the token"},
		{"a line of our log in JSON", `{"reason":"unknown_key","kid":"9f2c61ab","token_id":"1a2b3c4d"}`, "never the token"},
		{"plain state", `{"step":1}`, "plain state of a server that does not seal it"},
		{"UTF-16", "\xff\xfev\x001\x00", "iconv"},
		{"compressed", "\x1f\x8b\x08\x00", "gunzip"},
		{"a key", "-----BEGIN PRIVATE KEY-----\nMIIE\n", "PEM"},
	} {
		_, _, err := inspect.Find([]byte(c.input))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), good[3:20]) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A request whose requestState is no text is told from one that has none.
func TestFindNoText(t *testing.T) {
	for state, noText := range map[string]bool{`5`: true, `{"step":1}`: true, `[]`: true, `false`: true, `null`: false, `""`: false} {
		found, _, err := inspect.Find([]byte(`{"method":"tools/call","params":{"name":"x","requestState":` + state + `}}`))
		if err != nil || len(found) != 1 || found[0].Token != "" || found[0].Request == nil || found[0].NoText != noText {
			t.Errorf("%s: %+v, %v", state, found, err)
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
		`{"step":1}`:                  inspect.JSON,
		"v2." + mac:                   inspect.Unknown,
		"v1." + mac + "." + mac + ".": inspect.Unknown,
		"rs1." + mac:                  inspect.Unknown,
	} {
		s := inspect.Identify(token)
		if s.Format != want {
			t.Errorf("%q is %s, want %s", token, s.Format, want)
		}
		if want != inspect.V1 && s.Note == "" || (s.Note == "") != (s.Next == "") || token == good && (s.Note != "" || s.KID != "f09c6035") {
			t.Errorf("%q: %+v", token, s)
		}
	}
}

// Formats that have nothing to do with MCP, as their libraries write them.
func TestIdentifyForeign(t *testing.T) {
	enc := base64.RawURLEncoding.EncodeToString
	mac := bytes.Repeat([]byte{0xc1}, 64)
	header := func(text string) string { return enc([]byte(text)) }
	for name, c := range map[string]struct {
		token string
		want  inspect.Format
	}{
		"JWT":                   {header(`{"alg":"HS256","typ":"JWT"}`) + "." + header(`{"sub":"x"}`) + "." + enc(mac[:32]), inspect.JWT},
		"JWT, not signed":       {header(`{"alg":"none"}`) + "." + header(`{"sub":"x"}`) + ".", inspect.JWT},
		"JWE":                   {header(`{"alg":"dir","enc":"A256GCM"}`) + ".." + enc(mac[:12]) + "." + enc(mac) + "." + enc(mac[:16]), inspect.JWE},
		"PASETO":                {"v4.local." + enc(mac), inspect.PASETO},
		"PASETO of version 1":   {"v1.public." + enc(mac), inspect.PASETO},
		"PASETO with a footer":  {"v2.local." + enc(mac) + "." + enc(mac[:8]), inspect.PASETO},
		"Fernet":                {base64.URLEncoding.EncodeToString(append([]byte{0x80, 0, 0, 0, 0, 0x6a, 1, 2, 3}, mac...)), inspect.Fernet},
		"itsdangerous":          {"ImhlbGxvIg.aS5nSg." + enc(mac[:20]), inspect.ItsDangerous},
		"itsdangerous, zlib":    {".eJxTSklNSU1LBgAGJgIR.aS5nSg." + enc(mac[:20]), inspect.ItsDangerous},
		"Django":                {header(`{"a":1}`) + ":1vQk3c:" + enc(mac[:32]), inspect.ItsDangerous},
		"Rails, signed":         {base64.StdEncoding.EncodeToString([]byte(`{"a":1}`)) + "--" + hex.EncodeToString(mac[:20]), inspect.Rails},
		"Rails, signed, SHA256": {base64.StdEncoding.EncodeToString([]byte(`"ab"`)) + "--" + hex.EncodeToString(mac[:32]), inspect.Rails},
		"Rails, encrypted":      {base64.StdEncoding.EncodeToString(mac) + "--" + base64.StdEncoding.EncodeToString(mac[:12]) + "--" + base64.StdEncoding.EncodeToString(mac[:16]), inspect.Rails},
		"Vault":                 {"vault:v1:" + base64.StdEncoding.EncodeToString(mac), inspect.Transit},
		"JSON":                  {`{"step":1,"user":"x"}`, inspect.JSON},
		"JSON, a list":          {` [1, 2]`, inspect.JSON},
		"JSON in base64":        {base64.StdEncoding.EncodeToString([]byte(`{"step":">>>???"}`)), inspect.JSON},
		"hex":                   {hex.EncodeToString(mac), inspect.Unknown},
		"a UUID":                {"3f1d2c4e-1234-4abc-9def-0123456789ab", inspect.Unknown},
		"a word":                {"step-2", inspect.Unknown},
	} {
		s := inspect.Identify(c.token)
		if s.Format != c.want || s.KID != "" || s.Note == "" || s.Next == "" {
			t.Errorf("%s is %+v", name, s)
		}
	}
}

// What was done to a token on its way is said, with what to do, and the token is not.
func TestIdentifyDamaged(t *testing.T) {
	for name, c := range map[string]struct{ token, note, next string }{
		"shortened":          {good[:30] + "...", "shortened", "capture it again"},
		"shortened, one":     {good[:30] + "…", "shortened", "capture it again"},
		"shortened inside":   {good[:30] + "..." + good[40:], "shortened", "capture it again"},
		"cut":                {good[:len(good)-2], "cut", "capture it again"},
		"cut by one":         {"v1." + strings.Repeat("A", 49), "cut", "capture it again"},
		"cut short":          {"v1.abc", "cut", "capture it again"},
		"padded":             {good + "=", "padding", "come back as it is"},
		"another alphabet":   {strings.ReplaceAll(good, "-", "+"), "alphabet", "come back as it is"},
		"in a URL":           {strings.Replace(good, ".", "%2E", 1), "URL", "come back as it is"},
		"padded in a URL":    {good + "%3D", "URL", "come back as it is"},
		"quoted":             {"'" + good + "'", "around it", "grep -oE"},
		"quoted in JSON":     {`"` + good + `"`, "around it", "grep -oE"},
		"a name before it":   {"requestState=" + good, "around it", "grep -oE"},
		"a zero width space": {good[:30] + "\u200b" + good[30:], "byte 31 ", "come back as it is"},
		"a line end":         {good[:30] + "\n" + good[30:], "byte 31 ", "come back as it is"},
		"a key id":           {"9f2c61ab", "8 hex digits", "keytool status"},
		"a message":          {`{"result":{"requestState":"` + good + `"}}`, "a whole message", "jq -r"},
	} {
		s := inspect.Identify(c.token)
		if !strings.Contains(s.Note, c.note) || !strings.Contains(s.Next, c.next) || c.note != "" && s.KID != "" || (c.note == "") != (s.Note == "") {
			t.Errorf("%s: %+v", name, s)
		}
		if strings.Contains(s.Note+s.Next, good[3:20]) {
			t.Errorf("%s is shown: %+v", name, s)
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
			if s := inspect.Identify(one.Token); s.Format == "" || s.PayloadBytes < 0 || (s.Note == "") != (s.Next == "") {
				t.Fatalf("%q: %+v", one.Token, s)
			}
		}
	})
}
