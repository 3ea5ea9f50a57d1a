// Package inspect tests what keytool inspect says of what real servers send and receive:
// tokens of other SDKs, and captured requests and responses.
package inspect

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/cmd/keytool/cli"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/integration/internal/mixed"
	"github.com/echoseal/echoseal/integration/internal/typescript"
	"github.com/echoseal/echoseal/middleware/gosdk"
	"github.com/echoseal/echoseal/middleware/mcpgo"
)

const (
	secret   = "0123456789abcdef0123456789abcdef"
	audience = "shop"
	bearer   = "token-of-alice"
	canary   = "amount=4200"
)

var users = mixed.Users{bearer: {ClientID: "app", Issuer: "https://issuer.example", Subject: "alice"}}

// A report is what inspect prints of one token.
type report struct {
	Format, KID, Note, Verdict, Reason string
	Claims                             *struct{ M, T, A string }
	Request                            *struct{ Method, Target, A string }
	Checks                             []struct {
		Name, Next string
		OK         *bool
	}
}

// inspect runs keytool inspect.
func inspect(t *testing.T, input []byte, args ...string) (code int, r report) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	s := cli.System{Stdin: bytes.NewReader(input), Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" }}
	code = cli.Run(t.Context(), s, append([]string{"inspect", "-o", "json"}, args...)...)
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("inspect prints no document: %v\n%s%s", err, &stdout, &stderr)
	}
	if strings.Contains(stdout.String()+stderr.String(), canary) {
		t.Errorf("inspect shows the state:\n%s%s", &stdout, &stderr)
	}
	return code, r
}

// keep writes a file that only its owner may read.
func keep(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// wrap returns what a token is captured in.
func wrap(token string) map[string][]byte {
	response := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{},"requestState":"` + token + `"}}`
	return map[string][]byte{
		"bare":     []byte(token + "\n"),
		"response": []byte(response),
		"events":   []byte("event: message\ndata: " + response + "\n\n"),
		"request":  []byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"book","requestState":"` + token + `"}}`),
	}
}

// Every token of the real TypeScript SDK is known for one, wherever it is captured, and
// however its key is given. What it holds is not shown.
func TestTypeScript(t *testing.T) {
	tokens, _ := typescript.Mint(t, secret)
	file := keep(t, secret)
	for _, token := range tokens {
		for where, captured := range wrap(token.Token) {
			for _, args := range [][]string{nil, {"--secret-file", file}} {
				code, r := inspect(t, captured, args...)
				if code != 4 || r.Format != "typescript" || r.Verdict != "invalid" || r.Reason != "malformed" || r.KID != "" {
					t.Errorf("%s, %s, %q: exit %d, %+v", token.Name, where, args, code, r)
				}
				if !strings.Contains(r.Note, "TypeScript SDK") || !strings.Contains(r.Note, "read by anybody") {
					t.Errorf("%s, %s, %q: %q", token.Name, where, args, r.Note)
				}
			}
		}
	}
}

// Tokens as the other SDKs make them, with real ciphers.
func TestOtherSDKs(t *testing.T) {
	var (
		enc     = base64.RawURLEncoding.EncodeToString
		state   = []byte(`{"state":"` + canary + `"}`)
		expires = binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(time.Hour).Unix()))
		body    = append(expires, canary...)
	)
	tests := []struct {
		name, token  string
		format, note string
		kid          string
		reason, next string // once there are secrets
	}{
		{name: "Ruby", token: "v1." + enc(seal(t, state)), format: "v1", reason: "unknown_key", next: "Ruby"},
		{name: "Rust, signed", token: "rs1." + enc(body) + "." + enc(mac(body)), format: "rust-rs1", note: "Rust SDK", reason: "malformed"},
		{name: "Rust, with a key id", token: "rs2.2026-12." + enc(body) + "." + enc(mac(body)), format: "rust-rs2", note: "Rust SDK", kid: "2026-12", reason: "malformed"},
		{name: "mcp.d, encrypted", token: "v1e." + enc(seal(t, state)), format: "mcp.d", note: "mcp.d", reason: "malformed"},
		{name: "mcp.d, signed", token: "v1." + enc([]byte(canary)) + "." + enc(mac([]byte(canary))), format: "mcp.d", note: "mcp.d", reason: "malformed"},
		{name: "mcp.d, signed JSON", token: "v1." + enc(state) + "." + enc(mac(state)), format: "typescript", note: "mcp.d", reason: "malformed"},
	}
	file := keep(t, secret)
	for _, test := range tests {
		for where, captured := range wrap(test.token) {
			code, r := inspect(t, captured)
			// The shape of Ruby's is ours: without a key nobody can tell.
			if ours := test.format == "v1"; r.Format != test.format || ours != (code == 0) || !ours && r.KID != test.kid || !strings.Contains(r.Note, test.note) {
				t.Errorf("%s, %s: exit %d, %+v", test.name, where, code, r)
			}
			code, r = inspect(t, captured, "--secret-file", file)
			if code != 4 || r.Format != test.format || r.Verdict != "invalid" || r.Reason != test.reason {
				t.Errorf("%s, %s, with a secret: exit %d, %+v", test.name, where, code, r)
			}
			if test.next != "" && !strings.Contains(r.Checks[0].Next, test.next) {
				t.Errorf("%s, %s: the next step is %q", test.name, where, r.Checks[0].Next)
			}
		}
	}
}

