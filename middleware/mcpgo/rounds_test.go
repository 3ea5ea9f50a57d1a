package mcpgo_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/middleware/mcpgo"
)

func TestClientHoldsATokenAndTheHandlerItsState(t *testing.T) {
	for _, method := range methods {
		t.Run(method, func(t *testing.T) {
			now := newClock()
			d := sealedDesk(t, askFirst, binding.Options{Audience: "billing", Now: now.Now})
			first := d.try(t, call{method: method})
			if strings.Contains(first.body, secretState) || !first.answer(t).needsInput {
				t.Errorf("the first round is %s", first.body)
			}
			token := first.token(t)
			claims := claimsOf(t, token)
			if claims["s"] != secretState || claims["aud"] != "billing" || claims["m"] != method || claims["p"] != nil ||
				claims["iat"] != float64(now.Now().UnixMilli())/1000 || claims["exp"].(float64)-claims["iat"].(float64) != 600 {
				t.Errorf("claims are %v", claims)
			}
			if a := d.mustAccept(t, call{method: method, state: token}); a.text != "done" || a.state != "" {
				t.Errorf("the second round is %+v", a)
			}
			if seen := d.seen(); len(seen) != 2 || seen[1] != secretState {
				t.Errorf("the handler saw %q", seen)
			}
		})
	}
}

func TestTamperedTokenNeverReachesTheHandler(t *testing.T) {
	for _, method := range methods {
		d := sealedDesk(t, askFirst, binding.Options{})
		token := d.mint(t, call{method: method})
		d.seen()
		d.mustRefuse(t, call{method: method, state: swapped(token)})
		d.wantUnseen(t)
		d.mustAccept(t, call{method: method, state: token})
	}
}

func TestFabricatedStateIsRefused(t *testing.T) {
	for _, method := range allMethods {
		log := &logbook{}
		d := newDesk(tellState, mcpgo.Ephemeral(log.options()))
		d.mustRefuse(t, call{method: method, state: secretState})
		log.wantReason(t, codec.Malformed)
		d.wantUnseen(t)
	}
}

// A handler that never makes a state but gets one gets a verified one. So does that of
// a resource, whose state only a server on another SDK can have sealed.
func TestHandlerThatMintsNothingGetsVerifiedState(t *testing.T) {
	policy := newPolicy(t, newRing(t), binding.Options{})
	telling := sealedDesk(t, tellState, binding.Options{})
	for _, test := range []struct{ method, target, other string }{
		{binding.MethodCallTool, tool, "cancel"},
		{binding.MethodGetPrompt, prompt, "farewell"},
		{binding.MethodReadResource, resource, "notes://8"},
	} {
		token, err := policy.Round(binding.Request{Method: test.method, Target: test.target}, binding.Principal{}).Seal(secretState)
		if err != nil {
			t.Fatal(err)
		}
		if a := telling.mustAccept(t, call{method: test.method, state: token}); a.text != "["+secretState+"]" {
			t.Errorf("%s: the handler saw %s", test.method, a.text)
		}
		telling.mustRefuse(t, call{method: test.method, state: token[:len(token)-1]})
		telling.mustRefuse(t, call{method: test.method, target: test.other, state: token})
	}
}

func TestTokenLivesItsTTLAndMayBeUsedMoreThanOnce(t *testing.T) {
	now := newClock()
	d := sealedDesk(t, askFirst, binding.Options{TTL: time.Minute, Now: now.Now})
	for _, method := range methods {
		c := call{method: method}
		c.state = d.mint(t, c)
		now.add(59 * time.Second)
		d.mustAccept(t, c)
		d.mustAccept(t, c)
		now.add(2 * time.Second)
		d.mustRefuse(t, c)
		d.log.wantReason(t, binding.Expired)
	}
}

func TestEphemeralTokenLivesTenMinutes(t *testing.T) {
	log := &logbook{}
	d := newDesk(askFirst, mcpgo.Ephemeral(log.options()))
	synctest.Test(t, func(t *testing.T) {
		c := call{method: binding.MethodGetPrompt}
		c.state = d.mint(t, c)
		time.Sleep(10*time.Minute - time.Second)
		d.mustAccept(t, c)
		time.Sleep(time.Second)
		d.mustRefuse(t, c)
		log.wantReason(t, binding.Expired)
	})
}

