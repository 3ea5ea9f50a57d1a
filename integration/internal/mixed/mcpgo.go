package mixed

import (
	"context"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/middleware/mcpgo"
)

// MCPGo returns the server of mcp-go. It is to be authenticated; o needs no Principal. Its
// resources finish rounds, but the SDK lets them begin none.
func MCPGo(name string, p *binding.Policy, o mcpgo.Options) http.Handler {
	o.Principal = oauthPrincipal
	s := server.NewMCPServer(name, "1", mcpgo.Middleware(p, &o))
	for _, tool := range []string{"book", "cancel"} {
		s.AddTool(mcp.NewTool(tool), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text, complete := respond(name, req.Params.RequestState)
			if !complete {
				return ask(text).ToolResult(), nil
			}
			return mcp.NewToolResultText(text), nil
		})
	}
	s.AddPrompt(mcp.NewPrompt("greet"), func(_ context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		text, complete := respond(name, req.Params.RequestState)
		if !complete {
			return ask(text).PromptResult(), nil
		}
		return mcp.NewGetPromptResult("", []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(text))}), nil
	})
	s.AddResourceTemplate(mcp.NewResourceTemplate("notes://{id}", "notes"), func(_ context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		text, _ := respond(name, req.Params.RequestState)
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: req.Params.URI, Text: text}}, nil
	})
	return mcpgo.Handler(server.NewStreamableHTTPServer(s, server.WithStateLess(true)))
}

func ask(state string) *server.InputRequestBuilder {
	return server.NewInputRequestBuilder(state).Elicit("go_on", mcp.ElicitationParams{
		Message:         "Go on?",
		RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
	})
}

// oauthPrincipal tells of a verified bearer token what gosdk does by default.
func oauthPrincipal(ctx context.Context) (binding.Principal, error) {
	info := auth.TokenInfoFromContext(ctx)
	if info == nil {
		return binding.Principal{}, nil
	}
	client, _ := info.Extra["client_id"].(string)
	var issuer, subject *string
	if iss, ok := info.Extra["iss"].(string); ok {
		issuer = &iss
	}
	if info.UserID != "" {
		subject = &info.UserID
	}
	return binding.OAuthPrincipal(client, issuer, subject), nil
}
