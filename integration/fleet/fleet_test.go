// Package fleet tests a mixed fleet: servers of both Go SDKs behind their middleware and
// of Python, the official SDK's and FastMCP's, with one secret and one audience, and a
// client whose retries go to any of them.
package fleet

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/integration/internal/mixed"
)

const frozen = mixed.Frozen

// The bearer tokens.
const (
	alice   = "token-of-alice"
	bob     = "token-of-bob"   // by the same client
	other   = "token-of-other" // the same subject by another issuer
	app     = "token-of-app"   // the same subject by another client
	service = "token-of-service"
	nobody  = "token-of-nobody"
)

var users = mixed.Users{
	alice:   {ClientID: "app", Issuer: "https://issuer.example", Subject: "alicé\"\\"},
	bob:     {ClientID: "app", Issuer: "https://issuer.example", Subject: "bob"},
	other:   {ClientID: "app", Issuer: "https://other.example", Subject: "alicé\"\\"},
	app:     {ClientID: "other app", Issuer: "https://issuer.example", Subject: "alicé\"\\"},
	service: {ClientID: "service"}, // neither issuer nor subject
	nobody:  {},
}

// An order is one in which a client meets two servers, or one of them twice.
type order [2]*instance

// start starts a fleet, with more servers than it always has, and returns every order.
func start(t *testing.T, more ...func(*testing.T, mixed.Config) *instance) (orders []order) {
	t.Helper()
	c := newConfig()
	all := startAll(t, c)
	for _, start := range more {
		all = append(all, start(t, c))
	}
	for _, first := range all {
		for _, second := range all {
			orders = append(orders, order{first, second})
		}
	}
	return orders
}

func newConfig() mixed.Config {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return mixed.Config{Secret: hex.EncodeToString(secret), Audience: "fleet", Users: users}
}

func startAll(t *testing.T, c mixed.Config) []*instance {
	t.Helper()
	return []*instance{startPython(t, c), startGoSDK(t, c), startMCPGo(t, c)}
}

// can reports whether both servers can begin a round of a request.
func (o order) can(r mixed.Request) bool {
	return r.Method != binding.MethodReadResource || o[0].name != mcpGo && o[1].name != mcpGo
}

func TestRoundsHop(t *testing.T) {
	orders := start(t, startFastMCP)
	requests := map[string]mixed.Request{
		"tool":               request(binding.MethodCallTool, "book", `{"value":1}`, alice),
		"tool, no arguments": request(binding.MethodCallTool, "book", "", alice),
		"tool, null":         request(binding.MethodCallTool, "book", "null", alice),
		"tool, empty":        request(binding.MethodCallTool, "book", "{}", alice),
		"tool, any argument": request(binding.MethodCallTool, "book", `{"note":"Zürich \ud83d\ude00 \u007f</>","value":[1e300,-0.0,1e-7,123456789012345678901234567890,{"ｋ":null,"\ud83d\ude00":true}]}`, alice),
		"tool, surrogates":   request(binding.MethodCallTool, "book", `{"value":"\ud800","note":"\udfff\ud800"}`, alice),
		"tool, client only":  request(binding.MethodCallTool, "book", `{"value":1}`, service),
		"prompt":             request(binding.MethodGetPrompt, "greet", `{"value":"Zürich \ud83d\ude00 \u007f</>","note":"\"\\"}`, alice),
		"prompt, empty":      request(binding.MethodGetPrompt, "greet", "", alice),
		"resource template":  request(binding.MethodReadResource, "notes://7", "", alice),
	}
	for name, r := range requests {
		t.Run(name, func(t *testing.T) {
			for _, order := range orders {
				if !order.can(r) {
					continue
				}
				var token string
				var met []string
				for {
					at := order[len(met)%2]
					met = append(met, at.name)
					got := at.post(t, r, token)
					if got.Err != "" {
						t.Fatalf("%s refuses: %s", met, got.Err)
					}
					if got.State == "" {
						if want := strings.Join(met, " "); got.Text != want || len(met) != mixed.Rounds+1 {
							t.Errorf("%s completes with %q", met, got.Text)
						}
						break
					}
					if !strings.HasPrefix(got.State, "v1.") || got.State == token {
						t.Fatalf("%s gives a state that is not freshly sealed: %q", met, got.State)
					}
					token = got.State
				}
			}
		})
	}
}

