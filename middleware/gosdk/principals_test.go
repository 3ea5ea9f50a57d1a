package gosdk_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/middleware/gosdk"
)

// principalDesk is a sealed desk whose principal function a test replaces.
type principalDesk struct {
	*desk
	who   func() (binding.Principal, error)
	asked atomic.Int32
}

func newPrincipalDesk(t *testing.T, h handler) *principalDesk {
	t.Helper()
	log := &logbook{}
	d := &principalDesk{who: as("zoe")}
	o := log.options()
	o.Principal = func(context.Context, mcp.Request) (binding.Principal, error) {
		d.asked.Add(1)
		return d.who()
	}
	d.desk = newDesk(h, gosdk.Middleware(newPolicy(t, newRing(t), binding.Options{}), o))
	d.log = log
	return d
}

func as(name string) func() (binding.Principal, error) {
	return func() (binding.Principal, error) { return binding.Bound(name), nil }
}

func nobody() (binding.Principal, error) { return binding.Principal{}, nil }

func TestTokenIsBoundToItsPrincipal(t *testing.T) {
	for name, test := range map[string]struct {
		minting, verifying func() (binding.Principal, error)
		reason             string
	}{
		"minted with one, verified with none": {as("zoe"), nobody, "principal_drift"},
		"minted with none, verified with one": {nobody, as("zoe"), "principal_drift"},
		"another principal":                   {as("zoe"), as("bob"), "principal"},
		"the empty principal is one":          {nobody, as(""), "principal_drift"},
		"the empty principal is no other":     {as("zoe"), as(""), "principal"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, method := range methods {
				d := newPrincipalDesk(t, askFirst)
				client := d.connect(t)
				c := call{method: method}
				d.who = test.minting
				c.state = client.mint(t, c)
				d.who = test.verifying
				client.mustRefuse(t, c)
				if r := d.log.records(t); len(r) != 1 || r[0]["reason"] != test.reason {
					t.Errorf("the log is %v, want %s", r, test.reason)
				}
				d.who = test.minting
				client.mustAccept(t, c)
			}
		})
	}
}

func TestPrincipalThatCannotBeFoundDeniesBothWays(t *testing.T) {
	type private string
	for name, test := range map[string]struct {
		who func() (binding.Principal, error)
		log string
	}{
		"error":           {func() (binding.Principal, error) { return binding.Principal{}, errors.New("the directory is down") }, "the directory is down"},
		"error and value": {func() (binding.Principal, error) { return binding.Bound("zoe"), errors.New("the directory is down") }, "the directory is down"},
		"failed":          {func() (binding.Principal, error) { return binding.FailedPrincipal(errors.New("no session")), nil }, "no session"},
		"panic":           {func() (binding.Principal, error) { panic(private("zoe@example.com")) }, "gosdk_test.private"},
		"nil dereference": {func() (binding.Principal, error) { var p *binding.Principal; return *p, nil }, "panicked"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, method := range methods {
				d := newPrincipalDesk(t, askFirst)
				client := d.connect(t)
				c := call{method: method}
				c.state = client.mint(t, c)
				d.seen()

				d.who = test.who
				client.mustRefuse(t, c)
				text, _ := d.log.wantReason(t, binding.PrincipalError)["error"].(string)
				if !strings.Contains(text, test.log) || strings.Contains(text, "zoe") {
					t.Errorf("the log says %q, want %q", text, test.log)
				}
				if seen := d.seen(); seen != nil {
					t.Errorf("the handler saw %q", seen)
				}

				_, err := client.do(t.Context(), call{method: method})
				wantInternal(t, err)
				if text := d.log.wantInternal(t); !strings.Contains(text, test.log) || strings.Contains(text, "zoe") {
					t.Errorf("the log says %q, want %q", text, test.log)
				}

				d.who = as("zoe")
				client.mustAccept(t, c)
			}
		})
	}
}

