package mcpgo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/middleware/mcpgo"
)

// The methods, with a target for each.
const (
	tool     = "book"
	prompt   = "greet"
	resource = "notes://7"

	secretState = "amount=4200;account=DE02" // what handlers keep; no client and no log may see it
)

// methods are those whose handlers make a state.
var methods = []string{binding.MethodCallTool, binding.MethodGetPrompt}

var allMethods = append([]string{binding.MethodReadResource}, methods...)

// A call is a request for one of the methods.
type call struct {
	method string
	target string // "" for the one above
	args   string // a JSON object; "" for none
	state  string
}

// An answer is a result of one of the methods.
type answer struct {
	state      string
	text       string
	needsInput bool
}

// A handler is the same for all methods.
type handler func(ctx context.Context, call call) (answer, error)

// A desk is a real server with tools, prompts and a resource template that share a
// handler, and what the handler was called with.
type desk struct {
	*server.MCPServer
	handler handler
	log     *logbook

	mu    sync.Mutex
	calls []call
}

// askFirst asks for input in the first round and is done in the second.
func askFirst(_ context.Context, c call) (answer, error) {
	if c.state == "" {
		return answer{state: secretState, needsInput: true}, nil
	}
	return answer{text: "done"}, nil
}

// tellState answers with the state that it gets.
func tellState(_ context.Context, c call) (answer, error) {
	return answer{text: "[" + c.state + "]"}, nil
}

func newDesk(h handler, options ...server.ServerOption) *desk {
	d := &desk{handler: h, log: &logbook{}}
	d.MCPServer = server.NewMCPServer("desk", "1", append(options, server.WithElicitation(), server.WithResourceCapabilities(false, false))...)
	for _, name := range []string{tool, "cancel"} {
		d.AddTool(mcp.Tool{Name: name, InputSchema: mcp.ToolInputSchema{Type: "object"}}, d.callTool)
	}
	for _, name := range []string{prompt, "farewell"} {
		d.AddPrompt(mcp.Prompt{Name: name}, d.getPrompt)
	}
	d.AddResourceTemplate(mcp.NewResourceTemplate("notes://{id}", "notes"), d.readResource)
	return d
}

func (d *desk) handle(ctx context.Context, c call) (answer, error) {
	d.mu.Lock()
	d.calls = append(d.calls, c)
	d.mu.Unlock()
	return d.handler(ctx, c)
}

// seen returns the states with which the handler was called, and forgets them.
func (d *desk) seen() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var states []string
	for _, c := range d.calls {
		states = append(states, c.state)
	}
	d.calls = nil
	return states
}

func (d *desk) wantUnseen(t *testing.T) {
	t.Helper()
	if seen := d.seen(); seen != nil {
		t.Errorf("the handler saw %q", seen)
	}
}

func (d *desk) callTool(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	a, err := d.handle(ctx, call{binding.MethodCallTool, req.Params.Name, string(req.Params.RawArguments), req.Params.RequestState})
	if err != nil {
		return nil, err
	}
	if a.needsInput {
		return a.ask().ToolResult(), nil
	}
	res := mcp.NewToolResultText(a.text)
	res.RequestState = a.state
	return res, nil
}

func (d *desk) getPrompt(ctx context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	args, err := json.Marshal(req.Params.Arguments)
	if err != nil {
		return nil, err
	}
	a, err := d.handle(ctx, call{binding.MethodGetPrompt, req.Params.Name, string(args), req.Params.RequestState})
	if err != nil {
		return nil, err
	}
	if a.needsInput {
		return a.ask().PromptResult(), nil
	}
	res := mcp.NewGetPromptResult("", []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(a.text))})
	res.RequestState = a.state
	return res, nil
}

func (d *desk) readResource(ctx context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	a, err := d.handle(ctx, call{binding.MethodReadResource, req.Params.URI, "", req.Params.RequestState})
	if err != nil {
		return nil, err
	}
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: req.Params.URI, Text: a.text}}, nil
}

func (a answer) ask() *server.InputRequestBuilder {
	return server.NewInputRequestBuilder(a.state).Elicit("name", mcp.ElicitationParams{
		Message:         "Which name?",
		RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}},
	})
}

