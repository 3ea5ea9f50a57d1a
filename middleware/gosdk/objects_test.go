package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/middleware/gosdk"
)

// through sends one request through the middleware to next, without a server, so that
// a test can look at the very objects.
func through(t *testing.T, log *logbook, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	t.Helper()
	policy := newPolicy(t, newRing(t), binding.Options{})
	return gosdk.Middleware(policy, log.options())(next)(t.Context(), method, req)
}

func answering(res mcp.Result, err error) mcp.MethodHandler {
	return func(context.Context, string, mcp.Request) (mcp.Result, error) { return res, err }
}

// unused fails the test if a request gets through.
func unused(t *testing.T) mcp.MethodHandler {
	return func(context.Context, string, mcp.Request) (mcp.Result, error) {
		t.Error("the request got through")
		return nil, nil
	}
}

// requests returns a request for each of the three methods.
func requests(state string) map[string]mcp.Request {
	extra := &mcp.RequestExtra{Header: http.Header{"X-Test": {"1"}}, TokenInfo: &auth.TokenInfo{UserID: "zoe"}}
	return map[string]mcp.Request{
		binding.MethodCallTool:     &mcp.CallToolRequest{Session: &mcp.ServerSession{}, Extra: extra, Params: &mcp.CallToolParamsRaw{Meta: mcp.Meta{"k": 1}, Name: tool, Arguments: json.RawMessage(`{"n":1}`), RequestState: state}},
		binding.MethodGetPrompt:    &mcp.GetPromptRequest{Session: &mcp.ServerSession{}, Extra: extra, Params: &mcp.GetPromptParams{Meta: mcp.Meta{"k": 1}, Name: prompt, Arguments: map[string]string{"n": "1"}, RequestState: state}},
		binding.MethodReadResource: &mcp.ReadResourceRequest{Session: &mcp.ServerSession{}, Extra: extra, Params: &mcp.ReadResourceParams{Meta: mcp.Meta{"k": 1}, URI: resource, RequestState: state}},
	}
}

// results returns a result for each of the three methods.
func results(state string) map[string]mcp.Result {
	return map[string]mcp.Result{
		binding.MethodCallTool:     &mcp.CallToolResult{Meta: mcp.Meta{"k": 1}, Content: []mcp.Content{&mcp.TextContent{Text: "x"}}, RequestState: state},
		binding.MethodGetPrompt:    &mcp.GetPromptResult{Meta: mcp.Meta{"k": 1}, Description: "x", RequestState: state},
		binding.MethodReadResource: &mcp.ReadResourceResult{Meta: mcp.Meta{"k": 1}, Cacheable: mcp.Cacheable{TTLMs: 7, CacheScope: "public"}, RequestState: state},
	}
}

// field returns a field of what a pointer points to.
func field(v any, name string) reflect.Value { return reflect.ValueOf(v).Elem().FieldByName(name) }

func stateOf(v any) string { return field(v, "RequestState").String() }

func TestRequestAndResultWithoutAStatePassAsTheVeryObjects(t *testing.T) {
	for _, method := range methods {
		req, res := requests("")[method], results("")[method]
		var got mcp.Request
		out, err := through(t, &logbook{}, method, req, func(_ context.Context, _ string, r mcp.Request) (mcp.Result, error) {
			got = r
			return res, nil
		})
		if err != nil || out != res || got != req {
			t.Errorf("%s: request %p became %p, result %p became %p, error %v", method, req, got, res, out, err)
		}
	}
}

func TestInputRequiredWithoutAStatePassesAsTheVeryObject(t *testing.T) {
	res := &mcp.CallToolResult{InputRequests: answer{needsInput: true}.inputs()}
	out, err := through(t, &logbook{}, binding.MethodCallTool, requests("")[binding.MethodCallTool], answering(res, nil))
	if err != nil || out != mcp.Result(res) {
		t.Errorf("the result became %v, error %v", out, err)
	}
}

