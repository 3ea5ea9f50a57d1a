package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyring"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/middleware/gosdk"
)

// serverRole is the argument that makes this program one of the servers.
const serverRole = "server"

// hostVariable is the environment variable with the name that a server reports: all of them
// are on one host here.
const hostVariable = "FLEET_HOST"

// listening is what a server tells on standard output once it is ready.
type listening struct{ MCP, Report string }

// runServer is a whole server: it opens the keyset, follows it, and serves a tool behind
// the middleware. It ends when standard input does, so that it never outlives the
// program that started it.
func runServer(ctx context.Context) error {
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	source, err := keyset.NewFile(os.Getenv("ECHOSEAL_STORE"))
	if err != nil {
		return err
	}
	services, err := keyset.Openers{localkek.Opener()}.Open(ctx, os.Getenv("ECHOSEAL_KEY_SERVICES"))
	if err != nil {
		return err
	}
	defer func() { _ = services.Close() }()
	ring, err := keyring.Open(ctx, keyring.Config{
		Name: os.Getenv("ECHOSEAL_NAME"), Source: source, Services: services, Every: poll, Host: os.Getenv(hostVariable), Logger: log,
	})
	if err != nil {
		return err
	}
	defer func() { _ = ring.Close() }()
	policy, err := binding.New(ring, binding.Options{Audience: "orders"})
	if err != nil {
		return err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "orders", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "order", Description: "Asks twice."}, order)
	server.AddReceivingMiddleware(gosdk.Middleware(policy, &gosdk.Options{Logger: log}))

	public, err := listen(ctx, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	if err != nil {
		return err
	}
	defer func() { _ = public.http.Close() }()
	operators := http.NewServeMux()
	operators.Handle("/report", fleet.Handler(ring.Report)) // never on the public port
	operators.Handle("/ready", ring.Readiness())
	private, err := listen(ctx, operators)
	if err != nil {
		return err
	}
	defer func() { _ = private.http.Close() }()
	if err := json.NewEncoder(os.Stdout).Encode(listening{public.address, private.address}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// A listener is an HTTP server on a free loopback port.
type listener struct {
	address string
	http    *http.Server
}

func listen(ctx context.Context, handler http.Handler) (*listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	running := &listener{l.Addr().String(), &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}}
	go func() { _ = running.http.Serve(l) }() // ends with Close
	return running, nil
}

func (l *listener) close() { _ = l.http.Close() }

type item struct {
	Article string `json:"article"`
}

// rounds is how many rounds an order takes.
const rounds = 3

// order is a tool in three rounds. It knows nothing of tokens: its state is the number of
// the round.
func order(_ context.Context, req *mcp.CallToolRequest, in item) (*mcp.CallToolResult, any, error) {
	round := 1
	if state := req.Params.RequestState; state != "" {
		if _, err := fmt.Sscanf(state, "round %d of "+in.Article, &round); err != nil {
			return nil, nil, errors.New("the state is not one of this tool")
		}
	}
	if round == rounds {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "ordered " + in.Article}}}, nil, nil
	}
	return &mcp.CallToolResult{
		RequestState: fmt.Sprintf("round %d of %s", round+1, in.Article),
		InputRequests: mcp.InputRequestMap{"confirm": &mcp.ElicitParams{
			Mode: "form", Message: "Go on?",
			RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
		}},
	}, nil, nil
}
