package gosdk

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec/local"
)

// Middleware returns a middleware that seals and unseals the state of tools/call,
// prompts/get and resources/read under a policy. Requests, notifications and results
// of other methods, and those without a state, pass as they are, the very same
// objects. Protocol version 2026-07-28 and the older ones are treated alike. It is
// safe for concurrent use, and may be added to many servers. o may be nil.
//
// It is for [mcp.Server.AddReceivingMiddleware]; elsewhere it protects nothing. Two
// things are easily got wrong:
//
// Add it last: in the last call of AddReceivingMiddleware, and as the first argument
// where one call adds several. What is added later runs outside: it sees tokens in
// place of states, a state in a result of its own goes out unsealed, and if it wraps
// errors the client no longer gets the error that is promised (the SDK drops the data
// and shows the text of the wrapper).
//
// Make the policy once, not in the getServer function that a stateless HTTP server
// calls for every request: a policy with a key of its own for each request (with
// [local.Ephemeral], say) refuses every retry. The log tells: the reason is
// unknown_key, and its hint names this cause. What is made outside of getServer may
// be added inside.
//
// Middleware panics if p is nil, since a server that starts without protection is
// worse than one that does not start.
func Middleware(p *binding.Policy, o *Options) mcp.Middleware {
	if p == nil {
		panic("gosdk: Middleware needs a policy; make one with binding.New and check its error, or use Ephemeral")
	}
	b := &boundary{policy: p}
	if o != nil {
		b.options = *o
	}
	return b.wrap
}

// Ephemeral returns a [Middleware] for a service of one process, which needs no
// secret: its key is random and lives as long as the middleware. A token lives 10
// minutes, and has no audience, since nobody else has the key.
//
// Every call makes another key. Tokens from before a restart, from another replica,
// or from the middleware of another call are refused: call it once, where the program
// starts, never in the getServer function of a stateless HTTP server. It too must be
// added last.
func Ephemeral(o *Options) mcp.Middleware {
	p, err := binding.New(local.Ephemeral(), binding.Options{NoAudience: true})
	if err != nil {
		panic("gosdk: a random key makes no policy: " + err.Error())
	}
	return Middleware(p, o)
}

// A boundary stands between the handlers, which know states, and the clients, which
// know tokens. It is immutable.
type boundary struct {
	policy  *binding.Policy
	options Options
}

func (b *boundary) wrap(next mcp.MethodHandler) mcp.MethodHandler {
	carriers := carriers()
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		c, ok := carriers[method]
		if !ok {
			return next(ctx, method, req)
		}
		in, err := c.open(req)
		if err != nil {
			return nil, b.failed(ctx, method, err)
		}
		// One round for both directions, so that principal and digest are found once;
		// none for the many requests that have nothing to do with states.
		var begun *binding.Round
		round := func() *binding.Round {
			if begun == nil {
				begun = b.policy.Round(in.bound, b.principal(ctx, req))
			}
			return begun
		}
		inner := req
		if in.state != "" {
			state, err := round().Unseal(in.state)
			if err != nil {
				return nil, b.refused(ctx, round().Refusal(in.state, err), err)
			}
			inner = in.with(state)
		}
		res, err := next(ctx, method, inner)
		if err != nil {
			return nil, err // a result beside an error goes nowhere
		}
		res, err = c.seal(res, func(state string) (string, error) { return round().Seal(state) })
		if err != nil {
			return nil, b.failed(ctx, method, err)
		}
		return res, nil
	}
}
