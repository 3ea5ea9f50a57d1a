package conformance

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/middleware/gosdk"
)

// serveGoSDK serves the suite's tools and its prompt over Streamable HTTP on loopback,
// and returns the URL.
func serveGoSDK(t *testing.T, p protection) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "conformance", Version: "1"}, nil)
	for name, step := range tools {
		tool := &mcp.Tool{Name: prefix + name, InputSchema: json.RawMessage(`{"type":"object"}`)}
		server.AddTool(tool, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text, ask, state := step(req.Params.RequestState, req.Params.InputResponses, req.ClientCapabilities())
			if text != "" {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
			}
			return &mcp.CallToolResult{InputRequests: ask, RequestState: state}, nil
		})
	}
	server.AddPrompt(&mcp.Prompt{Name: prefix + "prompt"}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		text, ask, state := prompt(req.Params.RequestState, req.Params.InputResponses, req.ClientCapabilities())
		if text != "" {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}, nil
		}
		return &mcp.GetPromptResult{InputRequests: ask, RequestState: state}, nil
	})
	if p.policy != nil {
		server.AddReceivingMiddleware(gosdk.Middleware(p.policy, &gosdk.Options{Logger: p.logger, OnRefuse: p.refused}))
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
	loopback := httptest.NewServer(handler)
	t.Cleanup(loopback.Close)
	return loopback.URL
}
