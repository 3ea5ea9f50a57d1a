package clients

import (
	"context"
	"fmt"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/echoseal/echoseal/binding"
)

// An elicitor is a user of mcp-go's client.
type elicitor struct{ asked int }

func (e *elicitor) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	e.asked++
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action:  mcp.ElicitationResponseActionAccept,
		Content: map[string]any{"answer": fmt.Sprintf("answer %d", e.asked)},
	}}, nil
}

// runMCPGo runs a job with mcp-go's client.
func runMCPGo(t *testing.T, j job) (o outcome) {
	t.Helper()
	wire, err := transport.NewStreamableHTTP(j.URL)
	if err != nil {
		t.Fatal(err)
	}
	user := &elicitor{}
	c := client.NewClient(wire, client.WithElicitationHandler(user), client.WithProtocolVersion(j.Version))
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = j.Version
	hello.Params.ClientInfo = mcp.Implementation{Name: "client", Version: "1"}
	agreed, err := c.Initialize(t.Context(), hello)
	if err != nil {
		t.Fatal(err)
	}
	o.Version = agreed.ProtocolVersion
	if o.Text, err = callMCPGo(t.Context(), c, j); err != nil {
		o.Error = err.Error()
	}
	o.Asked = user.asked
	return o
}

func callMCPGo(ctx context.Context, c *client.Client, j job) (string, error) {
	switch j.Method {
	case binding.MethodCallTool:
		var req mcp.CallToolRequest
		req.Params.Name, req.Params.Arguments = j.Target, j.plan
		res, err := c.CallTool(ctx, req)
		if err != nil || len(res.Content) == 0 {
			return "", err
		}
		return res.Content[0].(mcp.TextContent).Text, nil
	case binding.MethodGetPrompt:
		var req mcp.GetPromptRequest
		req.Params.Name, req.Params.Arguments = j.Target, j.strings()
		res, err := c.GetPrompt(ctx, req)
		if err != nil || len(res.Messages) == 0 {
			return "", err
		}
		return res.Messages[0].Content.(mcp.TextContent).Text, nil
	}
	var req mcp.ReadResourceRequest
	req.Params.URI = j.Target
	res, err := c.ReadResource(ctx, req)
	if err != nil || len(res.Contents) == 0 {
		return "", err
	}
	return res.Contents[0].(mcp.TextResourceContents).Text, nil
}