func TestTokenIsBoundToItsMethodAndTarget(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	d.AddPrompt(mcp.Prompt{Name: tool}, d.getPrompt) // a prompt with the name of a tool
	for _, test := range []struct{ from, to call }{
		{call{method: binding.MethodCallTool}, call{method: binding.MethodCallTool, target: "cancel"}},
		{call{method: binding.MethodGetPrompt}, call{method: binding.MethodGetPrompt, target: "farewell"}},
		{call{method: binding.MethodCallTool}, call{method: binding.MethodGetPrompt, target: tool}},
	} {
		token := d.mint(t, test.from)
		test.from.state, test.to.state = token, token
		d.mustRefuse(t, test.to)
		d.log.wantReason(t, binding.WrongRequest)
		d.mustAccept(t, test.from)
	}
}

func TestTokenIsBoundToItsArguments(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	for _, test := range []struct{ method, args, same, other string }{
		{binding.MethodCallTool, `{"n":1,"to":"Ada"}`, `{ "to" : "\u0041da", "n":1}`, `{"n":2,"to":"Ada"}`},
		{binding.MethodCallTool, `{"n":1}`, `{"\u006e":1}`, `{"n":1.0}`},
		{binding.MethodCallTool, `{"n":9007199254740993}`, `{"n":9007199254740993}`, `{"n":9007199254740992}`},
		{binding.MethodCallTool, `{"x":"\ud800"}`, `{"x":"\uD800"}`, `{"x":"\ud801"}`},
		{binding.MethodCallTool, ``, `{}`, `{"n":null}`},
		{binding.MethodCallTool, `null`, ``, `[1]`},
		// To encoding/json both members may count, or either.
		{binding.MethodCallTool, `{"n":1}`, `{"n":1}`, `{"n":7,"n":1}`},
		{binding.MethodCallTool, `{"n":1}`, `{"n":1}`, `{"N":7,"n":1}`},
		{binding.MethodGetPrompt, `{"n":"1","to":"<Ada> & co"}`, `{"to":"<Ada> & co","n":"1"}`, `{"n":"1","to":"Ada & co"}`},
		{binding.MethodGetPrompt, ``, `{}`, `{"n":""}`},
		// Decoded by the SDK, where lone surrogates become alike.
		{binding.MethodGetPrompt, `{"x":"\ud800"}`, `{"x":"\ud801"}`, `{"x":"x"}`},
	} {
		c := call{method: test.method, args: test.args}
		c.state = d.mint(t, c)
		d.mustAccept(t, c)
		c.args = test.same
		d.mustAccept(t, c)
		c.args = test.other
		d.mustRefuse(t, c)
		d.log.wantReason(t, binding.WrongRequest)
	}
}

// Arguments that would read differently to the handler cannot be sealed for either.
func TestAmbiguousArgumentsAreNotSealedFor(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	d.try(t, call{method: binding.MethodCallTool, args: `{"n":1,"N":7}`}).internal(t)
	d.log.wantInternal(t)
}

func TestServicesWithOneKeyRefuseEachOther(t *testing.T) {
	audiences := []string{"billing", "support", ""}
	for _, from := range audiences {
		c := call{method: binding.MethodCallTool}
		c.state = sealedDesk(t, askFirst, binding.Options{Audience: from}).mint(t, c)
		for _, to := range audiences {
			d := sealedDesk(t, askFirst, binding.Options{Audience: to})
			if from == to {
				d.mustAccept(t, c)
				continue
			}
			d.mustRefuse(t, c)
			d.log.wantReason(t, binding.WrongAudience)
		}
	}
}

func TestEveryEphemeralOptionHasItsOwnKey(t *testing.T) {
	log := &logbook{}
	one, other := newDesk(askFirst, mcpgo.Ephemeral(nil)), newDesk(askFirst, mcpgo.Ephemeral(log.options()))
	c := call{method: binding.MethodCallTool}
	c.state = one.mint(t, c)
	other.mustRefuse(t, c)
	r := log.wantReason(t, codec.UnknownKey)
	if len(r["kid"].(string)) != 8 {
		t.Errorf("the record is %v, want a kid", r)
	}
	hint, _ := r["hint"].(string) // the codec may follow a keyset, or be given its secrets
	for _, cause := range []string{"retired", "revoked", "not read or not opened here yet", "keytool inspect --store", "secret", "ephemeral", "made anew"} {
		if !strings.Contains(hint, cause) {
			t.Errorf("the hint is %q, and does not speak of %q", hint, cause)
		}
	}
	one.mustAccept(t, c)
}

func TestOneOptionServesManyServers(t *testing.T) {
	option := mcpgo.Ephemeral(nil)
	c := call{method: binding.MethodCallTool}
	c.state = newDesk(askFirst, option).mint(t, c)
	newDesk(askFirst, option).mustAccept(t, c)
}

