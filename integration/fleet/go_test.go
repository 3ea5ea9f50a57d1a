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

// respond returns the next state, or the text of the complete result.
func respond(state string) (text string, complete bool) {
	if state == "" {
		return mark + "go", false
	}
	names, ok := strings.CutPrefix(state, mark)
	if !ok {
		return "the state came back damaged", true
	}
	if names += " go"; len(strings.Fields(names)) > rounds {
		return names, true
	}
	return mark + names, false
}

var goOn = mcp.InputRequestMap{"go_on": &mcp.ElicitParams{Message: "Go on?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)}}

// startGo starts the Go half of the fleet.
func startGo(t *testing.T, c config) *instance {
	t.Helper()
	ring, err := local.New([]byte(c.Secret))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := binding.New(ring, binding.Options{Audience: c.Audience})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var refused []binding.Refusal
	server := newServer()
	server.AddReceivingMiddleware(gosdk.Middleware(policy, &gosdk.Options{
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		OnRefuse: func(_ context.Context, r binding.Refusal) {
			mu.Lock()
			defer mu.Unlock()
			refused = append(refused, r)
		},
	}))
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	bearer := auth.RequireBearerToken(c.verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	loopback := httptest.NewServer(bearer(handler))
	t.Cleanup(loopback.Close)
	return &instance{
		name: "go",
		url:  loopback.URL,
		refusals: func() func(string, codec.Reason) bool {
			mu.Lock()
			defer mu.Unlock()
			refused = nil
			return func(method string, reason codec.Reason) bool {
				mu.Lock()
				defer mu.Unlock()
				return len(refused) == 1 && refused[0].Method == method && refused[0].Reason == reason
			}
		},
	}
}

func newServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "go", Version: "1"}, nil)
	for _, name := range []string{"book", "cancel"} {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, callTool)
	}
	server.AddPrompt(&mcp.Prompt{Name: "greet"}, getPrompt)
	server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "notes", URITemplate: "notes://{id}"}, readResource)
	return server
}

func callTool(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	text, complete := respond(req.Params.RequestState)
	if !complete {
		return &mcp.CallToolResult{InputRequests: goOn, RequestState: text}, nil
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
}

func getPrompt(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	text, complete := respond(req.Params.RequestState)
	if !complete {
		return &mcp.GetPromptResult{InputRequests: goOn, RequestState: text}, nil
	}
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}, nil
}

func readResource(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	text, complete := respond(req.Params.RequestState)
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