func TestPrincipalIsAskedOnceForARoundAndOnlyForAState(t *testing.T) {
	d := newPrincipalDesk(t, func(_ context.Context, c call) (answer, error) {
		switch c.target {
		case "cancel":
			return answer{text: "nothing to keep"}, nil
		}
		return answer{state: c.state + "+", needsInput: true}, nil
	})
	client := d.connect(t)
	for _, step := range []struct {
		target string
		asked  int32
	}{{"cancel", 0}, {tool, 1}} {
		client.mustAccept(t, call{method: binding.MethodCallTool, target: step.target})
		if got := d.asked.Swap(0); got != step.asked {
			t.Errorf("%s: the principal was asked for %d times, want %d", step.target, got, step.asked)
		}
	}
	token := client.mint(t, call{method: binding.MethodCallTool})
	d.asked.Store(0)
	client.mint(t, call{method: binding.MethodCallTool, state: token}) // unseals and seals
	if got := d.asked.Load(); got != 1 {
		t.Errorf("the principal was asked for %d times in one round", got)
	}
}

func TestTwoTokensOfOnePrincipalDoNotShowIt(t *testing.T) {
	d := newPrincipalDesk(t, askFirst)
	client := d.connect(t)
	c := call{method: binding.MethodCallTool}
	one, two := claimsOf(t, client.mint(t, c))["p"].(string), claimsOf(t, client.mint(t, c))["p"].(string)
	if len(one) != 32 || len(two) != 32 || one == two {
		t.Errorf("p is %q and %q, want two of 32 characters", one, two)
	}
}

func TestPrincipalMayBeAnyText(t *testing.T) {
	d := newPrincipalDesk(t, askFirst)
	client := d.connect(t)
	for _, name := range []string{"", "ä", "\xed\xa0\x80", "\xff", strings.Repeat("x", 1<<16)} {
		d.who = as(name)
		c := call{method: binding.MethodCallTool}
		c.state = client.mint(t, c)
		client.mustAccept(t, c)
		d.who = as(name + "x")
		client.mustRefuse(t, c)
	}
}

// bearer runs one round for a verified bearer token, without a transport.
func bearer(o *gosdk.Options, p *binding.Policy, info *auth.TokenInfo, state string) (token string, err error) {
	next := func(context.Context, string, mcp.Request) (mcp.Result, error) {
		return &mcp.CallToolResult{RequestState: secretState}, nil
	}
	req := &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: tool, RequestState: state}, Extra: &mcp.RequestExtra{TokenInfo: info}}
	res, err := gosdk.Middleware(p, o)(next)(context.Background(), binding.MethodCallTool, req)
	if err != nil {
		return "", err
	}
	return res.(*mcp.CallToolResult).RequestState, nil
}

