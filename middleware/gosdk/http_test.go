package gosdk_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/middleware/gosdk"
)

const frozen = `{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}`

// A site is a server over HTTP, seen by a client that writes its requests by hand.
type site struct {
	url     string
	session string // Mcp-Session-Id of a stateful server
	version string
}

// serve serves the desk over Streamable HTTP on loopback. Bearer tokens, where a
// request has one, are verified by verify.
func (d *desk) serve(t *testing.T, stateless bool) *site {
	t.Helper()
	return serve(t, func(*http.Request) *mcp.Server { return d.Server }, stateless)
}

func serve(t *testing.T, getServer func(*http.Request) *mcp.Server, stateless bool) *site {
	t.Helper()
	handler := mcp.NewStreamableHTTPHandler(getServer, &mcp.StreamableHTTPOptions{Stateless: stateless, JSONResponse: stateless})
	server := httptest.NewServer(optionalBearer(handler))
	t.Cleanup(server.Close)
	s := &site{url: server.URL, version: "2026-07-28"}
	if !stateless {
		s.version = "2025-11-25"
		s.open(t)
	}
	return s
}

// open opens a session, as the user of a bearer token if there is one.
func (s *site) open(t *testing.T, token ...string) {
	t.Helper()
	s.session = ""
	r := s.post(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"client","version":"1"}}}`, token...)
	s.session = r.header.Get("Mcp-Session-Id")
	s.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, token...)
}

// optionalBearer verifies the bearer token of requests that have one: "user" or
// "user@client".
func optionalBearer(handler http.Handler) http.Handler {
	bearer := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		user, client, _ := strings.Cut(token, "@")
		return &auth.TokenInfo{
			Expiration: time.Now().Add(time.Hour),
			Extra:      map[string]any{"client_id": client, "iss": "https://issuer.example", "sub": user},
		}, nil
	}, nil)(handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			handler.ServeHTTP(w, r)
			return
		}
		bearer.ServeHTTP(w, r)
	})
}

// envelope returns a JSON-RPC request of version 2026-07-28; members are those of its
// params.
func envelope(method, target, members string) string {
	switch {
	case target == "":
	case method == binding.MethodReadResource:
		members = `"uri":` + target + sep(members)
	default:
		members = `"name":` + target + sep(members)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}%s}}`, method, sep(members))
}

func sep(members string) string {
	if members == "" {
		return ""
	}
	return "," + members
}

