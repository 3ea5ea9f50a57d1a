package gosdk_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/middleware/gosdk"
)

func TestClientSeesATokenAndTheHandlerItsState(t *testing.T) {
	for _, method := range methods {
		t.Run(method, func(t *testing.T) {
			d := sealedDesk(t, askFirst, binding.Options{Audience: "billing"})
			client := d.connect(t)
			first := client.mustAccept(t, call{method: method})
			if !first.needsInput || !strings.HasPrefix(first.state, "v1.") || strings.Contains(first.state, secretState) {
				t.Fatalf("the client got %+v, want a token", first)
			}
			second := client.mustAccept(t, call{method: method, state: first.state})
			if second.text != "done" || second.state != "" {
				t.Errorf("the second round gave %+v", second)
			}
			if got, want := d.seen(), []string{"", secretState}; !slices.Equal(got, want) {
				t.Errorf("the handler saw %q, want %q", got, want)
			}
			if d.log.text() != "" {
				t.Errorf("an accepted round was logged: %s", d.log.text())
			}
		})
	}
}

// The SDK's own client goes through the rounds by itself.
func TestClientFulfilsTheRoundsByItself(t *testing.T) {
	for _, version := range []string{"", "2026-07-28", "2025-11-25"} {
		for _, method := range methods {
			t.Run(method+" "+version, func(t *testing.T) {
				d := sealedDesk(t, askFirst, binding.Options{Audience: "billing"})
				elicited := 0
				client := d.connectAs(t, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					elicited++
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
				}}, version)
				if a := client.mustAccept(t, call{method: method}); a.text != "done" {
					t.Errorf("the client got %+v", a)
				}
				if got, want := d.seen(), []string{"", secretState}; !slices.Equal(got, want) || elicited != 1 {
					t.Errorf("the handler saw %q after %d elicitations, want %q", got, elicited, want)
				}
			})
		}
	}
}

func TestClaimsAreExactlyThoseOfTheRequest(t *testing.T) {
	now := newClock()
	d := sealedDesk(t, askFirst, binding.Options{Audience: "billing", Now: now.Now})
	client := d.connect(t)
	for _, test := range []struct {
		call      call
		target    string
		arguments string
	}{
		{call{method: binding.MethodCallTool, args: `{"n":1}`}, tool, `{"n":1}`},
		{call{method: binding.MethodGetPrompt, args: `{"n":"1"}`}, prompt, `{"n":"1"}`},
		{call{method: binding.MethodReadResource}, resource, `{}`},
	} {
		claims := claimsOf(t, client.mint(t, test.call))
		if got, want := slices.Sorted(maps.Keys(claims)), []string{"a", "aud", "exp", "iat", "m", "s", "t", "v"}; !slices.Equal(got, want) {
			t.Errorf("%s: claims %q, want %q", test.call.method, got, want)
		}
		digest, err := binding.Digest([]byte(test.arguments))
		if err != nil {
			t.Fatal(err)
		}
		iat, exp := claims["iat"].(float64), claims["exp"].(float64)
		if claims["m"] != test.call.method || claims["t"] != test.target || claims["a"] != digest || claims["s"] != secretState || claims["aud"] != "billing" ||
			iat != float64(now.Now().UnixMilli())/1000 || exp-iat != 600 {
			t.Errorf("claims are %v", claims)
		}
	}
}

func TestTamperedTokenNeverReachesTheHandler(t *testing.T) {
	for _, method := range methods {
		t.Run(method, func(t *testing.T) {
			d := sealedDesk(t, askFirst, binding.Options{})
			client := d.connect(t)
			token := client.mint(t, call{method: method})
			d.seen()
			tampered := []byte(token)
			tampered[len(token)/2] ^= 1 // another letter of the same alphabet, most likely; malformed if not
			client.mustRefuse(t, call{method: method, state: string(tampered)})
			if seen := d.seen(); seen != nil {
				t.Errorf("the handler saw %q", seen)
			}
			client.mustAccept(t, call{method: method, state: token})
		})
	}
}

