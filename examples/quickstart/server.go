package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server is an MCP server on a loopback port.
type server struct {
	address string
	http    *http.Server
}

// serve starts a server with the tools, behind a middleware unless that is nil.
func serve(ctx context.Context, middleware mcp.Middleware) (*server, error) {
	s := mcp.NewServer(&mcp.Implementation{Name: "refunds", Version: "1.0.0"}, nil)
	for _, name := range []string{"refund", "close_account"} {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "Asks for approval first."}, askFirst)
	}
	if middleware != nil {
		s.AddReceivingMiddleware(middleware)
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	running := &server{
		address: listener.Addr().String(),
		http: &http.Server{
			Handler:           auth.RequireBearerToken(verify, nil)(handler),
			ReadHeaderTimeout: 10 * time.Second,
		},
	}
	go func() { _ = running.http.Serve(listener) }() // ends with close
	return running, nil
}

func (s *server) close() { _ = s.http.Close() }

// verify stands in for the check of a real access token: here a token is the user's
// name.
func verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
}

type payment struct {
	Invoice string `json:"invoice"`
	Amount  int    `json:"amount"`
}

// askFirst is a tool in two rounds. It knows nothing of tokens: it writes its state,
// and reads it when the client comes back.
func askFirst(_ context.Context, req *mcp.CallToolRequest, in payment) (*mcp.CallToolResult, any, error) {
	if req.Params.RequestState == "" {
		state, err := json.Marshal(in)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{
			RequestState: string(state),
			InputRequests: mcp.InputRequestMap{"approve": &mcp.ElicitParams{
				Mode:            "form",
				Message:         fmt.Sprintf("Pay out %d for %s?", in.Amount, in.Invoice),
				RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
			}},
		}, nil, nil
	}
	var approved payment
	if err := json.Unmarshal([]byte(req.Params.RequestState), &approved); err != nil {
		return nil, nil, err
	}
	if reply, ok := req.Params.InputResponses["approve"].(*mcp.ElicitResult); !ok || reply.Action != "accept" {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "not approved"}}}, nil, nil
	}
	text := fmt.Sprintf("paid out %d for %s", approved.Amount, approved.Invoice)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
}