// What is made of a bearer token is what the Python SDK makes of it.
func TestPrincipalOfABearerToken(t *testing.T) {
	ptr := func(s string) *string { return &s }
	var none binding.Principal
	for name, test := range map[string]struct {
		info *auth.TokenInfo
		keys gosdk.OAuthKeys
		want binding.Principal
	}{
		"no token":                  {nil, gosdk.OAuthKeys{}, none},
		"user only":                 {&auth.TokenInfo{UserID: "zoe"}, gosdk.OAuthKeys{}, binding.OAuthPrincipal("", nil, ptr("zoe"))},
		"client only":               {&auth.TokenInfo{Extra: map[string]any{"client_id": "app"}}, gosdk.OAuthKeys{}, binding.OAuthPrincipal("app", nil, nil)},
		"subject only":              {&auth.TokenInfo{Extra: map[string]any{"sub": "zoe"}}, gosdk.OAuthKeys{}, binding.OAuthPrincipal("", nil, ptr("zoe"))},
		"all three":                 {&auth.TokenInfo{Extra: map[string]any{"client_id": "app", "iss": "https://a", "sub": "zoe"}}, gosdk.OAuthKeys{}, binding.OAuthPrincipal("app", ptr("https://a"), ptr("zoe"))},
		"the user before the sub":   {&auth.TokenInfo{UserID: "zoe", Extra: map[string]any{"client_id": "app", "sub": "bob"}}, gosdk.OAuthKeys{}, binding.OAuthPrincipal("app", nil, ptr("zoe"))},
		"an empty sub is a subject": {&auth.TokenInfo{Extra: map[string]any{"client_id": "app", "sub": ""}}, gosdk.OAuthKeys{}, binding.OAuthPrincipal("app", nil, ptr(""))},
		"nil is absent":             {&auth.TokenInfo{Extra: map[string]any{"client_id": "app", "iss": nil, "sub": nil}}, gosdk.OAuthKeys{}, binding.OAuthPrincipal("app", nil, nil)},
		"other keys":                {&auth.TokenInfo{Extra: map[string]any{"azp": "app", "tid": "t1", "oid": "zoe", "sub": "x"}}, gosdk.OAuthKeys{ClientID: "azp", Issuer: "tid", Subject: "oid"}, binding.OAuthPrincipal("app", ptr("t1"), ptr("zoe"))},
	} {
		t.Run(name, func(t *testing.T) {
			log := &logbook{}
			o, p := log.options(), newPolicy(t, newRing(t), binding.Options{})
			o.OAuth = test.keys
			token, err := bearer(o, p, test.info, "")
			if err != nil {
				t.Fatal(err)
			}
			request := binding.Request{Method: binding.MethodCallTool, Target: tool}
			if state, err := p.Round(request, test.want).Unseal(token); err != nil || state != secretState {
				t.Errorf("the token is bound to another principal: %v", err)
			}
			if _, err := p.Round(request, binding.Bound("someone else")).Unseal(token); err == nil {
				t.Error("the token is bound to nobody in particular")
			}
		})
	}
}

func TestBearerTokenThatTellsNoPrincipalDeniesBothWays(t *testing.T) {
	for name, test := range map[string]struct {
		info *auth.TokenInfo
		log  string
	}{
		"nothing":         {&auth.TokenInfo{}, "in Options.OAuth, or set Options.Principal"},
		"issuer only":     {&auth.TokenInfo{Extra: map[string]any{"iss": "https://a"}}, "names neither a client nor a user"},
		"empty strings":   {&auth.TokenInfo{Extra: map[string]any{"client_id": "", "sub": ""}}, "names neither a client nor a user"},
		"client a number": {&auth.TokenInfo{UserID: "zoe", Extra: map[string]any{"client_id": 4711}}, `TokenInfo.Extra["client_id"] of the bearer token is a int`},
		"issuer a list":   {&auth.TokenInfo{UserID: "zoe", Extra: map[string]any{"iss": []any{"zoe"}}}, `TokenInfo.Extra["iss"]`},
		"sub a map":       {&auth.TokenInfo{Extra: map[string]any{"client_id": "app", "sub": map[string]any{"zoe": 1}}}, `TokenInfo.Extra["sub"]`},
		"not UTF-8":       {&auth.TokenInfo{UserID: "zoe\xff"}, "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			log := &logbook{}
			o, p := log.options(), newPolicy(t, newRing(t), binding.Options{})
			_, err := bearer(o, p, test.info, "")
			wantInternal(t, err)
			if text := log.wantInternal(t); !strings.Contains(text, test.log) || strings.Contains(text, "zoe") || strings.Contains(text, "4711") {
				t.Errorf("the log says %q, want %q", text, test.log)
			}
			token, err := bearer(o, p, &auth.TokenInfo{UserID: "zoe"}, "")
			if err != nil {
				t.Fatal(err)
			}
			_, err = bearer(o, p, test.info, token)
			wantRefused(t, err)
			log.wantReason(t, binding.PrincipalError)
		})
	}
}