func TestFabricatedStateIsRefused(t *testing.T) {
	for _, method := range methods {
		log := &logbook{}
		d := newDesk(tellState, gosdk.Ephemeral(log.options()))
		d.connect(t).mustRefuse(t, call{method: method, state: secretState})
		log.wantReason(t, codec.Malformed)
		if seen := d.seen(); seen != nil {
			t.Errorf("the handler saw %q", seen)
		}
	}
}

// A handler that never makes a state but gets one gets a verified one.
func TestHandlerThatMintsNothingGetsVerifiedState(t *testing.T) {
	minting, telling := sealedDesk(t, askFirst, binding.Options{}), sealedDesk(t, tellState, binding.Options{})
	for _, method := range methods {
		token := minting.connect(t).mint(t, call{method: method})
		client := telling.connect(t)
		if a := client.mustAccept(t, call{method: method, state: token}); a.text != "["+secretState+"]" {
			t.Errorf("%s: the handler saw %s", method, a.text)
		}
		client.mustRefuse(t, call{method: method, state: token[:len(token)-1]})
	}
}

func TestTokenLivesItsTTLAndMayBeUsedMoreThanOnce(t *testing.T) {
	now := newClock()
	d := sealedDesk(t, askFirst, binding.Options{TTL: time.Minute, Now: now.Now})
	client := d.connect(t)
	for _, method := range methods {
		token := client.mint(t, call{method: method})
		now.add(59 * time.Second)
		client.mustAccept(t, call{method: method, state: token})
		client.mustAccept(t, call{method: method, state: token})
		now.add(2 * time.Second)
		client.mustRefuse(t, call{method: method, state: token})
		d.log.wantReason(t, binding.Expired)
	}
}

func TestEphemeralTokenLivesTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logbook{}
		handle := gosdk.Ephemeral(log.options())(func(context.Context, string, mcp.Request) (mcp.Result, error) {
			return &mcp.GetPromptResult{RequestState: secretState}, nil
		})
		round := func(state string) (mcp.Result, error) {
			return handle(t.Context(), binding.MethodGetPrompt, &mcp.GetPromptRequest{Params: &mcp.GetPromptParams{Name: prompt, RequestState: state}})
		}
		res, err := round("")
		if err != nil {
			t.Fatal(err)
		}
		token := res.(*mcp.GetPromptResult).RequestState
		time.Sleep(10*time.Minute - time.Second)
		if _, err := round(token); err != nil {
			t.Errorf("refused a second too early: %v", err)
		}
		time.Sleep(time.Second)
		_, err = round(token)
		wantRefused(t, err)
		log.wantReason(t, binding.Expired)
	})
}

func TestTTLOfHalfASecondIsLivedInFull(t *testing.T) {
	now := newClock()
	d := sealedDesk(t, askFirst, binding.Options{TTL: 500 * time.Millisecond, Now: now.Now})
	client := d.connect(t)
	c := call{method: binding.MethodCallTool}
	c.state = client.mint(t, c)
	now.add(499 * time.Millisecond)
	client.mustAccept(t, c)
	now.add(time.Millisecond)
	client.mustRefuse(t, c)
}

func TestTokenFromAClockAheadIsAcceptedWithinAMinute(t *testing.T) {
	for ahead, accepted := range map[time.Duration]bool{30 * time.Second: true, 2 * time.Minute: false} {
		here, there := newClock(), newClock()
		there.add(ahead)
		minting := sealedDesk(t, askFirst, binding.Options{Now: there.Now})
		verifying := sealedDesk(t, askFirst, binding.Options{Now: here.Now})
		c := call{method: binding.MethodCallTool}
		c.state = minting.connect(t).mint(t, c)
		client := verifying.connect(t)
		if accepted {
			client.mustAccept(t, c)
			continue
		}
		client.mustRefuse(t, c)
		verifying.log.wantReason(t, binding.Future)
	}
}

func TestTokenIsBoundToItsTarget(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	client := d.connect(t)
	for _, test := range []struct{ method, other string }{
		{binding.MethodCallTool, "cancel"},
		{binding.MethodGetPrompt, "farewell"},
		{binding.MethodReadResource, "notes://8"},
	} {
		token := client.mint(t, call{method: test.method})
		client.mustRefuse(t, call{method: test.method, target: test.other, state: token})
		d.log.wantReason(t, binding.WrongRequest)
		client.mustAccept(t, call{method: test.method, state: token})
	}
}

