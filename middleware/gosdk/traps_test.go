package gosdk_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/middleware/gosdk"
)

// wrapping is a middleware that gives errors a context, as many do.
func wrapping(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if err != nil {
			return nil, fmt.Errorf("handling %s: %w", method, err)
		}
		return res, nil
	}
}

func TestAddedLastTheErrorReachesTheClientWhole(t *testing.T) {
	fabricated := envelope(binding.MethodCallTool, quoted(tool), `"requestState":"fabricated"`)

	separately := newDesk(askFirst, wrapping)
	separately.AddReceivingMiddleware(gosdk.Ephemeral(nil))
	separately.serve(t, true).post(t, fabricated).refused(t)

	together := newDesk(askFirst, gosdk.Ephemeral(nil), wrapping) // the first argument is the outermost
	together.serve(t, true).post(t, fabricated).refused(t)
}

// What the documentation warns of: the state is safe, but the error is not the one
// that clients know.
func TestAddedFirstAnOuterMiddlewareSpoilsTheError(t *testing.T) {
	d := newDesk(askFirst, gosdk.Ephemeral(nil))
	d.AddReceivingMiddleware(wrapping)
	got := d.serve(t, true).post(t, envelope(binding.MethodCallTool, quoted(tool), `"requestState":"fabricated"`)).member(t, "error")
	if want := `{"code":-32602,"message":"handling tools/call: Invalid or expired requestState"}`; got != want {
		t.Errorf("the error is %s, want %s", got, want)
	}
	if seen := d.seen(); seen != nil {
		t.Errorf("the handler saw %q", seen)
	}
}

func TestMadeForEveryRequestEveryRetryIsRefused(t *testing.T) {
	log := &logbook{}
	s := serve(t, func(*http.Request) *mcp.Server {
		return newDesk(askFirst, gosdk.Ephemeral(log.options())).Server
	}, true)
	token := s.post(t, envelope(binding.MethodCallTool, quoted(tool), "")).token(t)
	s.post(t, envelope(binding.MethodCallTool, quoted(tool), `"requestState":`+quoted(token))).refused(t)
	if hint, _ := log.wantReason(t, codec.UnknownKey)["hint"].(string); !strings.Contains(hint, "made anew for each request") {
		t.Errorf("the hint is %q", hint)
	}
}

func TestMadeOnceItMayBeAddedForEveryRequest(t *testing.T) {
	middleware := gosdk.Ephemeral(nil)
	s := serve(t, func(*http.Request) *mcp.Server { return newDesk(askFirst, middleware).Server }, true)
	token := s.post(t, envelope(binding.MethodCallTool, quoted(tool), "")).token(t)
	s.post(t, envelope(binding.MethodCallTool, quoted(tool), `"requestState":`+quoted(token))).result(t)
}
