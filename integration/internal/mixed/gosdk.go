package mixed

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/middleware/gosdk"
)

var goOn = mcp.InputRequestMap{"go_on": &mcp.ElicitParams{Message: "Go on?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)}}

// GoSDK returns the server of the go-sdk, which answers in JSON. It is to be
// authenticated.
func GoSDK(name string, p *binding.Policy, o *gosdk.Options) http.Handler {
	server := GoSDKServer(name, p, o)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

// GoSDKServer returns the server of [GoSDK], for another transport.
func GoSDKServer(name string, p *binding.Policy, o *gosdk.Options) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
	callTool := func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, complete := respond(name, req.Params.RequestState)
		if !complete {
			return &mcp.CallToolResult{InputRequests: goOn, RequestState: text}, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	}
	for _, tool := range []string{"book", "cancel"} {
		server.AddTool(&mcp.Tool{Name: tool, InputSchema: json.RawMessage(`{"type":"object"}`)}, callTool)
	}
	server.AddPrompt(&mcp.Prompt{Name: "greet"}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		text, complete := respond(name, req.Params.RequestState)
		if !complete {
			return &mcp.GetPromptResult{InputRequests: goOn, RequestState: text}, nil
		}
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}, nil
	})
	server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "notes", URITemplate: "notes://{id}"}, func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		text, complete := respond(name, req.Params.RequestState)
		if !complete {
			return &mcp.ReadResourceResult{InputRequests: goOn, RequestState: text}, nil
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, Text: text}}}, nil
	})
	server.AddReceivingMiddleware(gosdk.Middleware(p, o))
	return server
}