func TestOtherRequestsAreRefused(t *testing.T) {
	orders := start(t, startFastMCP)
	tool := request(binding.MethodCallTool, "book", `{"value":1,"note":"a"}`, alice)
	prompt := request(binding.MethodGetPrompt, "greet", `{"value":"1","note":"a"}`, alice)
	resource := request(binding.MethodReadResource, "notes://7", "", alice)
	tests := []struct {
		name   string
		sealed mixed.Request
		echoed mixed.Request
		change func(token string) string
		reason codec.Reason
	}{
		{"ciphertext changed", tool, tool, flip(40), codec.BadSeal},
		{"tag changed", tool, tool, flip(-2), codec.BadSeal},
		{"cut off", tool, tool, func(s string) string { return s[:20] }, codec.Malformed},
		{"padded", tool, tool, func(s string) string { return s + "=" }, codec.Malformed},
		{"not sealed", tool, tool, func(string) string { return "go" }, codec.Malformed},

		{"1.0 for 1", tool, with(tool, `{"value":1.0,"note":"a"}`), nil, binding.WrongRequest},
		{"true for 1", tool, with(tool, `{"value":true,"note":"a"}`), nil, binding.WrongRequest},
		{"another value", tool, with(tool, `{"value":1,"note":"b"}`), nil, binding.WrongRequest},
		{"one more", tool, with(tool, `{"value":1,"note":"a","more":null}`), nil, binding.WrongRequest},
		{"none at all", tool, with(tool, ""), nil, binding.WrongRequest},
		{"the last of two counts", tool, with(tool, `{"value":1,"note":"a","value":2}`), nil, binding.WrongRequest},
		{"another surrogate", with(tool, `{"value":"\ud800"}`), with(tool, `{"value":"\ud801"}`), nil, binding.WrongRequest},
		{"a replacement character for a surrogate", with(tool, `{"value":"\ud800"}`), with(tool, `{"value":"\ufffd"}`), nil, binding.WrongRequest},
		{"another normal form", with(tool, `{"value":"\u00e9"}`), with(tool, `{"value":"e\u0301"}`), nil, binding.WrongRequest},
		{"another tool", tool, to(tool, "cancel"), nil, binding.WrongRequest},
		{"another prompt argument", prompt, with(prompt, `{"value":"2","note":"a"}`), nil, binding.WrongRequest},
		{"another resource", resource, to(resource, "notes://8"), nil, binding.WrongRequest},
		{"from tool to prompt", tool, prompt, nil, binding.WrongRequest},
		{"from tool to resource", tool, resource, nil, binding.WrongRequest},
		{"from resource to tool", resource, tool, nil, binding.WrongRequest},

		{"another subject", tool, by(tool, bob), nil, binding.WrongPrincipal},
		{"another issuer", tool, by(tool, other), nil, binding.WrongPrincipal},
		{"another client", tool, by(tool, app), nil, binding.WrongPrincipal},
		{"a client without a user", tool, by(tool, service), nil, binding.WrongPrincipal},
		{"a prompt of another subject", prompt, by(prompt, bob), nil, binding.WrongPrincipal},
		{"a resource of another subject", resource, by(resource, bob), nil, binding.WrongPrincipal},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, order := range orders {
				if !order.can(test.sealed) {
					continue
				}
				first, second := order[0], order[1]
				token := first.post(t, test.sealed, "").State
				if token == "" {
					t.Fatalf("%s gives no state", first.name)
				}
				echo := token
				if test.change != nil {
					echo = test.change(token)
				}
				refused := second.refusals()
				if got := second.post(t, test.echoed, echo); got.Err != frozen {
					t.Errorf("sealed by %s, %s answers %+v, want %s", first.name, second.name, got, frozen)
				}
				if !refused(test.echoed.Method, test.reason) {
					t.Errorf("sealed by %s, %s does not report a refusal for the reason %q", first.name, second.name, test.reason)
				}
				// The token itself is as good as before.
				if got := second.post(t, test.sealed, token); got.State == "" {
					t.Errorf("sealed by %s, %s refuses the unchanged echo: %+v", first.name, second.name, got)
				}
			}
		})
	}
}