func TestOtherMethodsAndNotificationsPassAsTheVeryObjects(t *testing.T) {
	for method, req := range map[string]mcp.Request{
		"tools/list":                &mcp.ListToolsRequest{},
		"ping":                      &mcp.ServerRequest[*mcp.PingParams]{},
		"completion/complete":       &mcp.CompleteRequest{Params: &mcp.CompleteParams{}},
		"notifications/initialized": &mcp.InitializedRequest{},
		"notifications/progress":    &mcp.ProgressNotificationServerRequest{Params: &mcp.ProgressNotificationParams{}},
		"acme/tools/call":           requests(secretState)[binding.MethodCallTool], // state and all
		"Tools/Call":                requests(secretState)[binding.MethodCallTool],
	} {
		var res mcp.Result
		if !strings.HasPrefix(method, "notifications/") {
			res = results(secretState)[binding.MethodCallTool]
		}
		var got mcp.Request
		out, err := through(t, &logbook{}, method, req, func(_ context.Context, _ string, r mcp.Request) (mcp.Result, error) {
			got = r
			return res, nil
		})
		if err != nil || out != res || got != req {
			t.Errorf("%s: request %p became %p, result %v became %v, error %v", method, req, got, res, out, err)
		}
	}
}

func TestResultIsSealedOnACopy(t *testing.T) {
	for _, method := range methods {
		res := results(secretState)[method]
		out, err := through(t, &logbook{}, method, requests("")[method], answering(res, nil))
		if err != nil {
			t.Fatal(err)
		}
		if out == res || !strings.HasPrefix(stateOf(out), "v1.") {
			t.Errorf("%s: the result was not sealed on a copy", method)
		}
		if !reflect.DeepEqual(res, results(secretState)[method]) {
			t.Errorf("%s: the result of the handler was changed", method)
		}
		// Everything else is as it was, but for the cache scope.
		want := results(stateOf(out))[method]
		if r, ok := want.(*mcp.ReadResourceResult); ok {
			r.CacheScope = "private"
		}
		if !reflect.DeepEqual(out, want) {
			t.Errorf("%s: the copy is %+v, want %+v", method, out, want)
		}
	}
}

func TestRequestIsUnsealedOnACopy(t *testing.T) {
	for _, method := range methods {
		minted, err := through(t, &logbook{}, method, requests("")[method], answering(results(secretState)[method], nil))
		if err != nil {
			t.Fatal(err)
		}
		token := stateOf(minted)
		req := requests(token)[method]
		session := field(req, "Session").Pointer()
		res := results("")[method]
		out, err := through(t, &logbook{}, method, req, func(_ context.Context, m string, r mcp.Request) (mcp.Result, error) {
			if m != method || reflect.TypeOf(r) != reflect.TypeOf(req) || r == req {
				t.Errorf("%s: the request became a %T for %s", method, r, m)
			}
			if stateOf(r.GetParams()) != secretState {
				t.Errorf("%s: the handler got %q", method, stateOf(r.GetParams()))
			}
			if field(r, "Session").Pointer() != session || r.GetExtra() != req.GetExtra() {
				t.Errorf("%s: session or extra were lost", method)
			}
			reflect.ValueOf(r.GetParams()).Elem().FieldByName("RequestState").SetString(token)
			if !reflect.DeepEqual(r.GetParams(), req.GetParams()) {
				t.Errorf("%s: the params became %+v", method, r.GetParams())
			}
			return res, nil
		})
		if err != nil || out != res {
			t.Errorf("%s: result %v, error %v", method, out, err)
		}
		if stateOf(req.GetParams()) != token {
			t.Errorf("%s: the request of the caller was changed", method)
		}
	}
}

func TestNilResultsPass(t *testing.T) {
	for _, method := range methods {
		for _, res := range []mcp.Result{nil, (*mcp.CallToolResult)(nil), (*mcp.GetPromptResult)(nil), (*mcp.ReadResourceResult)(nil)} {
			out, err := through(t, &logbook{}, method, requests("")[method], answering(res, nil))
			if err != nil || out != res {
				t.Errorf("%s: %T(nil) became %v, error %v", method, res, out, err)
			}
		}
	}
}

func TestAnErrorWinsOverAResult(t *testing.T) {
	want := errors.New("no")
	for _, method := range methods {
		out, err := through(t, &logbook{}, method, requests("")[method], answering(results(secretState)[method], want))
		if out != nil || err != want { //nolint:errorlint // the very error
			t.Errorf("%s: result %v, error %v", method, out, err)
		}
	}
}

// embedding is what a middleware might make to add a member to a result.
type embedding struct{ *mcp.CallToolResult }

// extension is a result of a type of its own, as protocol extensions have.
type extension struct {
	mcp.ResultBase
	Task  string  `json:"task"`
	State *string `json:"requestState,omitempty"`
}

