package fleet

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/middleware/gosdk"
)

// What testdata/server.py has, too.
const (
	mark   = "\xed\xa0\x80\U0001D11E" // begins every state; the first half is a lone surrogate
	rounds = 3
)

// respond returns the next state of a server, or the text of the complete result.
func respond(name, state string) (text string, complete bool) {
	if state == "" {
		return mark + name, false
	}
	names, ok := strings.CutPrefix(state, mark)
	if !ok {
		return "the state came back damaged", true
	}
	if names += " " + name; len(strings.Fields(names)) > rounds {
		return names, true
	}
	return mark + names, false
}

var goOn = mcp.InputRequestMap{"go_on": &mcp.ElicitParams{Message: "Go on?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)}}

const goSDK = "go-sdk"

// startGoSDK starts the server of the go-sdk.
func startGoSDK(t *testing.T, c config) *instance {
	t.Helper()
	var watch watch
	server := newServer()
	server.AddReceivingMiddleware(gosdk.Middleware(c.policy(t), &gosdk.Options{
		Logger:   slog.New(slog.NewTextHandler(t.Output(), nil)),
		OnRefuse: watch.add,
	}))
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	return &instance{name: goSDK, url: c.serve(t, handler), refusals: watch.begin}
}

func (c config) policy(t *testing.T) *binding.Policy {
	t.Helper()
	ring, err := local.New([]byte(c.Secret))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := binding.New(ring, binding.Options{Audience: c.Audience, NoAudience: c.Audience == ""})
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// serve serves a handler on loopback to users with a bearer token, and returns the URL.
func (c config) serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	bearer := auth.RequireBearerToken(c.verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	loopback := httptest.NewServer(bearer(handler))
	t.Cleanup(loopback.Close)
	return loopback.URL
}

// A watch keeps the refusals of a server.
type watch struct {
	mu      sync.Mutex
	refused []binding.Refusal
}

func (w *watch) add(_ context.Context, r binding.Refusal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = append(w.refused, r)
}

// begin is that of instance.refusals.
func (w *watch) begin() func(string, codec.Reason) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = nil
	return func(method string, reason codec.Reason) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.refused) == 1 && w.refused[0].Method == method && w.refused[0].Reason == reason
	}
}

func newServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: goSDK, Version: "1"}, nil)
	for _, name := range []string{"book", "cancel"} {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, callTool)
	}
	server.AddPrompt(&mcp.Prompt{Name: "greet"}, getPrompt)
	server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "notes", URITemplate: "notes://{id}"}, readResource)
	return server
}

func callTool(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	text, complete := respond(goSDK, req.Params.RequestState)
	if !complete {
		return &mcp.CallToolResult{InputRequests: goOn, RequestState: text}, nil
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
}

func getPrompt(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	text, complete := respond(goSDK, req.Params.RequestState)
	if !complete {
		return &mcp.GetPromptResult{InputRequests: goOn, RequestState: text}, nil
	}
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}, nil
}

func readResource(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	text, complete := respond(goSDK, req.Params.RequestState)
	if !complete {
		return &mcp.ReadResourceResult{InputRequests: goOn, RequestState: text}, nil
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, Text: text}}}, nil
}

// verify is an auth.TokenVerifier that looks a bearer token up.
func (c config) verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	user, ok := c.Users[token]
	if !ok {
		return nil, auth.ErrInvalidToken
	}
	info := &auth.TokenInfo{UserID: user.Subject, Extra: map[string]any{"client_id": user.ClientID}}
	if user.Issuer != "" {
		info.Extra["iss"] = user.Issuer
	}
	return info, nil
}