// seal returns nonce, ciphertext and tag of AES-256-GCM under a random key.
func seal(t *testing.T, text []byte) []byte {
	t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	return aead.Seal(nil, nil, text, nil)
}

func mac(text []byte) []byte {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(text)
	return m.Sum(nil)
}

// What really goes over the wire of each server can be piped to inspect as it is: the
// bodies of requests and of responses, JSON and server-sent events.
func TestCaptured(t *testing.T) {
	c := mixed.Config{Secret: secret, Audience: audience, Users: users}
	ring, err := local.New([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := binding.New(ring, binding.Options{Audience: audience})
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	serve := func(h http.Handler) string {
		s := httptest.NewServer(users.Authenticate(h))
		t.Cleanup(s.Close)
		return s.URL
	}
	server := mixed.GoSDKServer("go", policy, &gosdk.Options{Logger: quiet})
	streaming := c
	streaming.Stream = true
	urls := map[string]string{
		"go-sdk":      serve(mixed.GoSDK("go", policy, &gosdk.Options{Logger: quiet})),
		"go-sdk, SSE": serve(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})),
		"mcp-go":      serve(mixed.MCPGo("mcp-go", policy, mcpgo.Options{Logger: quiet})),
		"Python":      mixed.StartPython(t, "python", c).URL,
		"Python, SSE": mixed.StartPython(t, "python", streaming).URL,
	}
	identity := []string{
		"--secret-file", keep(t, secret), "--audience", audience,
		"--principal-file", keep(t, `{"client_id":"app","iss":"https://issuer.example","sub":"alice"}`),
	}
	arguments := `{"value":{"b":[1.0,"\u00e9\ud83d\ude00"],"a":1e2},"note":"a/b"}`
	requests := []mixed.Request{
		{Method: binding.MethodCallTool, Target: "book", Arguments: arguments, Bearer: bearer},
		{Method: binding.MethodGetPrompt, Target: "greet", Arguments: `{"value":"é"}`, Bearer: bearer},
		{Method: binding.MethodReadResource, Target: "notes://7", Bearer: bearer},
	}
	// A Python server streams once its handler reports progress to a client that asks for it.
	progress := func(body []byte) []byte {
		return bytes.Replace(body, []byte(`"_meta":{`), []byte(`"_meta":{"progressToken":1,`), 1)
	}
	for name, url := range urls {
		for _, r := range requests {
			if name == "mcp-go" && r.Method == binding.MethodReadResource {
				continue // its resources cannot ask
			}
			t.Run(name+" "+r.Method, func(t *testing.T) {
				kind, response := post(t, url, r, progress(r.Body("")))
				if events := strings.HasSuffix(name, "SSE"); events != (kind == "text/event-stream") {
					t.Fatalf("the response is %s:\n%s", kind, response)
				}
				code, got := inspect(t, response, identity...)
				if code != 0 || got.Verdict != "valid" || got.Claims.M != r.Method || got.Claims.T != r.Target || got.Request != nil {
					t.Fatalf("the response: exit %d, %+v\n%s", code, got, response)
				}
				token := stateOf(t, response)
				retry := r.Body(token)
				code, got = inspect(t, retry, identity...)
				if code != 0 || got.Verdict != "valid" || got.Request == nil || got.Request.A != got.Claims.A || got.Request.Target != r.Target {
					t.Errorf("the retry: exit %d, %+v", code, got)
				}
				for _, check := range got.Checks {
					if check.OK == nil || !*check.OK {
						t.Errorf("the retry: the check %s is not made or fails", check.Name)
					}
				}
				// And the server takes what inspect finds good, and refuses what it does not.
				if _, answer := post(t, url, r, retry); stateOf(t, answer) == "" {
					t.Errorf("the server answers %s", answer)
				}
				other := r
				other.Target += "7"
				if r.Method != binding.MethodReadResource {
					other.Target, other.Arguments = r.Target, `{"value":"other"}`
				}
				if code, got = inspect(t, other.Body(token), identity...); code != 4 || got.Reason != "request" {
					t.Errorf("another request: exit %d, %+v", code, got)
				}
				_, answer := post(t, url, other, other.Body(token))
				if !bytes.Contains(answer, []byte(mixed.Frozen)) {
					t.Errorf("the server answers another request with %s", answer)
				}
				if code, _ = inspect(t, answer); code != 1 {
					t.Errorf("a refusal has no token, but inspect ends with %d", code)
				}
			})
		}
	}
}

// post returns the type and the very bytes of a response.
func post(t *testing.T, url string, r mixed.Request, body []byte) (kind string, response []byte) {
	t.Helper()
	req, err := r.HTTP(t.Context(), url, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	response, err = io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	kind, _, _ = strings.Cut(answer.Header.Get("Content-Type"), ";")
	return kind, response
}

// stateOf returns the state of a response, which may be an event.
func stateOf(t *testing.T, response []byte) string {
	t.Helper()
	for line := range bytes.Lines(response) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && len(bytes.TrimSpace(data)) > 0 {
			response = data
		}
	}
	answer, err := mixed.Parse(response)
	if err != nil {
		t.Fatal(err)
	}
	return answer.State
}
