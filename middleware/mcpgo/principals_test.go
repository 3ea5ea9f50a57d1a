package mcpgo_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/server"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/middleware/mcpgo"
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
	o.Principal = func(context.Context) (binding.Principal, error) {
		d.asked.Add(1)
		return d.who()
	}
	d.desk = newDesk(h, mcpgo.Middleware(newPolicy(t, newRing(t), binding.Options{}), o))
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
	} {
		for _, method := range methods {
			d := newPrincipalDesk(t, askFirst)
			c := call{method: method}
			d.who = test.minting
			c.state = d.mint(t, c)
			d.who = test.verifying
			d.mustRefuse(t, c)
			if r := d.log.records(t); len(r) != 1 || r[0]["reason"] != test.reason {
				t.Errorf("%s: the log is %v, want %s", name, r, test.reason)
			}
			d.who = test.minting
			d.mustAccept(t, c)
		}
	}
}

func TestPrincipalThatCannotBeFoundDeniesBothWays(t *testing.T) {
	type private string
	for name, test := range map[string]struct {
		who func() (binding.Principal, error)
		log string
	}{
		"error":           {func() (binding.Principal, error) { return binding.Bound("zoe"), errors.New("the directory is down") }, "the directory is down"},
		"failed":          {func() (binding.Principal, error) { return binding.FailedPrincipal(errors.New("no session")), nil }, "no session"},
		"panic":           {func() (binding.Principal, error) { panic(private("zoe@example.com")) }, "mcpgo_test.private"},
		"nil dereference": {func() (binding.Principal, error) { var p *binding.Principal; return *p, nil }, "panicked"},
	} {
		for _, method := range methods {
			d := newPrincipalDesk(t, askFirst)
			c := call{method: method}
			c.state = d.mint(t, c)
			d.seen()

			d.who = test.who
			d.mustRefuse(t, c)
			text, _ := d.log.wantReason(t, binding.PrincipalError)["error"].(string)
			if !strings.Contains(text, test.log) || strings.Contains(text, "zoe") {
				t.Errorf("%s: the log says %q, want %q", name, text, test.log)
			}
			d.wantUnseen(t)
			d.try(t, call{method: method}).internal(t)
			if text := d.log.wantInternal(t); !strings.Contains(text, test.log) || strings.Contains(text, "zoe") {
				t.Errorf("%s: the log says %q, want %q", name, text, test.log)
			}

			d.who = as("zoe")
			d.mustAccept(t, c)
		}
	}
}

func TestPrincipalIsAskedOnceForARoundAndOnlyForAState(t *testing.T) {
	d := newPrincipalDesk(t, func(_ context.Context, c call) (answer, error) {
		if c.target == "cancel" {
			return answer{text: "nothing to keep"}, nil
		}
		return answer{state: c.state + "+", needsInput: true}, nil
	})
	d.mustAccept(t, call{method: binding.MethodCallTool, target: "cancel"})
	if got := d.asked.Load(); got != 0 {
		t.Errorf("without a state the principal was asked for %d times", got)
	}
	token := d.mint(t, call{method: binding.MethodCallTool})
	d.asked.Store(0)
	d.mint(t, call{method: binding.MethodCallTool, state: token}) // unseals and seals
	if got := d.asked.Load(); got != 1 {
		t.Errorf("the principal was asked for %d times in one round", got)
	}
}

// Nobody tells whose an Authorization header is. Were its states bound to nobody, they
// would be good for everybody.
func TestAuthorizationWithoutAPrincipalFunctionIsDenied(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	s := d.serve(t, server.WithStateLess(true))
	for _, method := range methods {
		s.post(t, call{method: method}.message(modern), "zoe").internal(t)
		if text := d.log.wantInternal(t); !strings.Contains(text, "set Options.Principal") || strings.Contains(text, "zoe") {
			t.Errorf("the log says %q", text)
		}
		d.seen()
		token := s.post(t, call{method: method}.message(modern)).token(t)
		s.post(t, call{method: method, state: token}.message(modern), "zoe").refused(t)
		d.log.wantReason(t, binding.PrincipalError)
		if seen := d.seen(); len(seen) != 1 {
			t.Errorf("the handler saw %q", seen)
		}
	}
	token, err := newPolicy(t, newRing(t), binding.Options{}).Round(binding.Request{Method: binding.MethodReadResource, Target: resource}, binding.Principal{}).Seal(secretState)
	if err != nil {
		t.Fatal(err)
	}
	s.post(t, call{method: binding.MethodReadResource, state: token}.message(modern), "zoe").refused(t)
	d.log.wantReason(t, binding.PrincipalError)
}

type userKey struct{}

// userDesk binds states to the user that an HTTP middleware finds, here as it stands in
// the header.
func userDesk(t *testing.T, h handler) *desk {
	t.Helper()
	log := &logbook{}
	o := log.options()
	o.Principal = func(ctx context.Context) (binding.Principal, error) {
		if user, ok := ctx.Value(userKey{}).(string); ok {
			return binding.OAuthPrincipal("app", nil, &user), nil
		}
		return binding.Principal{}, nil
	}
	d := newDesk(h, mcpgo.Middleware(newPolicy(t, newRing(t), binding.Options{}), o))
	d.log = log
	return d
}

func findUser(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user := r.Header.Get("Authorization"); user != "" {
			r = r.WithContext(context.WithValue(r.Context(), userKey{}, user))
		}
		next.ServeHTTP(w, r)
	})
}

// In a session too, every request has its own user.
func TestPrincipalIsThatOfTheRequestAndNotOfTheSession(t *testing.T) {
	d := userDesk(t, func(_ context.Context, c call) (answer, error) {
		return answer{text: "so far", state: c.state + "+"}, nil
	})
	s := d.serve(t)
	s.open(t, "zoe")
	c := call{method: binding.MethodCallTool}
	c.state = s.post(t, c.message(legacy), "zoe").token(t)
	s.post(t, c.message(legacy), "bob").refused(t)
	d.log.wantReason(t, binding.WrongPrincipal)
	s.post(t, c.message(legacy)).refused(t)
	d.log.wantReason(t, binding.PrincipalDrift)
	s.post(t, c.message(legacy), "zoe").answer(t)
}