func TestEveryRoundIsSealedAfresh(t *testing.T) {
	now := newClock()
	again := func(_ context.Context, c call) (answer, error) {
		return answer{state: c.state + "+", needsInput: true}, nil
	}
	d := sealedDesk(t, again, binding.Options{TTL: time.Minute, Now: now.Now})
	for _, method := range methods {
		token := ""
		for round := range 4 { // three minutes in all: the TTL bounds a round and not the whole
			next := d.mint(t, call{method: method, state: token})
			if got, want := claimsOf(t, next)["s"], strings.Repeat("+", round+1); got != want || next == token {
				t.Errorf("round %d: state %q, want %q", round, got, want)
			}
			token = next
			now.add(59 * time.Second)
		}
	}
}

func TestStateIsSealedWhateverTheResult(t *testing.T) {
	for name, a := range map[string]answer{
		"complete":       {state: secretState, text: "partial"},
		"input required": {state: secretState, needsInput: true},
	} {
		for _, method := range methods {
			d := sealedDesk(t, func(context.Context, call) (answer, error) { return a, nil }, binding.Options{})
			if got := claimsOf(t, d.mint(t, call{method: method}))["s"]; got != secretState {
				t.Errorf("%s, %s: the sealed state is %q", name, method, got)
			}
		}
	}
}

// A state without a question asks the client to come back later.
func TestRoundThatOnlyHasAState(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	d.AddTool(mcp.NewTool("busy"), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.Params.RequestState != "" {
			return mcp.NewToolResultText(req.Params.RequestState), nil
		}
		return server.NewInputRequestBuilder(secretState).ToolResult(), nil
	})
	c := call{method: binding.MethodCallTool, target: "busy"}
	c.state = d.mint(t, c)
	if a := d.mustAccept(t, c); a.text != secretState {
		t.Errorf("the handler saw %q", a.text)
	}
}

// What the SDK offers beside a plain handler goes through the same middleware.
func TestTypedToolIsSealed(t *testing.T) {
	type in struct {
		N int `json:"n"`
	}
	d := sealedDesk(t, askFirst, binding.Options{})
	d.AddTool(mcp.NewTool("typed"), mcp.NewTypedToolHandler(func(_ context.Context, req mcp.CallToolRequest, _ in) (*mcp.CallToolResult, error) {
		if req.Params.RequestState == "" {
			return answer{state: secretState}.ask().ToolResult(), nil
		}
		return mcp.NewToolResultText(req.Params.RequestState), nil
	}))
	c := call{method: binding.MethodCallTool, target: "typed", args: `{"n":1}`}
	c.state = d.mint(t, c)
	if a := d.mustAccept(t, c); a.text != secretState {
		t.Errorf("the handler saw %s", a.text)
	}
}

func TestLoneSurrogatesInTheStateComeBack(t *testing.T) {
	const state = "a\xed\xa0\x80b\xed\xbf\xbf\u00e9\U0001f511"
	d := sealedDesk(t, func(_ context.Context, c call) (answer, error) {
		if c.state == "" {
			return answer{state: state, needsInput: true}, nil
		}
		return answer{text: "done"}, nil
	}, binding.Options{})
	c := call{method: binding.MethodCallTool}
	c.state = d.mint(t, c)
	d.mustAccept(t, c)
	if seen := d.seen(); len(seen) != 2 || seen[1] != state {
		t.Errorf("the states were %q", seen)
	}
}

func TestServerWithoutTheMiddlewarePassesStateVerbatim(t *testing.T) {
	d := newDesk(tellState)
	for _, method := range allMethods {
		if a := d.mustAccept(t, call{method: method, state: secretState}); a.text != "["+secretState+"]" {
			t.Errorf("the handler saw %s", a.text)
		}
	}
}

func TestOldKeyVerifiesWhileTheNewOneSeals(t *testing.T) {
	ring, err := local.New([]byte("fedcba9876543210fedcba9876543210"), secret)
	if err != nil {
		t.Fatal(err)
	}
	c := call{method: binding.MethodCallTool}
	c.state = sealedDesk(t, askFirst, binding.Options{}).mint(t, c)
	next := newDesk(askFirst, mcpgo.Middleware(newPolicy(t, ring, binding.Options{}), nil))
	next.mustAccept(t, c)
	if token := next.mint(t, call{method: c.method}); newRing(t).KID(token) == newRing(t).KID(c.state) {
		t.Error("the old key still seals")
	}
}