// message returns a call as JSON-RPC of a protocol version.
func (c call) message(version string) string {
	members := []string{}
	if version >= "2026" {
		members = append(members, fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`, version))
	}
	switch c.method {
	case binding.MethodCallTool:
		members = append(members, `"name":`+quoted(or(c.target, tool)))
	case binding.MethodGetPrompt:
		members = append(members, `"name":`+quoted(or(c.target, prompt)))
	default:
		members = append(members, `"uri":`+quoted(or(c.target, resource)))
	}
	if c.args != "" {
		members = append(members, `"arguments":`+c.args)
	}
	if c.state != "" {
		members = append(members, `"requestState":`+quoted(c.state))
	}
	return request(c.method, strings.Join(members, ","))
}

func request(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params)
}

const modern, legacy = "2026-07-28", "2025-11-25"

// A reply is a response off the wire.
type reply struct{ body string }

// try sends a call straight to the server, as a transport does, with its errors put
// right.
func (d *desk) try(t *testing.T, c call) reply {
	t.Helper()
	return d.tryAs(t.Context(), t, c, modern)
}

func (d *desk) tryAs(ctx context.Context, t *testing.T, c call, version string) reply {
	t.Helper()
	text, err := json.Marshal(mcpgo.Response(d.HandleMessage(ctx, json.RawMessage(c.message(version)))))
	if err != nil {
		t.Fatal(err)
	}
	return reply{string(text)}
}

// mint returns the token of a first round.
func (d *desk) mint(t *testing.T, c call) string {
	t.Helper()
	return d.try(t, c).token(t)
}

func (d *desk) mustAccept(t *testing.T, c call) answer {
	t.Helper()
	return d.try(t, c).answer(t)
}

func (d *desk) mustRefuse(t *testing.T, c call) {
	t.Helper()
	d.try(t, c).refused(t)
}

func (r reply) member(t *testing.T, name string) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.body), &members); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
	if members[name] == nil {
		t.Fatalf("%s: no %s", r.body, name)
	}
	return string(members[name])
}

func (r reply) answer(t *testing.T) answer {
	t.Helper()
	var result struct {
		ResultType   string `json:"resultType"`
		RequestState string `json:"requestState"`
		Content      []struct{ Text string }
		Messages     []struct{ Content struct{ Text string } }
		Contents     []struct{ Text string }
	}
	if err := json.Unmarshal([]byte(r.member(t, "result")), &result); err != nil {
		t.Fatal(err)
	}
	a := answer{state: result.RequestState, needsInput: result.ResultType == "input_required"}
	for _, c := range result.Content {
		a.text = c.Text
	}
	for _, m := range result.Messages {
		a.text = m.Content.Text
	}
	for _, c := range result.Contents {
		a.text = c.Text
	}
	return a
}

// token returns the requestState of a result.
func (r reply) token(t *testing.T) string {
	t.Helper()
	a := r.answer(t)
	if !strings.HasPrefix(a.state, "v1.") {
		t.Fatalf("no token in %s", r.body)
	}
	return a.state
}

// frozen is the error of every refused state, in every SDK.
const frozen = `{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}`

func (r reply) refused(t *testing.T) { t.Helper(); r.wantError(t, frozen) }

func (r reply) internal(t *testing.T) {
	t.Helper()
	r.wantError(t, `{"code":-32603,"message":"Internal error"}`)
}

func (r reply) wantError(t *testing.T, want string) {
	t.Helper()
	if got := r.member(t, "error"); got != want {
		t.Fatalf("the error is %s, want %s", got, want)
	}
}

// A logbook keeps the records of a server's log.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

func (l *logbook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// records returns the records since the last call, each with its level, message and
// attributes.
func (l *logbook) records(t *testing.T) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var records []map[string]any
	for line := range bytes.Lines(l.buf.Bytes()) {
		var r map[string]any
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	l.buf.Reset()
	return records
}

// wantReason checks that one refusal was logged, for this reason.
func (l *logbook) wantReason(t *testing.T, reason codec.Reason) map[string]any {
	t.Helper()
	records := l.records(t)
	if len(records) != 1 || records[0]["level"] != "WARN" || records[0]["msg"] != "requestState refused" || records[0]["reason"] != string(reason) {
		t.Fatalf("log is %v, want one refusal for %s", records, reason)
	}
	return records[0]
}

// wantInternal checks that one fault was logged, and returns its text.
func (l *logbook) wantInternal(t *testing.T) string {
	t.Helper()
	records := l.records(t)
	if len(records) != 1 || records[0]["level"] != "ERROR" || records[0]["msg"] != "requestState internal error" {
		t.Fatalf("log is %v, want one internal error", records)
	}
	text, _ := records[0]["error"].(string)
	for _, named := range regexp.MustCompile(`Options\.(\w+)`).FindAllStringSubmatch(text, -1) {
		if _, ok := reflect.TypeFor[mcpgo.Options]().FieldByName(named[1]); !ok {
			t.Errorf("%q names %s, which there is not", text, named[0])
		}
	}
	return text
}

// options returns options that write to the log.
func (l *logbook) options() *mcpgo.Options { return &mcpgo.Options{Logger: l.logger()} }

// secret is a key that several servers of a test share.
var secret = []byte("0123456789abcdef0123456789abcdef")

func newRing(t *testing.T) *local.Ring {
	t.Helper()
	ring, err := local.New(secret)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func newPolicy(t *testing.T, c codec.Codec, o binding.Options) *binding.Policy {
	t.Helper()
	if o.Audience == "" {
		o.NoAudience = true
	}
	p, err := binding.New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sealedDesk is a desk behind the middleware, under the shared secret.
func sealedDesk(t *testing.T, h handler, o binding.Options) *desk {
	t.Helper()
	log := &logbook{}
	d := newDesk(h, mcpgo.Middleware(newPolicy(t, newRing(t), o), log.options()))
	d.log = log
	return d
}

// A clock is one that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 12, 2, 3, 4, 5, 678_000_000, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// claimsOf opens a token under the shared secret.
func claimsOf(t *testing.T, token string) map[string]any {
	t.Helper()
	payload, err := newRing(t).Unseal(token)
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

func quoted(s string) string { text, _ := json.Marshal(s); return string(text) }

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// swapped returns a token with another letter of the alphabet in its middle.
func swapped(token string) string {
	at, letter := len(token)/2, "A"
	if token[at] == 'A' {
		letter = "B"
	}
	return token[:at] + letter + token[at+1:]
}
