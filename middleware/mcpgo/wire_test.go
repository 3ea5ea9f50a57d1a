package mcpgo_test

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
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/middleware/mcpgo"
)

// A site is a desk behind an HTTP server on loopback.
type site struct {
	url     string
	session string // "" until one is opened
}

// serve serves the desk over Streamable HTTP.
func (d *desk) serve(t *testing.T, options ...server.StreamableHTTPOption) *site {
	t.Helper()
	return serve(t, findUser(mcpgo.Handler(server.NewStreamableHTTPServer(d.MCPServer, options...))))
}

func serve(t *testing.T, h http.Handler) *site {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &site{url: s.URL}
}

// An httpReply is a reply and how it came.
type httpReply struct {
	reply
	status   int
	streamed bool
}

// post sends a message, as a user if one is given.
func (s *site) post(t *testing.T, message string, user ...string) httpReply {
	t.Helper()
	return s.do(t, s.request(t, message, user...))
}

func (s *site) request(t *testing.T, message string, user ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	var m struct {
		Method string
		Params struct{ Name, URI string }
	}
	_ = json.Unmarshal([]byte(message), &m) // what is no request needs no headers
	if strings.Contains(message, modern) {
		req.Header.Set("Mcp-Protocol-Version", modern)
		req.Header.Set("Mcp-Method", m.Method)
		req.Header.Set("Mcp-Name", m.Params.Name+m.Params.URI)
	} else if s.session != "" {
		req.Header.Set("Mcp-Session-Id", s.session)
	}
	for _, u := range user {
		req.Header.Set("Authorization", u)
	}
	return req
}

func (s *site) do(t *testing.T, req *http.Request) httpReply {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if id := res.Header.Get("Mcp-Session-Id"); id != "" {
		s.session = id
	}
	r := httpReply{status: res.StatusCode, streamed: res.Header.Get("Content-Type") == "text/event-stream"}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	r.body = string(body)
	if r.streamed {
		for line := range strings.Lines(string(body)) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				r.body = strings.TrimSuffix(data, "\n")
			}
		}
	}
	return r
}

// open opens a session, as clients of older versions do.
func (s *site) open(t *testing.T, user ...string) {
	t.Helper()
	s.session = ""
	s.post(t, request("initialize", `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"client","version":"1"}`), user...)
	if s.session == "" {
		t.Fatal("no session")
	}
	s.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, user...)
}

func (r httpReply) wantStatus(t *testing.T, want int) httpReply {
	t.Helper()
	if r.status != want {
		t.Errorf("the status is %d, want %d: %s", r.status, want, r.body)
	}
	return r
}

func TestRoundsOverStatelessHTTP(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	s := d.serve(t, server.WithStateLess(true))
	for _, method := range methods {
		c := call{method: method, args: `{"n":"1"}`}
		c.state = s.post(t, c.message(modern)).wantStatus(t, 200).token(t)
		if a := s.post(t, c.message(modern)).wantStatus(t, 200).answer(t); a.text != "done" || a.state != "" {
			t.Errorf("%s: the second round is %+v", method, a)
		}
	}
	for _, method := range allMethods {
		d.seen()
		s.post(t, call{method: method, state: "fabricated"}.message(modern)).wantStatus(t, 400).refused(t)
		d.wantUnseen(t)
	}
}

// Clients of older versions get the same error with the status of every answer.
func TestRoundsInASession(t *testing.T) {
	d := sealedDesk(t, func(_ context.Context, c call) (answer, error) {
		return answer{text: "so far " + c.state, state: secretState}, nil
	}, binding.Options{})
	s := d.serve(t)
	s.open(t)
	for _, method := range methods {
		c := call{method: method}
		c.state = s.post(t, c.message(legacy)).wantStatus(t, 200).token(t)
		if a := s.post(t, c.message(legacy)).answer(t); a.text != "so far "+secretState {
			t.Errorf("%s: the second round is %+v", method, a)
		}
		c.state = "fabricated"
		s.post(t, c.message(legacy)).wantStatus(t, 200).refused(t)
	}
}

