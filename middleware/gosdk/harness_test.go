package gosdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/middleware/gosdk"
)

// The three methods, with a target and arguments for each.
const (
	tool     = "book"
	prompt   = "greet"
	resource = "notes://7"

	secretState = "amount=4200;account=DE02" // what handlers keep; no client and no log may see it
)

var methods = []string{binding.MethodCallTool, binding.MethodGetPrompt, binding.MethodReadResource}

// A call is a request for one of the three methods.
type call struct {
	method string
	target string // "" for the one above
	args   string // JSON object; "" for none; not for resources/read
	state  string
}

// An answer is a result of one of the three methods.
type answer struct {
	state      string
	text       string
	needsInput bool
	cacheScope string
}

// A handler is the same for the three methods.
type handler func(ctx context.Context, call call) (answer, error)

// A desk is a real server with a tool, a prompt and a resource template that share a
// handler, and what the handler was called with.
type desk struct {
	*mcp.Server
	handler handler
	log     *logbook

	mu    sync.Mutex
	calls []call
}

// askFirst asks for input in the first round and tells the state in the second.
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

func newDesk(h handler, middleware ...mcp.Middleware) *desk {
	d := &desk{handler: h, log: &logbook{}}
	d.Server = mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, nil)
	for _, name := range []string{tool, "cancel"} {
		d.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, d.callTool)
	}
	for _, name := range []string{prompt, "farewell"} {
		d.AddPrompt(&mcp.Prompt{Name: name}, d.getPrompt)
	}
	d.AddResourceTemplate(&mcp.ResourceTemplate{Name: "notes", URITemplate: "notes://{id}"}, d.readResource)
	d.AddReceivingMiddleware(middleware...)
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

func (d *desk) callTool(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	a, err := d.handle(ctx, call{binding.MethodCallTool, req.Params.Name, string(req.Params.Arguments), req.Params.RequestState})
	if err != nil {
		return nil, err
	}
	res := &mcp.CallToolResult{RequestState: a.state, InputRequests: a.inputs()}
	if a.text != "" {
		res.Content = []mcp.Content{&mcp.TextContent{Text: a.text}}
	}
	return res, nil
}

func (d *desk) getPrompt(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	args, err := json.Marshal(req.Params.Arguments)
	if err != nil {
		return nil, err
	}
	a, err := d.handle(ctx, call{binding.MethodGetPrompt, req.Params.Name, string(args), req.Params.RequestState})
	if err != nil {
		return nil, err
	}
	res := &mcp.GetPromptResult{RequestState: a.state, InputRequests: a.inputs()}
	if a.text != "" {
		res.Messages = []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: a.text}}}
	}
	return res, nil
}

func (d *desk) readResource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	a, err := d.handle(ctx, call{binding.MethodReadResource, req.Params.URI, "", req.Params.RequestState})
	if err != nil {
		return nil, err
	}
	// For clients of older versions the SDK wants contents even beside input requests.
	res := &mcp.ReadResourceResult{RequestState: a.state, InputRequests: a.inputs(), Contents: []*mcp.ResourceContents{}}
	if a.text != "" {
		res.Contents = []*mcp.ResourceContents{{Text: a.text}}
	}
	return res, nil
}

func (a answer) inputs() mcp.InputRequestMap {
	if !a.needsInput {
		return nil
	}
	return mcp.InputRequestMap{"name": &mcp.ElicitParams{
		Message:         "Which name?",
		RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}},
	}}
}

// A session is a real client's, which leaves the rounds to the test.
type session struct{ *mcp.ClientSession }

// connect connects a client to the server, in memory.
func (d *desk) connect(t *testing.T) session {
	t.Helper()
	return d.connectAs(t, &mcp.ClientOptions{MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}}, "")
}

