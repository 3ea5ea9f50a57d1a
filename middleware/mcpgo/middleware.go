package mcpgo

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec/local"
)

// Middleware returns an option that seals and unseals the state of tools/call and
// prompts/get, and unseals that of resources/read, under a policy. Requests and results
// without a state pass as they are, the very same objects. Protocol version 2026-07-28
// and the older ones are treated alike. It is safe for concurrent use, and may be given
// to many servers. o may be nil.
//
//	server.NewMCPServer("billing", "1.0.0", mcpgo.Middleware(policy, nil), …)
//
// Give it as the first option, or at least before every other one that adds a
// middleware (server.WithRecovery is one). What is given earlier runs outside: it sees
// tokens in place of states, a state in a result of its own goes out unsealed, and if
// it wraps errors the client no longer gets the error that is promised. What
// server.MCPServer.Use adds runs inside, as it should.
//
// The middleware alone keeps every bad state from the handlers. For the client to get
// the error that other SDKs send, wrap the server's way out, too: see [Handler],
// [Writer] and [Response].
//
// Middleware panics if p is nil, since a server that starts without protection is
// worse than one that does not start.
func Middleware(p *binding.Policy, o *Options) server.ServerOption {
	if p == nil {
		panic("mcpgo: Middleware needs a policy; make one with binding.New and check its error, or use Ephemeral")
	}
	b := &boundary{policy: p}
	if o != nil {
		b.options = *o
	}
	return func(s *server.MCPServer) {
		server.WithToolHandlerMiddleware(b.tools)(s)
		server.WithPromptHandlerMiddleware(b.prompts)(s)
		server.WithResourceHandlerMiddleware(b.resources)(s)
	}
}

// Ephemeral returns a [Middleware] for a service of one process, which needs no
// secret: its key is random and lives as long as the option. A token lives 10 minutes,
// and has no audience, since nobody else has the key.
//
// Every call makes another key. Tokens from before a restart, from another replica, or
// from a server with the option of another call are refused.
func Ephemeral(o *Options) server.ServerOption {
	p, err := binding.New(local.Ephemeral(), binding.Options{NoAudience: true})
	if err != nil {
		panic("mcpgo: a random key makes no policy: " + err.Error())
	}
	return Middleware(p, o)
}

// A boundary stands between the handlers, which know states, and the clients, which
// know tokens. It is immutable. Its methods get requests by value, so what they change
// is their own.
type boundary struct {
	policy  *binding.Policy
	options Options
}

func (b *boundary) tools(next server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r := round{boundary: b, header: req.Header, bound: binding.Request{
			Method:      binding.MethodCallTool,
			Target:      req.Params.Name,
			Arguments:   arguments(req.Params),
			UniqueNames: true,
		}}
		if err := r.unseal(ctx, &req.Params.RequestState); err != nil {
			return nil, err
		}
		res, err := next(ctx, req)
		if err != nil {
			return nil, err // a result beside an error goes nowhere
		}
		if res == nil || res.RequestState == "" {
			return res, nil
		}
		sealed := *res
		if err := r.seal(ctx, &sealed.RequestState); err != nil {
			return nil, err
		}
		return &sealed, nil
	}
}

func (b *boundary) prompts(next server.PromptHandlerFunc) server.PromptHandlerFunc {
	return func(ctx context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		r := round{boundary: b, header: req.Header, bound: binding.Request{
			Method:    binding.MethodGetPrompt,
			Target:    req.Params.Name,
			Arguments: binding.PromptArguments(req.Params.Arguments), // now: the handler may change the map
		}}
		if err := r.unseal(ctx, &req.Params.RequestState); err != nil {
			return nil, err
		}
		res, err := next(ctx, req)
		if err != nil {
			return nil, err
		}
		if res == nil || res.RequestState == "" {
			return res, nil
		}
		sealed := *res
		if err := r.seal(ctx, &sealed.RequestState); err != nil {
			return nil, err
		}
		return &sealed, nil
	}
}

// resources has nothing to seal: the handlers of the SDK return contents, and no state.
// But a client can send one, and a server on another SDK may have sealed it.
func (b *boundary) resources(next server.ResourceHandlerFunc) server.ResourceHandlerFunc {
	return func(ctx context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		r := round{boundary: b, header: req.Header, bound: binding.Request{
			Method: binding.MethodReadResource,
			Target: req.Params.URI,
		}}
		if err := r.unseal(ctx, &req.Params.RequestState); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

// arguments returns the bytes from which the handler's arguments are decoded. A request
// that another middleware made has none; its arguments are encoded as BindArguments of
// the SDK does.
func arguments(params mcp.CallToolParams) []byte {
	if len(params.RawArguments) > 0 || params.Arguments == nil {
		return params.RawArguments
	}
	text, err := json.Marshal(params.Arguments)
	if err != nil {
		return []byte("?") // no JSON: nothing can be bound to it
	}
	return text
}

// A round is one call of a handler.
type round struct {
	*boundary
	header http.Header
	bound  binding.Request
	begun  *binding.Round // nil until there is a state
}

// begin returns one round for both directions, so that principal and digest are found
// once; none is begun for the many requests that have nothing to do with states.
func (r *round) begin(ctx context.Context) *binding.Round {
	if r.begun == nil {
		r.begun = r.policy.Round(r.bound, r.principal(ctx, r.header))
	}
	return r.begun
}

// unseal puts the state in place of the token that came.
func (r *round) unseal(ctx context.Context, place *string) error {
	token := *place
	if token == "" {
		return nil
	}
	state, err := r.begin(ctx).Unseal(token)
	if err != nil {
		return r.refused(ctx, r.begun.Refusal(token, err), err)
	}
	*place = state
	return nil
}

// seal puts a token in place of the state that the handler wrote.
func (r *round) seal(ctx context.Context, place *string) error {
	token, err := r.begin(ctx).Seal(*place)
	if err != nil {
		return r.failed(ctx, r.bound.Method, err)
	}
	*place = token
	return nil
}