// Without a wrapper the refusal is one all the same: an error that tells nothing, and
// no handler runs.
func TestMiddlewareAloneRefuses(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	s := serve(t, server.NewStreamableHTTPServer(d.MCPServer, server.WithStateLess(true)))
	for _, method := range allMethods {
		r := s.post(t, call{method: method, state: "fabricated"}.message(modern)).wantStatus(t, 200)
		r.wantError(t, `{"code":-32603,"message":"Invalid or expired requestState"}`)
		d.log.wantReason(t, codec.Malformed)
		d.wantUnseen(t)
	}
}

// Tampered, expired and rebound are one error to the client and as many reasons to the
// operator, and no record says what must stay unsaid.
func TestRefusalsAreByteIdenticalAndTheLogKeepsSecrets(t *testing.T) {
	now, log := newClock(), &logbook{}
	o := log.options()
	o.Principal = func(ctx context.Context) (binding.Principal, error) {
		user, _ := ctx.Value(userKey{}).(string)
		return binding.Bound(user), nil
	}
	d := newDesk(askFirst, mcpgo.Middleware(newPolicy(t, newRing(t), binding.Options{Audience: "billing", Now: now.Now}), o))
	s := d.serve(t, server.WithStateLess(true))
	post := func(target, token, user string) httpReply {
		return s.post(t, call{method: binding.MethodCallTool, target: target, state: token}.message(modern), user)
	}
	token := post(tool, "", "zoe").token(t)
	d.seen()
	replies := []httpReply{
		post(tool, swapped(token), "zoe"),
		post("cancel", token, "zoe"),
		post(tool, token, "bob"),
		post(tool, "fabricated", "zoe"),
		post(tool, strings.Repeat("v", 300_000), "zoe"),
	}
	now.add(11 * time.Minute)
	replies = append(replies, post(tool, token, "zoe"))
	for _, r := range replies {
		r.refused(t)
		if r != replies[0] {
			t.Errorf("%+v differs from %+v", r, replies[0])
		}
	}
	d.wantUnseen(t)
	text := log.text()
	for _, private := range []string{token, swapped(token), secretState, "amount=", "zoe", "bob", "fabricated", "vvvv"} {
		if strings.Contains(text, private) {
			t.Errorf("the log says %q: %s", private, text)
		}
	}
	want := []codec.Reason{codec.BadSeal, binding.WrongRequest, binding.WrongPrincipal, codec.Malformed, binding.TooLarge, binding.Expired}
	records := log.records(t)
	if len(records) != len(want) {
		t.Fatalf("%d records, want %d", len(records), len(want))
	}
	for i, reason := range want {
		if records[i]["reason"] != string(reason) {
			t.Errorf("record %v, want %s", records[i], reason)
		}
	}
}

// notifying is a middleware outside of ours that makes the SDK answer with a stream.
func notifying(next server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if err := server.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/message", map[string]any{
			"level": "info", "data": binding.RefusedMessage,
		}); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

func TestRefusalInAStream(t *testing.T) {
	for name, options := range map[string][]server.StreamableHTTPOption{
		"plain":     nil,
		"resumable": {server.WithEventStore(server.NewInMemoryEventStore())},
	} {
		d := newDesk(askFirst, server.WithToolHandlerMiddleware(notifying), mcpgo.Ephemeral(nil))
		s := d.serve(t, options...)
		s.open(t)
		r := s.post(t, call{method: binding.MethodCallTool, state: "fabricated"}.message(legacy)).wantStatus(t, 200)
		r.refused(t)
		if !r.streamed { // whether the notification comes along is a race inside the SDK
			t.Errorf("%s: the answer is not a stream", name)
		}
		d.wantUnseen(t)
	}
}

// The transport of the oldest versions answers on a stream of its own.
func TestRefusalOverSSE(t *testing.T) {
	d := userDesk(t, func(_ context.Context, c call) (answer, error) {
		return answer{text: "so far", state: c.state + "+"}, nil
	})
	s := serve(t, findUser(mcpgo.Handler(server.NewSSEServer(d.MCPServer))))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewReader(stream.Body)
	next := func() string {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				return strings.TrimSpace(data)
			}
		}
	}
	s.url += next()
	c := call{method: binding.MethodCallTool}
	s.post(t, c.message(legacy), "zoe").wantStatus(t, 202)
	c.state = reply{next()}.token(t)
	s.post(t, c.message(legacy), "bob").wantStatus(t, 202)
	reply{next()}.refused(t)
	d.log.wantReason(t, binding.WrongPrincipal)
	s.post(t, c.message(legacy), "zoe").wantStatus(t, 202)
	reply{next()}.answer(t)
}