func (d *desk) connectAs(t *testing.T, o *mcp.ClientOptions, version string) session {
	t.Helper()
	serverSide, clientSide := mcp.NewInMemoryTransports()
	ss, err := d.Connect(t.Context(), serverSide, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, o)
	cs, err := client.Connect(t.Context(), clientSide, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cs.Close()
		_ = ss.Wait()
	})
	return session{cs}
}

func (s session) do(ctx context.Context, c call) (answer, error) {
	switch c.method {
	case binding.MethodCallTool:
		params := &mcp.CallToolParams{Name: or(c.target, tool), RequestState: c.state}
		if c.args != "" {
			params.Arguments = json.RawMessage(c.args)
		}
		res, err := s.CallTool(ctx, params)
		if err != nil {
			return answer{}, err
		}
		a := answer{state: res.RequestState, needsInput: res.NeedsInput()}
		if len(res.Content) > 0 {
			a.text = res.Content[0].(*mcp.TextContent).Text
		}
		return a, nil
	case binding.MethodGetPrompt:
		params := &mcp.GetPromptParams{Name: or(c.target, prompt), RequestState: c.state}
		if c.args != "" {
			if err := json.Unmarshal([]byte(c.args), &params.Arguments); err != nil {
				return answer{}, err
			}
		}
		res, err := s.GetPrompt(ctx, params)
		if err != nil {
			return answer{}, err
		}
		a := answer{state: res.RequestState, needsInput: res.NeedsInput()}
		if len(res.Messages) > 0 {
			a.text = res.Messages[0].Content.(*mcp.TextContent).Text
		}
		return a, nil
	default:
		res, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: or(c.target, resource), RequestState: c.state})
		if err != nil {
			return answer{}, err
		}
		a := answer{state: res.RequestState, needsInput: res.NeedsInput(), cacheScope: res.CacheScope}
		if len(res.Contents) > 0 {
			a.text = res.Contents[0].Text
		}
		return a, nil
	}
}

// mint returns the token of a first round.
func (s session) mint(t *testing.T, c call) string {
	t.Helper()
	a, err := s.do(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(a.state, "v1.") {
		t.Fatalf("the first round of %s gave no token", c.method)
	}
	return a.state
}

func (s session) mustAccept(t *testing.T, c call) answer {
	t.Helper()
	a, err := s.do(t.Context(), c)
	if err != nil {
		t.Fatalf("%s was refused: %v", c.method, err)
	}
	return a
}

func (s session) mustRefuse(t *testing.T, c call) {
	t.Helper()
	_, err := s.do(t.Context(), c)
	wantRefused(t, err)
}

func wantRefused(t *testing.T, err error) {
	t.Helper()
	wantError(t, err, -32602, "Invalid or expired requestState", `{"reason":"invalid_request_state"}`)
}

func wantInternal(t *testing.T, err error) {
	t.Helper()
	wantError(t, err, -32603, "Internal error", "")
}

func wantError(t *testing.T, err error, code int64, message, data string) {
	t.Helper()
	var e *jsonrpc.Error
	if !errors.As(err, &e) {
		t.Fatalf("error is %v, want code %d", err, code)
	}
	if e.Code != code || e.Message != message || string(e.Data) != data {
		t.Fatalf("error is %d %q %s, want %d %q %s", e.Code, e.Message, e.Data, code, message, data)
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
		if _, ok := reflect.TypeFor[gosdk.Options]().FieldByName(named[1]); !ok {
			t.Errorf("%q names %s, which there is not", text, named[0])
		}
	}
	return text
}

// options returns options that write to the log.
func (l *logbook) options() *gosdk.Options { return &gosdk.Options{Logger: l.logger()} }

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

// rotated returns a ring in which the shared secret is the old one.
func rotated(t *testing.T) *local.Ring {
	t.Helper()
	ring, err := local.New([]byte("fedcba9876543210fedcba9876543210"), secret)
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
	d := newDesk(h, gosdk.Middleware(newPolicy(t, newRing(t), o), log.options()))
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

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
