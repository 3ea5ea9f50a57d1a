package clients

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
)

// runGoSDK runs a job with the go-sdk's client.
func runGoSDK(t *testing.T, j job) (o outcome) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			o.Asked++
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": fmt.Sprintf("answer %d", o.Asked)}}, nil
		},
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: j.URL}, &mcp.ClientSessionOptions{ProtocolVersion: j.Version})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	o.Version = session.InitializeResult().ProtocolVersion
	if o.Text, err = callGoSDK(t.Context(), session, j); err != nil {
		o.Error = err.Error()
	}
	return o
}

func callGoSDK(ctx context.Context, session *mcp.ClientSession, j job) (string, error) {
	switch j.Method {
	case binding.MethodCallTool:
		res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: j.Target, Arguments: j.plan})
		if err != nil || len(res.Content) == 0 {
			return "", err
		}
		return res.Content[0].(*mcp.TextContent).Text, nil
	case binding.MethodGetPrompt:
		res, err := session.GetPrompt(ctx, &mcp.GetPromptParams{Name: j.Target, Arguments: j.strings()})
		if err != nil || len(res.Messages) == 0 {
			return "", err
		}
		return res.Messages[0].Content.(*mcp.TextContent).Text, nil
	}
	res, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: j.Target})
	if err != nil || len(res.Contents) == 0 {
		return "", err
	}
	return res.Contents[0].Text, nil
}

// strings returns the plan as the arguments of a prompt.
func (p plan) strings() map[string]string {
	return map[string]string{"questions": strconv.Itoa(p.Questions), "waits": strconv.Itoa(p.Waits)}
}
