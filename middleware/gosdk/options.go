package gosdk

import (
	"context"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
)

// Options configure the middleware. The zero value, and a nil pointer to it, is what
// most servers want. The options are copied; its functions and its logger must be safe
// for concurrent use.
type Options struct {
	// Principal tells who sent a request: [binding.Bound] for a user that is known,
	// the zero value for a server without authentication. A token is accepted only
	// from the principal for whom it was sealed.
	//
	// It is called at most once for a request, and only if there is a state to seal
	// or to unseal. The request is the one that came, with the token in it, and must
	// not be changed. An error or a panic denies: the token is refused, the state is
	// not sealed. The text of the error is logged, so it must not name who asked; of
	// a panic only the type of the value is.
	//
	// nil means the user of the bearer token that the SDK has verified (see
	// auth.RequireBearerToken), as OAuth below tells, and nobody if there is no such
	// token. A token that names neither a client nor a user is an error.
	Principal func(context.Context, mcp.Request) (binding.Principal, error)

	// OAuth names the parts of a verified bearer token. It does not matter if
	// Principal is set.
	OAuth OAuthKeys

	// Logger gets what the client must not see: the reason of every refusal at level
	// Warn, a failure to seal at level Error. nil means slog.Default(), as it is at
	// the time of the record.
	Logger *slog.Logger

	// OnRefuse is called for every refused token, after it was logged and before
	// the client is answered: for metrics. It gets no token, state or principal. A
	// panic is logged by its type and changes nothing. nil means no call.
	OnRefuse func(context.Context, binding.Refusal)
}