// For clients of older versions the SDK asks by requests of its own and calls the
// handler again: the tokens go round inside the server.
func TestRoundsOfALegacyClientAreBridged(t *testing.T) {
	d := sealedDesk(t, func(_ context.Context, c call) (answer, error) {
		if len(c.state) < 3 {
			return answer{state: c.state + "+", needsInput: true}, nil
		}
		return answer{text: c.state, state: secretState}, nil
	}, binding.Options{})
	asked := elicitor(0)
	session := server.NewInProcessSessionWithHandlers("1", nil, &asked, nil)
	for _, method := range methods {
		d.seen()
		r := d.tryAs(d.WithContext(t.Context(), session), t, call{method: method, args: `{"n":"1"}`}, legacy)
		if a := r.answer(t); a.text != "+++" || claimsOf(t, a.state)["s"] != secretState {
			t.Errorf("%s: the answer is %s", method, r.body)
		}
		if seen := d.seen(); strings.Join(seen, " ") != " + ++ +++" {
			t.Errorf("%s: the handler saw %q", method, seen)
		}
		d.tryAs(t.Context(), t, call{method: method, state: "fabricated"}, legacy).refused(t)
	}
	if asked != 6 {
		t.Errorf("the client was asked %d times, want 6", asked)
	}
}

// An elicitor is a legacy client that counts what it is asked.
type elicitor int

func (e *elicitor) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	*e++
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionDecline}}, nil
}

// Objects without a state are not copied, and with one the handler's stay as they were.
func TestResultsAreCopiedOnlyToBeSealed(t *testing.T) {
	kept := answer{state: secretState, needsInput: true}.ask().ToolResult()
	plain := mcp.NewToolResultText("no state")
	var outside *mcp.CallToolResult
	var args json.RawMessage
	d := newDesk(askFirst, server.WithToolHandlerMiddleware(func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			res, err := next(ctx, req)
			outside, args = res, req.Params.RawArguments
			return res, err
		}
	}), mcpgo.Ephemeral(nil))
	give := func(res *mcp.CallToolResult) server.ToolHandlerFunc {
		return func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { return res, nil }
	}
	d.AddTool(mcp.NewTool("kept"), give(kept))
	d.AddTool(mcp.NewTool("plain"), give(plain))

	d.mint(t, call{method: binding.MethodCallTool, target: "kept", args: `{ "n": 1 }`})
	if kept.RequestState != secretState || outside == kept || string(args) != `{ "n": 1 }` {
		t.Errorf("the handler's result has the state %q", kept.RequestState)
	}
	d.mustAccept(t, call{method: binding.MethodCallTool, target: "plain"})
	if outside != plain {
		t.Error("a result without a state was replaced")
	}
}

// A handler may change the arguments that it gets.
func TestArgumentsAreThoseThatCame(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	d.AddPrompt(mcp.Prompt{Name: "changing"}, func(_ context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		req.Params.Arguments["n"] += "!"
		if req.Params.RequestState == "" {
			return answer{state: secretState}.ask().PromptResult(), nil
		}
		return mcp.NewGetPromptResult("", nil), nil
	})
	d.AddTool(mcp.NewTool("changing"), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		req.GetArguments()["n"] = "!"
		if req.Params.RequestState == "" {
			return answer{state: secretState}.ask().ToolResult(), nil
		}
		return mcp.NewToolResultText("done"), nil
	})
	for _, method := range methods {
		c := call{method: method, target: "changing", args: `{"n":"1"}`}
		c.state = d.mint(t, c)
		d.mustAccept(t, c)
	}
}

// A request that another middleware makes has arguments that nobody sent.
func TestArgumentsOfAMiddlewareAreBound(t *testing.T) {
	var made any
	log := &logbook{}
	d := newDesk(askFirst, server.WithToolHandlerMiddleware(func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			req.Params.Arguments, req.Params.RawArguments = made, nil
			return next(ctx, req)
		}
	}), mcpgo.Middleware(newPolicy(t, newRing(t), binding.Options{}), log.options()))
	c := call{method: binding.MethodCallTool}
	made = map[string]any{"n": 1, "to": "Ada"}
	c.state = d.mint(t, c)
	d.mustAccept(t, c)
	made = map[string]any{"n": 2, "to": "Ada"}
	d.mustRefuse(t, c)
	log.wantReason(t, binding.WrongRequest)
	made = map[string]any{"n": func() {}}
	d.mustRefuse(t, c)
	log.wantReason(t, binding.WrongRequest)
}