// A pipe is a stdio client's end.
type pipe struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func (p pipe) send(t *testing.T, messages ...string) {
	t.Helper()
	for _, m := range messages {
		if _, err := io.WriteString(p.in, m+"\n"); err != nil {
			t.Fatal(err)
		}
	}
}

func (p pipe) receive(t *testing.T) reply {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return reply{line}
}

func (d *desk) stdio(t *testing.T) pipe {
	t.Helper()
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	done := make(chan error)
	go func() {
		done <- server.NewStdioServer(d.MCPServer).Listen(context.Background(), stdin, mcpgo.Writer(stdout))
	}()
	t.Cleanup(func() {
		_ = in.Close()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return pipe{in, bufio.NewReader(out)}
}

func TestRoundsOverStdio(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	p := d.stdio(t)
	for _, method := range methods {
		c := call{method: method}
		p.send(t, c.message(modern))
		c.state = p.receive(t).token(t)
		p.send(t, c.message(modern))
		if a := p.receive(t).answer(t); a.text != "done" {
			t.Errorf("%s: the second round is %+v", method, a)
		}
	}
	for _, method := range allMethods {
		for _, version := range []string{modern, legacy} {
			d.seen()
			p.send(t, call{method: method, state: "fabricated"}.message(version))
			p.receive(t).refused(t)
			d.wantUnseen(t)
		}
	}
}

// A legacy client over stdio is asked by the server, on the same wire.
func TestLegacyRoundsOverStdio(t *testing.T) {
	d := sealedDesk(t, func(_ context.Context, c call) (answer, error) {
		if len(c.state) < 2 {
			return answer{state: c.state + "+", needsInput: true}, nil
		}
		return answer{text: c.state}, nil
	}, binding.Options{})
	p := d.stdio(t)
	p.send(t, request("initialize", `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"client","version":"1"}`))
	p.receive(t).member(t, "result")
	p.send(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, call{method: binding.MethodCallTool}.message(legacy))
	for range 2 {
		id := p.receive(t).member(t, "id")
		p.send(t, `{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"decline"}}`)
	}
	if a := p.receive(t).answer(t); a.text != "++" {
		t.Errorf("the answer is %+v", a)
	}
}

// The SDK refuses such a state before any middleware runs.
func TestStateThatIsNotAStringIsRefusedByTheSDK(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	for _, state := range []string{"7", "true", "{}", `["x"]`} {
		message := strings.Replace(call{method: binding.MethodCallTool, state: "?"}.message(modern), `"?"`, state, 1)
		text, err := json.Marshal(d.HandleMessage(t.Context(), json.RawMessage(message)))
		if err != nil {
			t.Fatal(err)
		}
		if got := (reply{string(text)}).member(t, "error"); !strings.HasPrefix(got, `{"code":-32600,`) {
			t.Errorf("%s: the error is %s", state, got)
		}
	}
	d.wantUnseen(t)
}

// The SDK cannot tell an empty state from none, in either direction.
func TestNullAndEmptyStatesAreAbsent(t *testing.T) {
	for name, d := range map[string]*desk{"with": sealedDesk(t, tellState, binding.Options{}), "without": newDesk(tellState)} {
		s := d.serve(t, server.WithStateLess(true))
		for _, state := range []string{"null", `""`} {
			r := s.post(t, strings.Replace(call{method: binding.MethodCallTool, state: "?"}.message(modern), `"?"`, state, 1))
			if a := r.answer(t); a.text != "[]" || strings.Contains(r.body, "requestState") {
				t.Errorf("%s the middleware, %s: the answer is %s", name, state, r.body)
			}
		}
	}
}

// There are no batches in this SDK: the whole of one is refused, and no handler runs.
func TestBatchIsRefusedByTheSDK(t *testing.T) {
	d := sealedDesk(t, tellState, binding.Options{})
	batch := "[" + call{method: binding.MethodCallTool, state: "fabricated"}.message(legacy) + "]"
	s := d.serve(t, server.WithStateLess(true))
	if got := s.post(t, batch).wantStatus(t, 400).member(t, "error"); !strings.HasPrefix(got, `{"code":-32700,`) {
		t.Errorf("the error is %s", got)
	}
	d.wantUnseen(t)
}

// A task gives its result without a state, so none goes out; one that comes in is
// checked as in every call.
func TestStateInATask(t *testing.T) {
	d := newDesk(askFirst, mcpgo.Ephemeral(nil), server.WithTaskCapabilities(true, true, true))
	states := make(chan string, 2)
	d.AddTool(mcp.NewTool("slow", mcp.WithTaskSupport(mcp.TaskSupportOptional)), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		states <- req.Params.RequestState
		return answer{state: secretState}.ask().ToolResult(), nil
	})
	result := func(state string) reply {
		message := strings.Replace(call{method: binding.MethodCallTool, target: "slow", state: state}.message(legacy), `"name"`, `"task":{},"name"`, 1)
		text, err := json.Marshal(d.HandleMessage(t.Context(), json.RawMessage(message)))
		if err != nil {
			t.Fatal(err)
		}
		var created struct {
			Result struct{ Task struct{ TaskID string } }
		}
		if err := json.Unmarshal(text, &created); err != nil || created.Result.Task.TaskID == "" {
			t.Fatalf("no task: %s", text)
		}
		answer := d.HandleMessage(t.Context(), json.RawMessage(request("tasks/result", `"taskId":`+quoted(created.Result.Task.TaskID))))
		if text, err = json.Marshal(mcpgo.Response(answer)); err != nil {
			t.Fatal(err)
		}
		return reply{string(text)}
	}
	if r := result(""); strings.Contains(r.body, "requestState") || strings.Contains(r.body, secretState) {
		t.Errorf("the result of the task is %s", r.body)
	}
	if got := <-states; got != "" {
		t.Errorf("the handler saw %q", got)
	}
	result("fabricated").refused(t)
	if len(states) != 0 {
		t.Errorf("the handler saw %q", <-states)
	}
}

func TestConcurrentRoundsDoNotMix(t *testing.T) {
	d := userDesk(t, func(_ context.Context, c call) (answer, error) {
		if c.state == "" {
			return answer{state: "state of " + c.args, needsInput: true}, nil
		}
		return answer{text: c.state}, nil
	})
	s := d.serve(t, server.WithStateLess(true))
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			user, c := fmt.Sprintf("user%d", i), call{method: binding.MethodCallTool, args: fmt.Sprintf(`{"n":%d}`, i)}
			for range 5 {
				c.state = ""
				c.state = s.post(t, c.message(modern), user).token(t)
				if a := s.post(t, c.message(modern), user).answer(t); a.text != "state of "+c.args {
					t.Errorf("%s got %s", user, a.text)
				}
				s.post(t, c.message(modern), "x"+user).refused(t)
			}
		})
	}
	wg.Wait()
}