type panicking struct{ mcp.ResultBase }

func (*panicking) MarshalJSON() ([]byte, error) { panic(secretState) }

type unencodable struct {
	mcp.ResultBase
	C chan int `json:"c"`
}

type list struct{ mcp.ResultBase }

func (*list) MarshalJSON() ([]byte, error) { return []byte(`["` + secretState + `"]`), nil }

func TestStateInAResultOfAnotherTypeNeverGetsOut(t *testing.T) {
	state := secretState
	for name, res := range map[string]mcp.Result{
		"embedded":          embedding{&mcp.CallToolResult{RequestState: secretState}},
		"embedded pointer":  &embedding{&mcp.CallToolResult{RequestState: secretState}},
		"another method's":  &mcp.GetPromptResult{RequestState: secretState},
		"of its own":        &extension{State: &state},
		"embeds nil":        embedding{},
		"panics":            &panicking{},
		"cannot be encoded": &unencodable{C: make(chan int)},
		"no object":         &list{},
	} {
		t.Run(name, func(t *testing.T) {
			log := &logbook{}
			out, err := through(t, log, binding.MethodCallTool, requests("")[binding.MethodCallTool], answering(res, nil))
			wantInternal(t, err)
			if text := log.wantInternal(t); out != nil || strings.Contains(text, secretState) {
				t.Errorf("result %v, log %q", out, text)
			}
		})
	}
}

func TestResultOfAnotherTypeWithoutAStatePasses(t *testing.T) {
	for _, res := range []mcp.Result{
		&extension{Task: "t1"},
		(*extension)(nil),
		embedding{&mcp.CallToolResult{Content: []mcp.Content{}}},
		&mcp.ReadResourceResult{},
	} {
		out, err := through(t, &logbook{}, binding.MethodCallTool, requests("")[binding.MethodCallTool], answering(res, nil))
		if err != nil || out != res {
			t.Errorf("%T became %v, error %v", res, out, err)
		}
	}
}

func TestRequestThatCannotBeReadGoesNowhere(t *testing.T) {
	type wrapper struct{ *mcp.CallToolRequest }
	for name, test := range map[string]struct {
		method string
		req    mcp.Request
	}{
		"nil":                   {binding.MethodCallTool, nil},
		"typed nil":             {binding.MethodCallTool, (*mcp.CallToolRequest)(nil)},
		"nil tool params":       {binding.MethodCallTool, &mcp.CallToolRequest{}},
		"nil prompt params":     {binding.MethodGetPrompt, &mcp.GetPromptRequest{}},
		"nil resource params":   {binding.MethodReadResource, &mcp.ReadResourceRequest{}},
		"of another method":     {binding.MethodGetPrompt, requests(secretState)[binding.MethodCallTool]},
		"of a client":           {binding.MethodCallTool, &mcp.ClientRequest[*mcp.CallToolParams]{Params: &mcp.CallToolParams{RequestState: secretState}}},
		"with decoded params":   {binding.MethodCallTool, &mcp.ServerRequest[*mcp.CallToolParams]{Params: &mcp.CallToolParams{RequestState: secretState}}},
		"wrapped by a stranger": {binding.MethodCallTool, wrapper{requests(secretState)[binding.MethodCallTool].(*mcp.CallToolRequest)}},
	} {
		t.Run(name, func(t *testing.T) {
			log := &logbook{}
			_, err := through(t, log, test.method, test.req, unused(t))
			wantInternal(t, err)
			if text := log.wantInternal(t); strings.Contains(text, secretState) {
				t.Errorf("the log says %q", text)
			}
		})
	}
}

func TestRequestWithoutExtraIsFromNobody(t *testing.T) {
	req := &mcp.ReadResourceRequest{Params: &mcp.ReadResourceParams{URI: resource}}
	out, err := through(t, &logbook{}, binding.MethodReadResource, req, answering(&mcp.ReadResourceResult{RequestState: secretState}, nil))
	if err != nil {
		t.Fatal(err)
	}
	if claims := claimsOf(t, stateOf(out)); claims["p"] != nil {
		t.Errorf("the token is bound to %v", claims["p"])
	}
}