func TestOtherSpellingsAreAccepted(t *testing.T) {
	orders := start(t)
	tool := request(binding.MethodCallTool, "book", `{"value":{"b":[1.5,"é",1e3],"a":0},"note":"a/b"}`, alice)
	prompt := request(binding.MethodGetPrompt, "greet", `{"value":"é","note":"a/b"}`, alice)
	tests := []struct {
		name           string
		sealed, echoed mixed.Request
	}{
		{"reordered", tool, with(tool, `{"note":"a/b","value":{"a":0,"b":[1.5,"é",1e3]}}`)},
		{"spaced", tool, with(tool, "{ \"value\" :\t{\"b\":[ 1.5,\"é\",1e3 ],\"a\":0},\n\"note\":\"a/b\" }")},
		{"escaped", tool, with(tool, `{"v\u0061lue":{"b":[1.5,"\u00e9",1e3],"a":0},"note":"a\/b"}`)},
		{"other numerals", tool, with(tool, `{"value":{"b":[15e-1,"é",1000.0],"a":-0},"note":"a/b"}`)},
		{"null for none", with(tool, ""), with(tool, "null")},
		{"empty for none", with(tool, ""), with(tool, "{}")},
		{"a prompt's reordered", prompt, with(prompt, `{"note":"a\/b","value":"\u00e9"}`)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, order := range orders {
				token := order[0].post(t, test.sealed, "").State
				if got := order[1].post(t, test.echoed, token); token == "" || got.State == "" {
					t.Errorf("sealed by %s, %s answers %+v", order[0].name, order[1].name, got)
				}
			}
		})
	}
}

// To Python the last of two members with one name counts. A handler in Go may decode
// the same bytes with encoding/json, which merges the two and does not tell letter
// case apart, so Go refuses what Python accepts.
func TestRepeatedNamesAreRefusedByGoAlone(t *testing.T) {
	tool := request(binding.MethodCallTool, "book", `{"value":{"a":0},"note":"a/b"}`, alice)
	for _, order := range start(t) {
		token := order[0].post(t, tool, "").State
		for _, arguments := range []string{`{"note":"x","value":{"a":0},"note":"a/b"}`, `{"value":{"a":1,"a":0},"note":"a/b"}`} {
			got := order[1].post(t, with(tool, arguments), token)
			if !order[1].isPython() && got.Err != frozen || order[1].isPython() && got.State == "" {
				t.Errorf("%s sealed by %s: %s answers %+v", arguments, order[0].name, order[1].name, got)
			}
		}
	}
}

// The Go SDKs decode the arguments of a prompt before any middleware sees them, and a
// lone surrogate does not survive that. Between Go and Python it is refused, never
// confused; each among itself accepts it.
func TestPromptWithSurrogateIsRefusedAcross(t *testing.T) {
	for _, order := range start(t) {
		prompt := request(binding.MethodGetPrompt, "greet", `{"value":"\ud800"}`, alice)
		token := order[0].post(t, prompt, "").State
		got := order[1].post(t, prompt, token)
		if across := (order[0].isPython()) != (order[1].isPython()); across && got.Err != frozen || !across && got.State == "" {
			t.Errorf("sealed by %s, %s answers %+v", order[0].name, order[1].name, got)
		}
	}
}

// The resource handlers of mcp-go cannot ask, but finish what others asked for.
func TestResourceIsFinishedByMCPGo(t *testing.T) {
	resource := request(binding.MethodReadResource, "notes://7", "", alice)
	for _, order := range start(t) {
		if order[0].name == mcpGo || order[1].name != mcpGo {
			continue
		}
		token := order[0].post(t, resource, "").State
		token = order[0].post(t, resource, token).State
		token = order[0].post(t, resource, token).State
		if got, want := order[1].post(t, resource, token), strings.Repeat(order[0].name+" ", mixed.Rounds)+mcpGo; got.Text != want {
			t.Errorf("sealed by %s: the answer is %+v, want %q", order[0].name, got, want)
		}
		refused := order[1].refusals()
		if got := order[1].post(t, to(resource, "notes://8"), token); got.Err != frozen || !refused(resource.Method, binding.WrongRequest) {
			t.Errorf("sealed by %s for another resource: the answer is %+v", order[0].name, got)
		}
	}
}

// To Python a state may be empty. The Go SDKs cannot tell that one from none, so it is
// good, and the handler begins anew.
func TestEmptyStateReadsAsNoneInGo(t *testing.T) {
	c := newConfig()
	alices := users[alice]
	tool := request(binding.MethodCallTool, "book", "", alice)
	round := policy(t, c).Round(binding.Request{Method: tool.Method, Target: tool.Target}, binding.OAuthPrincipal(alices.ClientID, &alices.Issuer, &alices.Subject))
	token, err := round.Seal("")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range startAll(t, c) {
		got := at.post(t, tool, token)
		if at.isPython() && !strings.HasPrefix(got.Text, "the state came back damaged: ''") || !at.isPython() && got.State == "" {
			t.Errorf("%s answers %+v", at.name, got)
		}
	}
}

