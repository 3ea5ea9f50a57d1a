package gosdk_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/middleware/gosdk"
)

// transfer asks before it pays. What it must not forget meanwhile is its state.
func transfer(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req.Params.RequestState == "" {
		return &mcp.CallToolResult{
			InputRequests: mcp.InputRequestMap{"sure": &mcp.ElicitParams{
				Message:         "Pay 42 euros?",
				RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
			}},
			RequestState: "quoted=42 EUR",
		}, nil
	}
	return &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.TextContent{Text: "paid, " + req.Params.RequestState},
	}}, nil
}

// connect connects a client that shows what it gets instead of answering by itself.
func connect(ctx context.Context, server *mcp.Server) *mcp.ClientSession {
	here, there := mcp.NewInMemoryTransports()
	if _, err := server.Connect(ctx, there, nil); err != nil {
		log.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"},
		&mcp.ClientOptions{MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}})
	session, err := client.Connect(ctx, here, nil)
	if err != nil {
		log.Fatal(err)
	}
	return session
}

func transferWith(ctx context.Context, client *mcp.ClientSession, state string) *mcp.CallToolResult {
	res, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "transfer", RequestState: state})
	if err != nil {
		log.Fatal(err)
	}
	return res
}

func newBank() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "bank", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "transfer", InputSchema: json.RawMessage(`{"type":"object"}`)}, transfer)
	return server
}

// A service of one process needs one line.
func Example() {
	ctx := context.Background()
	server := newBank()
	server.AddReceivingMiddleware(gosdk.Ephemeral(&gosdk.Options{
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), // nil for slog.Default()
	}))

	client := connect(ctx, server)
	defer client.Close()
	first := transferWith(ctx, client, "")
	fmt.Println("the client holds", first.RequestState[:3]+"…, readable:", strings.Contains(first.RequestState, "quoted=42 EUR"))
	second := transferWith(ctx, client, first.RequestState)
	fmt.Println(second.Content[0].(*mcp.TextContent).Text)
	_, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "transfer", RequestState: "quoted=1 EUR"})
	fmt.Println(err)
	// Output:
	// the client holds v1.…, readable: false
	// paid, quoted=42 EUR
	// calling "tools/call": Invalid or expired requestState
}

// Replicas of a service share a secret: a round that one begins, another finishes.
func ExampleMiddleware() {
	secret := make([]byte, 32) // in production: from a secret store
	_, _ = rand.Read(secret)

	newReplica := func() *mcp.Server {
		ring, err := local.New(secret)
		if err != nil {
			log.Fatal(err)
		}
		policy, err := binding.New(ring, binding.Options{Audience: "bank"})
		if err != nil {
			log.Fatal(err)
		}
		server := newBank()
		server.AddReceivingMiddleware(gosdk.Middleware(policy, nil))
		return server
	}

	ctx := context.Background()
	one, other := connect(ctx, newReplica()), connect(ctx, newReplica())
	defer one.Close()
	defer other.Close()
	first := transferWith(ctx, one, "")
	second := transferWith(ctx, other, first.RequestState)
	fmt.Println(second.Content[0].(*mcp.TextContent).Text)
	// Output:
	// paid, quoted=42 EUR
}
