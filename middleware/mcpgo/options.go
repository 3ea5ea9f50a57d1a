package mcpgo

import (
	"context"
	"log/slog"

	"github.com/echoseal/echoseal/binding"
)

// Options configure the middleware. The zero value, and a nil pointer to it, is what
// a server without users wants. The options are copied; its functions and its logger
// must be safe for concurrent use.
type Options struct {
	// Principal tells who sent a request, from its context: what your HTTP middleware
	// verified and put there, or server.WithHTTPContextFunc. It returns
	// [binding.Bound] or [binding.OAuthPrincipal] for a user that is known, the zero
	// value for nobody. A token is accepted only from the principal for whom it was
	// sealed.
	//
	// It is called at most once for a call of a handler, and only if there is a state
	// to seal or to unseal. An error or a panic denies: the token is refused, the
	// state is not sealed. The text of the error is logged, so it must not name who
	// asked; of a panic only the type of the value is.
	//
	// nil means that there are no users. mcp-go verifies no bearer token, so nobody
	// could tell whose one is: with nil, a request that has an Authorization header is
	// an error, lest a state that one user's client was given be good for another's.
	Principal func(context.Context) (binding.Principal, error)

	// Logger gets what the client must not see: the reason of every refusal at level
	// Warn, a failure to seal at level Error. nil means slog.Default(), as it is at
	// the time of the record.
	Logger *slog.Logger

	// OnRefuse is called for every refused token, after it was logged and before
	// the client is answered: for metrics. It gets no token, state or principal. A
	// panic is logged by its type and changes nothing. nil means no call.
	OnRefuse func(context.Context, binding.Refusal)
}