// legacy returns a JSON-RPC request of version 2025-11-25.
func legacy(method, members string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{%s}}`, method, members)
}

// A reply is what came over HTTP.
type reply struct {
	status int
	header http.Header
	body   string // the JSON-RPC response, also where it came as an event
}

// post sends a body and, if there is one, a bearer token.
func (s *site) post(t *testing.T, body string, token ...string) reply {
	t.Helper()
	var head struct {
		Method string
		Params struct{ Name, URI string }
	}
	if err := json.Unmarshal([]byte(body), &head); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", s.version)
	req.Header.Set("Mcp-Method", head.Method)
	req.Header.Set("Mcp-Name", head.Params.Name+head.Params.URI)
	if s.session != "" {
		req.Header.Set("Mcp-Session-Id", s.session)
	}
	for _, token := range token {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	r := reply{res.StatusCode, res.Header, strings.TrimSpace(string(text))}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		r.body = lastEvent(text)
	}
	return r
}

func lastEvent(stream []byte) (data string) {
	lines := bufio.NewScanner(bytes.NewReader(stream))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok && text != "" {
			data = text
		}
	}
	return data
}

func (r reply) member(t *testing.T, name string) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.body), &members); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	if members[name] == nil {
		t.Fatalf("%d %s: no %s", r.status, r.body, name)
	}
	return string(members[name])
}

func (r reply) result(t *testing.T) string { t.Helper(); return r.member(t, "result") }

func (r reply) refused(t *testing.T) {
	t.Helper()
	if got := r.member(t, "error"); got != frozen {
		t.Errorf("the error is %s", got)
	}
}

// token returns the requestState of a result.
func (r reply) token(t *testing.T) string {
	t.Helper()
	var result struct{ RequestState string }
	if err := json.Unmarshal([]byte(r.result(t)), &result); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(result.RequestState, "v1.") {
		t.Fatalf("no token in %s", r.body)
	}
	return result.RequestState
}

func quoted(s string) string { text, _ := json.Marshal(s); return string(text) }

func TestRoundsOverStatelessHTTP(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	s := d.serve(t, true)
	for method, target := range map[string]string{binding.MethodCallTool: quoted(tool), binding.MethodGetPrompt: quoted(prompt), binding.MethodReadResource: quoted(resource)} {
		first := s.post(t, envelope(method, target, ""))
		if strings.Contains(first.body, secretState) || !strings.Contains(first.body, `"resultType":"input_required"`) {
			t.Errorf("%s: the first round is %s", method, first.body)
		}
		second := s.post(t, envelope(method, target, `"requestState":`+quoted(first.token(t)))).result(t)
		if !strings.Contains(second, "done") || strings.Contains(second, "requestState") {
			t.Errorf("%s: the second round is %s", method, second)
		}
	}
}

func TestRoundsOverStatefulHTTP(t *testing.T) {
	// A legacy client whose tool keeps its state beside the content.
	d := sealedDesk(t, func(_ context.Context, c call) (answer, error) {
		return answer{text: "so far " + c.state, state: secretState}, nil
	}, binding.Options{})
	s := d.serve(t, false)
	if s.session == "" {
		t.Fatal("no session")
	}
	for method, members := range map[string]string{binding.MethodCallTool: `"name":"book"`, binding.MethodGetPrompt: `"name":"greet"`, binding.MethodReadResource: `"uri":"notes://7"`} {
		first := s.post(t, legacy(method, members))
		if strings.Contains(first.body, secretState) {
			t.Errorf("%s: the first round is %s", method, first.body)
		}
		second := s.post(t, legacy(method, members+`,"requestState":`+quoted(first.token(t)))).result(t)
		if !strings.Contains(second, "so far "+secretState) {
			t.Errorf("%s: the second round is %s", method, second)
		}
		s.post(t, legacy(method, members+`,"requestState":"fabricated"`)).refused(t)
	}
}

// Tampered, expired and rebound are one error to the client and three reasons to the
// operator, and no record says what must stay unsaid.
func TestRefusalsAreByteIdenticalAndTheLogKeepsSecrets(t *testing.T) {
	now, log := newClock(), &logbook{}
	var refusals []binding.Refusal
	var mu sync.Mutex
	o := log.options()
	o.OnRefuse = func(_ context.Context, r binding.Refusal) {
		mu.Lock()
		defer mu.Unlock()
		refusals = append(refusals, r)
	}
	d := newDesk(askFirst, gosdk.Middleware(newPolicy(t, newRing(t), binding.Options{Audience: "billing", Now: now.Now}), o))
	s := d.serve(t, true)
	post := func(target, token, user string) reply {
		return s.post(t, envelope(binding.MethodCallTool, quoted(target), `"requestState":`+quoted(token)), user)
	}
	token := s.post(t, envelope(binding.MethodCallTool, quoted(tool), ""), "zoe@app").token(t)
	d.seen()

	tampered := token[:40] + swapped(token[40]) + token[41:]
	replies := []reply{
		post(tool, tampered, "zoe@app"),
		post("cancel", token, "zoe@app"),
		post(tool, token, "bob@app"),
		post(tool, token, "nobody-else@other"),
		post(tool, "fabricated", "zoe@app"),
		post(tool, strings.Repeat("v", 300_000), "zoe@app"),
	}
	now.add(11 * time.Minute)
	replies = append(replies, post(tool, token, "zoe@app"))

	for _, r := range replies {
		r.refused(t)
		if r.body != replies[0].body || r.status != replies[0].status {
			t.Errorf("%d %s differs from %d %s", r.status, r.body, replies[0].status, replies[0].body)
		}
	}
	if seen := d.seen(); seen != nil {
		t.Errorf("the handler saw %q", seen)
	}
	text := log.text()
	for _, private := range []string{token, token[20:60], tampered, secretState, "amount=", "zoe", "bob", "app", "issuer.example", "fabricated", "vvvv"} {
		if strings.Contains(text, private) {
			t.Errorf("the log says %q: %s", private, text)
		}
	}
	want := []codec.Reason{codec.BadSeal, binding.WrongRequest, binding.WrongPrincipal, binding.WrongPrincipal, codec.Malformed, binding.TooLarge, binding.Expired}
	records := log.records(t)
	if len(records) != len(want) || len(refusals) != len(want) {
		t.Fatalf("%d records and %d refusals, want %d", len(records), len(refusals), len(want))
	}
	for i, reason := range want {
		if records[i]["reason"] != string(reason) || records[i]["level"] != "WARN" || refusals[i].Reason != reason {
			t.Errorf("record %v and refusal %v, want %s", records[i], refusals[i], reason)
		}
	}
}

func TestInternalErrorHasNoDataOnTheWire(t *testing.T) {
	log := &logbook{}
	o := log.options()
	o.Principal = func(context.Context, mcp.Request) (binding.Principal, error) {
		return binding.Principal{}, errors.New("the directory is down")
	}
	s := newDesk(askFirst, gosdk.Ephemeral(o)).serve(t, true)
	for method, target := range map[string]string{binding.MethodCallTool: tool, binding.MethodGetPrompt: prompt, binding.MethodReadResource: resource} {
		got := s.post(t, envelope(method, quoted(target), "")).member(t, "error")
		if want := `{"code":-32603,"message":"Internal error"}`; got != want {
			t.Errorf("%s: the error is %s, want %s", method, got, want)
		}
		log.wantInternal(t)
	}
}

// swapped returns another letter of the alphabet for one.
func swapped(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

func TestSubjectsOfOneClientDoNotShareState(t *testing.T) {
	log := &logbook{}
	d := newDesk(askFirst, gosdk.Ephemeral(log.options()))
	s := d.serve(t, true)
	request := func(token string) string {
		return envelope(binding.MethodCallTool, quoted(tool), `"requestState":`+quoted(token))
	}
	token := s.post(t, envelope(binding.MethodCallTool, quoted(tool), ""), "zoe@app").token(t)
	for _, other := range []string{"bob@app", "zoe@other"} {
		s.post(t, request(token), other).refused(t)
		log.wantReason(t, binding.WrongPrincipal)
	}
	s.post(t, request(token)).refused(t) // nobody
	log.wantReason(t, binding.PrincipalDrift)
	s.post(t, request(token), "zoe@app").result(t)

	open := s.post(t, envelope(binding.MethodCallTool, quoted(tool), "")).token(t)
	s.post(t, request(open), "zoe@app").refused(t)
	log.wantReason(t, binding.PrincipalDrift)
	s.post(t, request(open)).result(t)
}

// In a stateful session every request has its own bearer token.
func TestPrincipalIsThatOfTheRequestAndNotOfTheSession(t *testing.T) {
	log := &logbook{}
	d := newDesk(func(_ context.Context, c call) (answer, error) {
		return answer{text: "so far", state: c.state + "+"}, nil
	}, gosdk.Ephemeral(log.options()))
	s := d.serve(t, false)
	token := s.post(t, legacy(binding.MethodCallTool, `"name":"book"`), "zoe@app").token(t)
	s.post(t, legacy(binding.MethodCallTool, `"name":"book","requestState":`+quoted(token)), "bob@app").refused(t)
	log.wantReason(t, binding.WrongPrincipal)
	s.post(t, legacy(binding.MethodCallTool, `"name":"book","requestState":`+quoted(token)), "zoe@app").result(t)
}

func TestRequestWithoutATokenIsFromNobodyWhoeverOpenedTheSession(t *testing.T) {
	d := sealedDesk(t, func(context.Context, call) (answer, error) {
		return answer{text: "so far", state: secretState}, nil
	}, binding.Options{})
	s := d.serve(t, false)
	s.open(t, "zoe@app")
	request := legacy(binding.MethodCallTool, `"name":"book"`)
	if claims := claimsOf(t, s.post(t, request).token(t)); claims["p"] != nil {
		t.Error("the token is bound to who opened the session")
	}
	if claims := claimsOf(t, s.post(t, request, "zoe@app").token(t)); claims["p"] == nil {
		t.Error("the token is bound to nobody")
	}
}

// The transport of older versions gives no Extra; there it is who opened the stream.
func TestPrincipalOverSSEIsThatOfTheStream(t *testing.T) {
	log := &logbook{}
	d := newDesk(func(_ context.Context, c call) (answer, error) {
		return answer{text: "so far", state: c.state + "+"}, nil
	}, gosdk.Ephemeral(log.options()))
	server := httptest.NewServer(optionalBearer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return d.Server }, nil)))
	t.Cleanup(server.Close) // waits for the streams, which are closed before
	as := func(token string) session {
		client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil)
		cs, err := client.Connect(t.Context(), &mcp.SSEClientTransport{Endpoint: server.URL, HTTPClient: &http.Client{Transport: bearerTransport(token)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cs.Close() })
		return session{cs}
	}
	zoe, bob := as("zoe@app"), as("bob@app")
	c := call{method: binding.MethodCallTool}
	c.state = zoe.mint(t, c)
	bob.mustRefuse(t, c)
	log.wantReason(t, binding.WrongPrincipal)
	zoe.mustAccept(t, c)
}

type bearerTransport string

func (b bearerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(req)
}

// The SDK refuses such a state before any middleware runs, by its decoder or, in the
// newest protocol version over HTTP, where it compares params and headers.
func TestStateThatIsNotAStringIsRefusedByTheSDK(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	stateless, stateful := d.serve(t, true), d.serve(t, false)
	for _, state := range []string{"7", "true", "{}", `["x"]`} {
		for want, r := range map[string]reply{
			`{"code":-32020`: stateless.post(t, envelope(binding.MethodCallTool, quoted(tool), `"requestState":`+state)),
			`{"code":-32602`: stateful.post(t, legacy(binding.MethodCallTool, `"name":"book","requestState":`+state)),
		} {
			if got := r.member(t, "error"); !strings.HasPrefix(got, want) {
				t.Errorf("%s: the error is %s, want %s", state, got, want)
			}
		}
	}
	if seen := d.seen(); seen != nil || d.log.text() != "" {
		t.Errorf("the handler saw %q, the log %q", seen, d.log.text())
	}
	stateless.post(t, envelope(binding.MethodCallTool, quoted(tool), "")).token(t)
}

// The SDK cannot tell an empty state from none, in either direction.
func TestNullAndEmptyStatesAreAbsent(t *testing.T) {
	for name, d := range map[string]*desk{"with": sealedDesk(t, tellState, binding.Options{}), "without": newDesk(tellState)} {
		s := d.serve(t, true)
		for _, members := range []string{``, `"requestState":null`, `"requestState":""`} {
			got := s.post(t, envelope(binding.MethodCallTool, quoted(tool), members)).result(t)
			if !strings.Contains(got, `"[]"`) || strings.Contains(got, "requestState") {
				t.Errorf("%s the middleware, %s: the answer is %s", name, members, got)
			}
		}
	}
}

func TestLoneSurrogatesInArgumentsAreTold(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	s := d.serve(t, true)
	arguments := func(text, token string) string {
		return envelope(binding.MethodCallTool, quoted(tool), `"arguments":{"x":"`+text+`"},"requestState":`+quoted(token))
	}
	token := s.post(t, arguments(`\ud800`, "")).token(t)
	for _, other := range []string{`\ud801`, `\ufffd`, ``} {
		s.post(t, arguments(other, token)).refused(t)
		d.log.wantReason(t, binding.WrongRequest)
	}
	s.post(t, arguments(`\uD800`, token)).result(t)
}

// In the arguments of a prompt, which come decoded, the SDK has made them alike.
func TestLoneSurrogatesInPromptArgumentsAreAlike(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	s := d.serve(t, true)
	arguments := func(text, token string) string {
		return envelope(binding.MethodGetPrompt, quoted(prompt), `"arguments":{"x":"`+text+`"},"requestState":`+quoted(token))
	}
	token := s.post(t, arguments(`\ud800`, "")).token(t)
	s.post(t, arguments(`\ud801`, token)).result(t)
	s.post(t, arguments(`x`, token)).refused(t)
}

func TestLoneSurrogatesInTheStateComeBack(t *testing.T) {
	const state = "a\xed\xa0\x80b\xed\xbf\xbf\u00e9\U0001f511"
	var got string
	d := sealedDesk(t, func(_ context.Context, c call) (answer, error) {
		if c.state == "" {
			return answer{state: state, needsInput: true}, nil
		}
		got = c.state
		return answer{text: "done"}, nil
	}, binding.Options{})
	client := d.connect(t)
	c := call{method: binding.MethodCallTool}
	c.state = client.mint(t, c)
	client.mustAccept(t, c)
	if got != state {
		t.Errorf("the state came back as %q", got)
	}
}

// The digest is over the very bytes that the client sent.
func TestArgumentsThatDecodeAlikeMayDiffer(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	s := d.serve(t, true)
	arguments := func(args, token string) string {
		return envelope(binding.MethodCallTool, quoted(tool), `"arguments":`+args+`,"requestState":`+quoted(token))
	}
	token := s.post(t, arguments(`{"n":1,"m":[1,2]}`, "")).token(t)
	for args, accepted := range map[string]bool{
		`{ "m" : [ 1 , 2 ], "n" : 1 }`:  true,
		`{"n":7,"n":1,"m":[1,2]}`:       false, // to encoding/json both may count
		`{"\u006e":1,"m":[1,2]}`:        true,
		`{"n":1.0,"m":[1,2]}`:           false,
		`{"n":1,"m":[2,1]}`:             false,
		`{"n":1,"n":7,"m":[1,2]}`:       false,
		`{"N":1,"m":[1,2]}`:             false,
		`{"N":7,"n":1,"m":[1,2]}`:       false, // encoding/json does not tell them apart
		`{"n":1,"m":[{"x":1},{"x":1}]}`: false,
	} {
		if r := s.post(t, arguments(args, token)); accepted {
			r.result(t)
		} else {
			r.refused(t)
		}
	}
}

func TestConcurrentRoundsDoNotMix(t *testing.T) {
	echo := func(_ context.Context, c call) (answer, error) {
		if c.state == "" {
			return answer{state: "state of " + c.args, needsInput: true}, nil
		}
		return answer{text: c.state}, nil
	}
	d := sealedDesk(t, echo, binding.Options{Audience: "billing"})
	s := d.serve(t, true)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			user, args := fmt.Sprintf("user%d@app", i), fmt.Sprintf(`{"n":%d}`, i)
			request := func(state string) string {
				return envelope(binding.MethodCallTool, quoted(tool), `"arguments":`+args+`,"requestState":`+quoted(state))
			}
			for range 5 {
				token := s.post(t, request(""), user).token(t)
				if got := s.post(t, request(token), user).result(t); !strings.Contains(got, quoted("state of " + args)[1:]) {
					t.Errorf("%s got %s", user, got)
				}
				s.post(t, request(token), "x"+user).refused(t)
			}
		})
	}
	wg.Wait()
}