func TestTokenIsBoundToItsMethod(t *testing.T) {
	log := &logbook{}
	d := newDesk(askFirst, gosdk.Middleware(newPolicy(t, newRing(t), binding.Options{}), log.options()))
	d.AddPrompt(&mcp.Prompt{Name: tool}, d.getPrompt) // a prompt with the name of a tool
	client := d.connect(t)
	token := client.mint(t, call{method: binding.MethodCallTool})
	client.mustRefuse(t, call{method: binding.MethodGetPrompt, target: tool, state: token})
	log.wantReason(t, binding.WrongRequest)
}

func TestTokenIsBoundToItsArguments(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	client := d.connect(t)
	for _, test := range []struct{ method, args, same, other string }{
		{binding.MethodCallTool, `{"n":1,"to":"Ada"}`, `{"to":"Ada","n":1}`, `{"n":2,"to":"Ada"}`},
		{binding.MethodCallTool, `{"n":1}`, `{"n":1}`, `{"n":1.0}`},
		{binding.MethodCallTool, `{"n":9007199254740993}`, `{"n":9007199254740993}`, `{"n":9007199254740992}`},
		{binding.MethodCallTool, ``, `{}`, `{"n":null}`},
		{binding.MethodGetPrompt, `{"n":"1","to":"<Ada> & co"}`, `{"to":"<Ada> & co","n":"1"}`, `{"n":"1","to":"Ada & co"}`},
		{binding.MethodGetPrompt, ``, `{}`, `{"n":""}`},
	} {
		token := client.mint(t, call{method: test.method, args: test.args})
		client.mustRefuse(t, call{method: test.method, args: test.other, state: token})
		d.log.wantReason(t, binding.WrongRequest)
		client.mustAccept(t, call{method: test.method, args: test.args, state: token})
		client.mustAccept(t, call{method: test.method, args: test.same, state: token})
	}
}

func TestServicesWithOneKeyRefuseEachOther(t *testing.T) {
	audiences := []string{"billing", "support", ""}
	desks := map[string]*desk{}
	for _, audience := range audiences {
		desks[audience] = sealedDesk(t, askFirst, binding.Options{Audience: audience})
	}
	c := call{method: binding.MethodCallTool}
	for _, from := range audiences {
		token := desks[from].connect(t).mint(t, c)
		for _, to := range audiences {
			c := call{method: c.method, state: token}
			if from == to {
				desks[to].connect(t).mustAccept(t, c)
				continue
			}
			desks[to].connect(t).mustRefuse(t, c)
			desks[to].log.wantReason(t, binding.WrongAudience)
		}
	}
}

func TestEveryEphemeralMiddlewareHasItsOwnKey(t *testing.T) {
	log := &logbook{}
	one, other := newDesk(askFirst, gosdk.Ephemeral(nil)), newDesk(askFirst, gosdk.Ephemeral(log.options()))
	c := call{method: binding.MethodCallTool}
	c.state = one.connect(t).mint(t, c)
	other.connect(t).mustRefuse(t, c)
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
	one.connect(t).mustAccept(t, c)
}

func TestOneMiddlewareServesManyServers(t *testing.T) {
	middleware := gosdk.Ephemeral(nil)
	c := call{method: binding.MethodCallTool}
	c.state = newDesk(askFirst, middleware).connect(t).mint(t, c)
	newDesk(askFirst, middleware).connect(t).mustAccept(t, c)
}

func TestEveryRoundIsSealedAfresh(t *testing.T) {
	now := newClock()
	again := func(_ context.Context, c call) (answer, error) {
		return answer{state: c.state + "+", needsInput: true}, nil
	}
	d := sealedDesk(t, again, binding.Options{TTL: time.Minute, Now: now.Now})
	client := d.connect(t)
	for _, method := range methods {
		token, start := "", float64(now.Now().UnixMilli())/1000
		for round := range 4 { // three minutes in all: the TTL bounds a round and not the whole
			next := client.mint(t, call{method: method, state: token})
			claims := claimsOf(t, next)
			if want := strings.Repeat("+", round+1); claims["s"] != want {
				t.Errorf("round %d: state %q, want %q", round, claims["s"], want)
			}
			if iat := claims["iat"].(float64); iat < start+59*float64(round)-0.01 || next == token {
				t.Errorf("round %d: not sealed afresh", round)
			}
			token = next
			now.add(59 * time.Second)
		}
	}
}