// To Python the empty string is an audience; in Go it cannot be one, and a service
// without an audience is another.
func TestEmptyAudienceIsPythonsAlone(t *testing.T) {
	c := newConfig()
	c.Audience = ""
	all := startAll(t, c)
	tool := request(binding.MethodCallTool, "book", "", alice)
	for _, first := range all {
		token := first.post(t, tool, "").State
		for _, second := range all {
			got := second.post(t, tool, token)
			if across := (first.isPython()) != (second.isPython()); across && got.Err != frozen || !across && got.State == "" {
				t.Errorf("sealed by %s, %s answers %+v", first.name, second.name, got)
			}
		}
	}
}

// All whose bearer tokens name neither a client nor a user are one principal to Python,
// and none to gosdk, which seals nothing for them.
func TestBearerTokenOfNobodyIsAPrincipalToPythonAlone(t *testing.T) {
	c := newConfig()
	tool := request(binding.MethodCallTool, "book", "", nobody)
	if got := startPython(t, c).post(t, tool, ""); got.State == "" {
		t.Errorf("python answers %+v", got)
	}
	if got := startGoSDK(t, c).post(t, tool, ""); got.Err != `{"code":-32603,"message":"Internal error"}` {
		t.Errorf("%s answers %+v", goSDK, got)
	}
}

// A state that is no string reaches no middleware in Go: the SDKs refuse it, each with
// an error of its own. In Python it is a token that is refused.
func TestStateThatIsNoStringIsRefusedByEach(t *testing.T) {
	want := map[string]string{python: frozen, goSDK: `{"code":-32020,`, mcpGo: `{"code":-32600,`}
	tool := request(binding.MethodCallTool, "book", "", alice)
	for _, at := range startAll(t, newConfig()) {
		body := bytes.Replace(tool.Body("?"), []byte(`"?"`), []byte("7"), 1)
		if got := at.send(t, tool, body); !strings.HasPrefix(got.Err, want[at.name]) {
			t.Errorf("%s answers %+v, want %s", at.name, got, want[at.name])
		}
		body = bytes.Replace(tool.Body("?"), []byte(`"?"`), []byte("null"), 1)
		if got := at.send(t, tool, body); got.State == "" {
			t.Errorf("null is no state, but %s answers %+v", at.name, got)
		}
	}
}

// What RFC 8259 does not know, and what is nested too deeply, Python takes; in Go there is
// neither a state for it, nor does a state come with it.
func TestWhatIsNoJSONIsForPythonAlone(t *testing.T) {
	tool := request(binding.MethodCallTool, "book", `{"value":1}`, alice)
	for _, at := range startAll(t, newConfig()) {
		token := at.post(t, tool, "").State
		for name, change := range map[string]func(body []byte) []byte{
			"NaN":             value("NaN"),
			"-Infinity":       value("-Infinity"),
			"a raw surrogate": value("\"\xed\xa0\x80\""),
			"600 arrays":      value(strings.Repeat("[", 600) + strings.Repeat("]", 600)),
			"a mark":          func(body []byte) []byte { return append([]byte("\ufeff"), body...) },
		} {
			if answer := at.raw(t, tool, change(tool.Body(""))); at.isPython() != bytes.Contains(answer, []byte(`"requestState":"v1.`)) {
				t.Errorf("%s: %s answers %s", name, at.name, answer)
			}
			if answer := at.raw(t, tool, change(tool.Body(token))); !at.isPython() && bytes.Contains(answer, []byte(`"result"`)) {
				t.Errorf("%s, with a token: %s answers %s", name, at.name, answer)
			}
		}
	}
}

// value returns a function that puts a value in place of the 1 in a body.
func value(text string) func(body []byte) []byte {
	return func(body []byte) []byte { return bytes.Replace(body, []byte(`"value":1`), []byte(`"value":`+text), 1) }
}

// flip returns a function that changes the character of a token at an index, from the
// end if it is negative.
func flip(at int) func(string) string {
	return func(token string) string {
		b := []byte(token)
		i := (at + len(b)) % len(b)
		if b[i] == 'A' {
			b[i] = 'B'
		} else {
			b[i] = 'A'
		}
		return string(b)
	}
}

func request(method, target, arguments, bearer string) mixed.Request {
	return mixed.Request{Method: method, Target: target, Arguments: arguments, Bearer: bearer}
}

func with(r mixed.Request, arguments string) mixed.Request { r.Arguments = arguments; return r }
func to(r mixed.Request, target string) mixed.Request      { r.Target = target; return r }
func by(r mixed.Request, bearer string) mixed.Request      { r.Bearer = bearer; return r }