// An inner middleware that answers itself is sealed like a handler.
func TestResultOfAnInnerMiddlewareIsSealed(t *testing.T) {
	res := results(secretState)[binding.MethodCallTool]
	d := newDesk(tellState)
	d.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == binding.MethodCallTool {
				return res, nil
			}
			return next(ctx, method, req)
		}
	})
	d.AddReceivingMiddleware(gosdk.Middleware(newPolicy(t, newRing(t), binding.Options{}), nil))
	if token := d.connect(t).mint(t, call{method: binding.MethodCallTool}); claimsOf(t, token)["s"] != secretState {
		t.Error("the token holds another state")
	}
	if stateOf(res) != secretState {
		t.Error("the result of the inner middleware was changed")
	}
}

// The digest is over what the client sent, not over what became of it.
func TestHandlerMayChangeItsArguments(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	d.AddPrompt(&mcp.Prompt{Name: "defaults"}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		req.Params.Arguments["language"] = "en"
		return &mcp.GetPromptResult{RequestState: req.Params.RequestState + "+"}, nil
	})
	d.AddTool(&mcp.Tool{Name: "defaults", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		req.Params.Name, req.Params.Arguments = "other", json.RawMessage(`{"language":"en"}`)
		return &mcp.CallToolResult{RequestState: req.Params.RequestState + "+"}, nil
	})
	client := d.connect(t)
	for _, method := range []string{binding.MethodCallTool, binding.MethodGetPrompt} {
		c := call{method: method, target: "defaults", args: `{"name":"Ada"}`}
		c.state = client.mint(t, c)
		c.state = client.mint(t, c)
		if got := claimsOf(t, c.state)["s"]; got != "++" {
			t.Errorf("%s: the state is %v", method, got)
		}
	}
}

// encoding/json writes U+FFFD for every byte that is not UTF-8, so that two such maps
// would look alike.
func TestPromptArgumentsThatAreNotTextBindNothing(t *testing.T) {
	with := func(name, value, state string) mcp.Request {
		return &mcp.GetPromptRequest{Params: &mcp.GetPromptParams{Name: prompt, Arguments: map[string]string{name: value}, RequestState: state}}
	}
	log := &logbook{}
	res := &mcp.GetPromptResult{RequestState: secretState}
	minted, err := through(t, log, binding.MethodGetPrompt, with("n", "\ufffd", ""), answering(res, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, req := range []mcp.Request{with("n", "\xff", stateOf(minted)), with("\xff", "x", stateOf(minted))} {
		_, err := through(t, log, binding.MethodGetPrompt, req, unused(t))
		wantRefused(t, err)
		log.wantReason(t, binding.WrongRequest)
	}
	_, err = through(t, log, binding.MethodGetPrompt, with("n", "\xff", ""), answering(res, nil))
	wantInternal(t, err)
	if text := log.wantInternal(t); !strings.Contains(text, "UTF-8") {
		t.Errorf("the log says %q", text)
	}
	if out, err := through(t, log, binding.MethodGetPrompt, with("n", "\xff", ""), answering(results("")[binding.MethodGetPrompt], nil)); err != nil || out == nil {
		t.Errorf("a round without a state was refused: %v", err)
	}
}

func TestTheMiddlewareTwiceIsNoHarm(t *testing.T) {
	middleware := gosdk.Ephemeral(nil)
	client := newDesk(askFirst, middleware, middleware).connect(t)
	c := call{method: binding.MethodCallTool}
	c.state = client.mint(t, c)
	client.mustAccept(t, c)
}

// acmeParams and acmeResult are those of a method that is none of the three.
type acmeParams struct {
	mcp.ParamsBase
	RequestState string `json:"requestState,omitempty"`
}

type acmeResult struct {
	mcp.ResultBase
	ResultType   string `json:"resultType,omitempty"`
	RequestState string `json:"requestState,omitempty"`
}

func TestStateOfAnotherMethodPassesInTheClear(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	if err := mcp.AddReceivingCustomMethod(d.Server, "acme/do", func(_ context.Context, _ *mcp.ServerSession, p *acmeParams) (*acmeResult, error) {
		return &acmeResult{ResultType: "input_required", RequestState: p.RequestState + "+"}, nil
	}); err != nil {
		t.Fatal(err)
	}
	body := d.serve(t, true).post(t, envelope("acme/do", "", `"requestState":"plain"`)).result(t)
	if !strings.Contains(body, `"requestState":"plain+"`) {
		t.Errorf("the answer is %s", body)
	}
}