func TestStateIsSealedWhateverTheResult(t *testing.T) {
	for name, a := range map[string]answer{
		"without input requests": {state: secretState, text: "partial"},
		"input required":         {state: secretState, needsInput: true},
	} {
		for _, version := range []string{"2026-07-28", "2025-11-25"} {
			for _, method := range methods {
				t.Run(name+" "+version+" "+method, func(t *testing.T) {
					d := sealedDesk(t, func(_ context.Context, c call) (answer, error) {
						if c.state != "" {
							return answer{state: secretState + "2", text: "done"}, nil // the second round of a legacy connection
						}
						return a, nil
					}, binding.Options{})
					client := d.connectAs(t, &mcp.ClientOptions{
						MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
						ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
							return &mcp.ElicitResult{Action: "decline"}, nil
						},
					}, version)
					want := a.state
					if a.needsInput && version < "2026" {
						want += "2"
					}
					token := client.mint(t, call{method: method})
					if got := claimsOf(t, token)["s"]; got != want {
						t.Errorf("the sealed state is %q, want %q", got, want)
					}
				})
			}
		}
	}
}

func TestAnEmptyInputRequestMapIsSealedToo(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	d.AddTool(&mcp.Tool{Name: "busy", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{RequestState: secretState, InputRequests: mcp.InputRequestMap{}}, nil
	})
	d.connect(t).mint(t, call{method: binding.MethodCallTool, target: "busy"})
}

// A typed tool handler gives and gets its state in the same fields.
func TestTypedToolIsSealed(t *testing.T) {
	type in struct {
		N int `json:"n"`
	}
	type out struct {
		State string `json:"state"`
	}
	d := sealedDesk(t, askFirst, binding.Options{})
	mcp.AddTool(d.Server, &mcp.Tool{Name: "typed"}, func(_ context.Context, req *mcp.CallToolRequest, _ in) (*mcp.CallToolResult, out, error) {
		if req.Params.RequestState == "" {
			return &mcp.CallToolResult{RequestState: secretState, InputRequests: answer{needsInput: true}.inputs()}, out{}, nil
		}
		return nil, out{State: req.Params.RequestState}, nil
	})
	client := d.connect(t)
	c := call{method: binding.MethodCallTool, target: "typed", args: `{"n":1}`}
	c.state = client.mint(t, c)
	if a := client.mustAccept(t, c); !strings.Contains(a.text, secretState) {
		t.Errorf("the handler saw %s", a.text)
	}
}

func TestSealedResourceIsPrivate(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	client := d.connect(t)
	c := call{method: binding.MethodReadResource}
	first := client.mustAccept(t, c)
	c.state = first.state
	second := client.mustAccept(t, c)
	if first.cacheScope != "private" || second.cacheScope != "public" {
		t.Errorf("cache scopes %q with a state and %q without, want private and public", first.cacheScope, second.cacheScope)
	}
}

func TestServerWithoutTheMiddlewarePassesStateVerbatim(t *testing.T) {
	d := newDesk(tellState)
	for _, method := range methods {
		if a := d.connect(t).mustAccept(t, call{method: method, state: secretState}); a.text != "["+secretState+"]" {
			t.Errorf("the handler saw %s", a.text)
		}
	}
}

func TestOldKeyVerifiesWhileTheNewOneSeals(t *testing.T) {
	c := call{method: binding.MethodCallTool}
	c.state = sealedDesk(t, askFirst, binding.Options{}).connect(t).mint(t, c)
	next := newDesk(askFirst, gosdk.Middleware(newPolicy(t, rotated(t), binding.Options{}), nil)).connect(t)
	next.mustAccept(t, c)
	if token := next.mint(t, call{method: c.method}); newRing(t).KID(token) == newRing(t).KID(c.state) {
		t.Error("the old key still seals")
	}
}