// What is no refused state passes to the byte, with its status and its headers.
func TestHandlerLeavesTheRestAlone(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"nothing":         func(http.ResponseWriter, *http.Request) {},
		"a status":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
		"an explicit 200": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) },
		"no status":       func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text") },
		"two writes": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "a")
			_, _ = io.WriteString(w, "b")
		},
		"two statuses": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "too late")
		},
		"the words alone":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, binding.RefusedMessage) },
		"broken braces":     func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "}"+binding.RefusedMessage+"{") },
		"another code":      answering(`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Invalid or expired requestState"}}`),
		"a result":          answering(`{"jsonrpc":"2.0","id":1,"result":{"error":{"code":-32603,"message":"Invalid or expired requestState"}}}`),
		"a result of words": answering(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"Invalid or expired requestState"}]}}`),
	} {
		want, got := httptest.NewRecorder(), httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodPost, "/", nil)
		req.Header.Set("Mcp-Protocol-Version", modern)
		h(want, req)
		mcpgo.Handler(h).ServeHTTP(got, req)
		if got.Code != want.Code || got.Body.String() != want.Body.String() || fmt.Sprint(got.Result().Header) != fmt.Sprint(want.Result().Header) {
			t.Errorf("%s: %d %s, want %d %s", name, got.Code, got.Body, want.Code, want.Body)
		}
	}
}

const spoiltMessage = `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Invalid or expired requestState"}}`

