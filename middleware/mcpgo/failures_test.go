package mcpgo_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/middleware/mcpgo"
)

// A brokenCodec is a ring of which a test breaks one half.
type brokenCodec struct {
	ring   *local.Ring
	seal   func([]byte) (string, error) // nil for that of the ring
	unseal func(string) ([]byte, error) // nil for that of the ring
}

func (c brokenCodec) Seal(payload []byte) (string, error) {
	if c.seal != nil {
		return c.seal(payload)
	}
	return c.ring.Seal(payload)
}

func (c brokenCodec) Unseal(token string) ([]byte, error) {
	if c.unseal != nil {
		return c.unseal(token)
	}
	return c.ring.Unseal(token)
}

func TestUnexpectedFailureOfACodecIsARefusal(t *testing.T) {
	for name, unseal := range map[string]func(string) ([]byte, error){
		"error": func(string) ([]byte, error) { return nil, errors.New("the keys are stale") },
		"panic": func(string) ([]byte, error) { panic(secretState) },
	} {
		log := &logbook{}
		policy := newPolicy(t, brokenCodec{ring: newRing(t), unseal: unseal}, binding.Options{})
		d := newDesk(askFirst, mcpgo.Middleware(policy, log.options()))
		for _, method := range methods {
			token := d.mint(t, call{method: method})
			d.seen()
			d.mustRefuse(t, call{method: method, state: token})
			text, _ := log.wantReason(t, binding.CodecError)["error"].(string)
			if name == "error" && !strings.Contains(text, "the keys are stale") || text == "" || strings.Contains(text, secretState) {
				t.Errorf("%s: the log says %q", name, text)
			}
			d.wantUnseen(t)
		}
	}
}

func TestReasonOfACodecIsLoggedAndNeverSent(t *testing.T) {
	log := &logbook{}
	policy := newPolicy(t, brokenCodec{unseal: func(string) ([]byte, error) {
		return nil, &codec.InvalidError{Reason: "hsm_says_no", KID: "0badcafe"}
	}}, binding.Options{})
	d := newDesk(askFirst, mcpgo.Middleware(policy, log.options()))
	d.mustRefuse(t, call{method: binding.MethodCallTool, state: "anything"})
	if r := log.wantReason(t, "hsm_says_no"); r["error"] != nil {
		t.Errorf("the record of a refused token has an error: %v", r)
	}
}

func TestWhatCannotBeSealedIsAnInternalError(t *testing.T) {
	for name, test := range map[string]struct {
		seal  func([]byte) (string, error)
		state string
		log   string
	}{
		"codec error":   {func([]byte) (string, error) { return "", errors.New("the keys are stale") }, secretState, "the keys are stale"},
		"codec panic":   {func([]byte) (string, error) { panic(secretState) }, secretState, "panicked"},
		"invalid UTF-8": {nil, "\xff" + secretState, "UTF-8"},
		"too long":      {nil, strings.Repeat("x", 300_000), "MaxTokenChars"},
	} {
		log := &logbook{}
		policy := newPolicy(t, brokenCodec{ring: newRing(t), seal: test.seal}, binding.Options{})
		d := newDesk(func(context.Context, call) (answer, error) {
			return answer{state: test.state, needsInput: true}, nil
		}, mcpgo.Middleware(policy, log.options()))
		for _, method := range methods {
			d.try(t, call{method: method}).internal(t)
			if text := log.wantInternal(t); !strings.Contains(text, test.log) || strings.Contains(text, secretState) {
				t.Errorf("%s: the log says %q, want %q", name, text, test.log)
			}
			d.mustRefuse(t, call{method: method, state: "v1.AAAA"}) // the other direction goes on
			log.wantReason(t, codec.Malformed)
		}
	}
}

func TestErrorOfAHandlerPassesAsItIs(t *testing.T) {
	d := sealedDesk(t, func(context.Context, call) (answer, error) {
		return answer{state: secretState}, errors.New("sold out")
	}, binding.Options{})
	for _, method := range allMethods {
		d.try(t, call{method: method}).wantError(t, `{"code":-32603,"message":"sold out"}`)
	}
	if d.log.text() != "" {
		t.Errorf("an error of the handler was logged: %s", d.log.text())
	}
}

func TestStateBesideAnErrorGoesNowhere(t *testing.T) {
	var outside *mcp.CallToolResult
	d := newDesk(askFirst, server.WithToolHandlerMiddleware(func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			res, err := next(ctx, req)
			outside = res
			return res, err
		}
	}), mcpgo.Ephemeral(nil))
	d.AddTool(mcp.NewTool("both"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return answer{state: secretState}.ask().ToolResult(), errors.New("sold out")
	})
	d.try(t, call{method: binding.MethodCallTool, target: "both"}).wantError(t, `{"code":-32603,"message":"sold out"}`)
	if outside != nil {
		t.Errorf("the result %v came out", outside)
	}
}

// A handler that returns neither a result nor an error is the SDK's to judge.
func TestNilResultPasses(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	d.AddTool(mcp.NewTool("nothing"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, nil })
	d.AddPrompt(mcp.Prompt{Name: "nothing"}, func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) { return nil, nil })
	for _, method := range methods {
		if got := d.try(t, call{method: method, target: "nothing"}).member(t, "error"); !strings.HasPrefix(got, `{"code":-32603,`) {
			t.Errorf("%s: the error is %s", method, got)
		}
	}
	if d.log.text() != "" {
		t.Errorf("it was logged: %s", d.log.text())
	}
}

