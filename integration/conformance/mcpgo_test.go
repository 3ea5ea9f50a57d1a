package conformance

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/middleware/mcpgo"
)

// serveMCPGo is serveGoSDK on the other SDK.
func serveMCPGo(t *testing.T, p protection) string {
	t.Helper()
	options := []server.ServerOption{}
	if p.policy != nil {
		options = append(options, mcpgo.Middleware(p.policy, &mcpgo.Options{Logger: p.logger, OnRefuse: p.refused}))
	}
	s := server.NewMCPServer("conformance", "1", options...)
	for name, step := range tools {
		s.AddTool(mcp.NewTool(prefix+name), func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text, ask, err := take(ctx, step, req.Params.MultiRoundTripParams)
			switch {
			case err != nil:
				return nil, err
			case text != "":
				return mcp.NewToolResultText(text), nil
			}
			res := server.NewInputRequestBuilder("").ToolResult()
			res.MultiRoundTripResult = ask
			return res, nil
		})
	}
	s.AddPrompt(mcp.NewPrompt(prefix+"prompt"), func(ctx context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		text, ask, err := take(ctx, prompt, req.Params.MultiRoundTripParams)
		switch {
		case err != nil:
			return nil, err
		case text != "":
			return mcp.NewGetPromptResult("", []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(text))}), nil
		}
		res := server.NewInputRequestBuilder("").PromptResult()
		res.MultiRoundTripResult = ask
		return res, nil
	})
	var handler http.Handler = server.NewStreamableHTTPServer(s, server.WithStateLess(true))
	if p.policy != nil {
		handler = mcpgo.Handler(handler)
	}
	loopback := httptest.NewServer(handler)
	t.Cleanup(loopback.Close)
	return loopback.URL
}

// take takes a step. What goes in and comes out is of the one SDK here and of the other
// there, and the same on the wire.
func take(ctx context.Context, step step, came mcp.MultiRoundTripParams) (text string, ask mcp.MultiRoundTripResult, err error) {
	var in gosdk.InputResponseMap
	if came.InputResponses != nil {
		if err := transcode(came.InputResponses, &in); err != nil {
			return "", ask, err
		}
	}
	var can *gosdk.ClientCapabilities
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.ClientCapabilities != nil {
		if err := transcode(info.ClientCapabilities, &can); err != nil {
			return "", ask, err
		}
	}
	text, requests, state := step(came.RequestState, in, can)
	ask.RequestState = state
	return text, ask, transcode(requests, &ask.InputRequests)
}

func transcode(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}