func answering(message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, message+"\n")
	}
}

// A middleware between the SDK and the handler may have counted the bytes.
func TestHandlerCorrectsTheLength(t *testing.T) {
	s := serve(t, mcpgo.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(spoiltMessage)+1))
		answering(spoiltMessage)(w, r)
	})))
	s.post(t, call{method: binding.MethodCallTool}.message(modern)).wantStatus(t, http.StatusBadRequest).refused(t)
}

// A server whose answers cannot be streamed still puts the error right, and the SDK is
// not told that it can stream.
func TestHandlerShowsAFlusherOnlyIfThereIsOne(t *testing.T) {
	type plain struct{ http.ResponseWriter } // hides the rest
	for _, flushes := range []bool{true, false} {
		recorder := httptest.NewRecorder()
		var w http.ResponseWriter = recorder
		if !flushes {
			w = plain{recorder}
		}
		mcpgo.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, ok := w.(http.Flusher); ok != flushes {
				t.Errorf("a Flusher: %v, want %v", ok, flushes)
			}
			if err := http.NewResponseController(w).Flush(); flushes && err != nil {
				t.Errorf("flushing: %v", err)
			}
			answering(spoiltMessage)(w, r)
		})).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		reply{recorder.Body.String()}.refused(t)
	}
}

func TestWriterPassesErrorsOn(t *testing.T) {
	full := errors.New("disk full")
	for _, text := range []string{"x", spoiltMessage} {
		n, err := mcpgo.Writer(failing{full}).Write([]byte(text))
		if n != 1 || !errors.Is(err, full) {
			t.Errorf("%d, %v", n, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 1, f.err }

func TestResponseLeavesTheRestAlone(t *testing.T) {
	if got := mcpgo.Response(nil); got != nil {
		t.Errorf("nil became %v", got)
	}
	for _, e := range []mcp.JSONRPCErrorDetails{
		{Code: -32603, Message: "sold out"},
		{Code: -32000, Message: binding.RefusedMessage},
		{Code: -32603, Message: binding.RefusedMessage, Data: "more"},
	} {
		m := mcp.JSONRPCError{JSONRPC: "2.0", Error: e}
		if got := mcpgo.Response(m).(mcp.JSONRPCError); got.Error != e {
			t.Errorf("%v became %v", e, got.Error)
		}
	}
}

// Whatever passes, only a refusal changes, and only in its error.
func FuzzWriter(f *testing.F) {
	for _, seed := range []string{
		spoiltMessage + "\n",
		"event: message\ndata: " + spoiltMessage + "\n\n",
		strings.Replace(spoiltMessage, `"id":1`, `"id":"<a{b}\u2028"`, 1),
		`{"id":1,"result":{"error":{"code":-32603,"message":"Invalid or expired requestState"}}}`,
		`{"id":1,"id":2,"error":{"code":-32603,"message":"Invalid or expired requestState"},"error":null}`,
		"Invalid or expired requestState", "{}", "}{",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var out bytes.Buffer
		before := bytes.Clone(p)
		if n, err := mcpgo.Writer(&out).Write(p); n != len(p) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		if !bytes.Equal(p, before) {
			t.Fatal("what was written was changed in place")
		}
		if bytes.Equal(out.Bytes(), p) {
			return
		}
		begin, end := bytes.IndexByte(p, '{'), bytes.LastIndexByte(p, '}')+1
		var was, is struct {
			ID    any
			Error json.RawMessage
		}
		if err := json.Unmarshal(p[begin:end], &was); err != nil {
			t.Fatalf("%q became %q", p, out.Bytes())
		}
		changed := out.Bytes()[begin : out.Len()-(len(p)-end)]
		if err := json.Unmarshal(changed, &is); err != nil || string(is.Error) != frozen || fmt.Sprint(is.ID) != fmt.Sprint(was.ID) ||
			!bytes.HasPrefix(out.Bytes(), p[:begin]) || !bytes.HasSuffix(out.Bytes(), p[end:]) {
			t.Fatalf("%q became %q", p, out.Bytes())
		}
	})
}