func TestPanicOfAHandlerIsTheSDKs(t *testing.T) {
	d := newDesk(func(context.Context, call) (answer, error) { panic("no tea") }, mcpgo.Ephemeral(nil), server.WithRecovery())
	if got := d.try(t, call{method: binding.MethodCallTool}).member(t, "error"); !strings.Contains(got, "no tea") {
		t.Errorf("the error is %s", got)
	}
}

func TestCancelledHandlerIsNotLogged(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := sealedDesk(t, func(ctx context.Context, _ call) (answer, error) {
		cancel()
		<-ctx.Done()
		return answer{}, ctx.Err()
	}, binding.Options{})
	d.tryAs(ctx, t, call{method: binding.MethodCallTool}, modern).wantError(t, `{"code":-32603,"message":"context canceled"}`)
	if d.log.text() != "" {
		t.Errorf("it was logged: %s", d.log.text())
	}
}

// The fields of a record are what dashboards and alerts are built on.
func TestRefusalIsLoggedWithStableFields(t *testing.T) {
	d := sealedDesk(t, askFirst, binding.Options{})
	c := call{method: binding.MethodCallTool}
	c.state = d.mint(t, c)
	c.target = "cancel"
	d.mustRefuse(t, c)
	r := d.log.wantReason(t, binding.WrongRequest)
	if got, want := slices.Sorted(maps.Keys(r)), []string{"kid", "level", "method", "msg", "reason", "time", "token_id"}; !slices.Equal(got, want) {
		t.Errorf("the record has %q, want %q", got, want)
	}
	if r["method"] != c.method || r["kid"] != newRing(t).KID(c.state) || r["token_id"] != binding.TokenID(c.state) {
		t.Errorf("the record is %v", r)
	}
}

func TestOnRefuseGetsWhatTheLogGets(t *testing.T) {
	now := newClock()
	var refusals []binding.Refusal
	policy := newPolicy(t, newRing(t), binding.Options{Now: now.Now})
	d := newDesk(askFirst, mcpgo.Middleware(policy, &mcpgo.Options{
		Logger:   slog.New(slog.DiscardHandler),
		OnRefuse: func(_ context.Context, r binding.Refusal) { refusals = append(refusals, r) },
	}))
	c := call{method: binding.MethodGetPrompt}
	c.state = d.mint(t, c)
	d.mustAccept(t, c)
	c.target = "farewell"
	d.mustRefuse(t, c)
	want := binding.Refusal{Method: c.method, Reason: binding.WrongRequest, KID: newRing(t).KID(c.state), TokenID: binding.TokenID(c.state), Time: now.Now()}
	if len(refusals) != 1 || refusals[0] != want {
		t.Errorf("OnRefuse got %v, want %v", refusals, want)
	}
}

func TestPanickingOnRefuseLetsNothingThrough(t *testing.T) {
	log := &logbook{}
	d := newDesk(tellState, mcpgo.Ephemeral(&mcpgo.Options{
		Logger:   log.logger(),
		OnRefuse: func(context.Context, binding.Refusal) { panic(secretState) },
	}))
	d.mustRefuse(t, call{method: binding.MethodCallTool, state: "v1.AAAA"})
	d.wantUnseen(t)
	records := log.records(t)
	if len(records) != 2 || records[1]["level"] != "ERROR" || records[1]["panic"] != "string" || strings.Contains(fmt.Sprint(records), secretState) {
		t.Errorf("the log is %v", records)
	}
}

func TestNilPolicyPanicsAtOnce(t *testing.T) {
	defer func() {
		if text, ok := recover().(string); !ok || !strings.Contains(text, "binding.New") {
			t.Errorf("the panic says %q, want the remedy", text)
		}
	}()
	mcpgo.Middleware(nil, nil)
}

func TestDefaultLoggerIsThatOfTheMoment(t *testing.T) {
	option := mcpgo.Ephemeral(nil)
	log, before := &logbook{}, slog.Default()
	slog.SetDefault(log.logger())
	defer slog.SetDefault(before)
	newDesk(tellState, option).mustRefuse(t, call{method: binding.MethodCallTool, state: "v1.AAAA"})
	log.wantReason(t, codec.Malformed)
}

// wrapping is a middleware that gives errors a context, as many do.
func wrapping(next server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res, err := next(ctx, req)
		if err != nil {
			return nil, fmt.Errorf("calling %s: %w", req.Params.Name, err)
		}
		return res, nil
	}
}

// What the documentation warns of: the state is safe, but the error is not the one
// that clients know.
func TestGivenAfterAnotherMiddlewareTheErrorIsSpoilt(t *testing.T) {
	c := call{method: binding.MethodCallTool, state: "fabricated"}
	first := newDesk(askFirst, mcpgo.Ephemeral(nil), server.WithToolHandlerMiddleware(wrapping))
	first.mustRefuse(t, c)
	used := newDesk(askFirst, mcpgo.Ephemeral(nil))
	used.Use(wrapping)
	used.mustRefuse(t, c)

	last := newDesk(askFirst, server.WithToolHandlerMiddleware(wrapping), mcpgo.Ephemeral(nil))
	last.try(t, c).wantError(t, `{"code":-32603,"message":"calling book: Invalid or expired requestState"}`)
	last.wantUnseen(t)
}
