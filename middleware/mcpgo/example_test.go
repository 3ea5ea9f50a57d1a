package mcpgo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/middleware/mcpgo"
)

// transfer asks before it pays. What it must not forget meanwhile is its state.
func transfer(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req.Params.RequestState == "" {
		return server.NewInputRequestBuilder("quoted=42 EUR").Elicit("sure", mcp.ElicitationParams{
			Message:         "Pay 42 euros?",
			RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
		}).ToolResult(), nil
	}
	return mcp.NewToolResultText("paid, " + req.Params.RequestState), nil
}

// transferWith shows what a client gets for a call with a state.
func transferWith(s *server.MCPServer, state string) (result mcp.CallToolResult, refusal string) {
	message, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
		"name": "transfer", "requestState": state, "_meta": map[string]any{
			mcp.MetaKeyProtocolVersion:    mcp.ProtocolVersion20260728,
			mcp.MetaKeyClientCapabilities: map[string]any{"elicitation": map[string]any{}},
		},
	}})
	if err != nil {
		log.Fatal(err)
	}
	answer, err := json.Marshal(mcpgo.Response(s.HandleMessage(context.Background(), message)))
	if err != nil {
		log.Fatal(err)
	}
	var reply struct {
		Result mcp.CallToolResult
		Error  json.RawMessage
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		log.Fatal(err)
	}
	return reply.Result, string(reply.Error)
}

// A service of one process needs one option.
func Example() {
	s := server.NewMCPServer("bank", "1.0.0", mcpgo.Ephemeral(&mcpgo.Options{
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), // nil for slog.Default()
	}), server.WithRecovery())
	s.AddTool(mcp.NewTool("transfer"), transfer)

	first, _ := transferWith(s, "")
	fmt.Println("the client holds", first.RequestState[:3]+"…, readable:", strings.Contains(first.RequestState, "quoted=42 EUR"))
	second, _ := transferWith(s, first.RequestState)
	fmt.Println(second.Content[0].(mcp.TextContent).Text)
	_, refusal := transferWith(s, "quoted=1 EUR")
	fmt.Println(refusal)
	// Output:
	// the client holds v1.…, readable: false
	// paid, quoted=42 EUR
	// {"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}
}

type user struct{}

// Replicas of a service share a secret: a round that one begins, another finishes. A
// state is bound to the user that the server's own HTTP middleware has found.
func ExampleMiddleware() {
	secret := []byte("0123456789abcdef0123456789abcdef") // from your secret manager
	ring, err := local.New(secret)
	if err != nil {
		log.Fatal(err)
	}
	policy, err := binding.New(ring, binding.Options{Audience: "bank"})
	if err != nil {
		log.Fatal(err)
	}
	seal := mcpgo.Middleware(policy, &mcpgo.Options{
		Principal: func(ctx context.Context) (binding.Principal, error) {
			name, ok := ctx.Value(user{}).(string)
			if !ok {
				return binding.Principal{}, nil // nobody has logged in
			}
			return binding.Bound(name), nil
		},
	})
	newReplica := func() *server.MCPServer {
		s := server.NewMCPServer("bank", "1.0.0", seal)
		s.AddTool(mcp.NewTool("transfer"), transfer)
		return s
	}
	first, _ := transferWith(newReplica(), "")
	second, _ := transferWith(newReplica(), first.RequestState)
	fmt.Println(second.Content[0].(mcp.TextContent).Text)
	// Output:
	// paid, quoted=42 EUR
}

// Over HTTP the wrapper goes around the server of the SDK.
func ExampleHandler() {
	s := server.NewMCPServer("bank", "1.0.0", mcpgo.Ephemeral(&mcpgo.Options{
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}))
	s.AddTool(mcp.NewTool("transfer"), transfer)
	bank := httptest.NewServer(mcpgo.Handler(server.NewStreamableHTTPServer(s, server.WithStateLess(true))))
	defer bank.Close()

	const forged = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"transfer","requestState":"quoted=1 EUR"}}`
	res, err := http.Post(bank.URL, "application/json", strings.NewReader(forged))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	_, _ = io.Copy(os.Stdout, res.Body)
	// Output:
	// {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}}
}
