package gosdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
)

// OAuthKeys are the keys of auth.TokenInfo.Extra under which the server's
// auth.TokenVerifier puts the parts of an access token that have no field of their
// own. Each value must be a string; nil counts as absent.
//
// The principal is [binding.OAuthPrincipal] of client, issuer and subject, the same
// that the MCP Python SDK makes of the same token.
type OAuthKeys struct {
	ClientID string // "" means "client_id" (RFC 9068, section 2.2); absent is the empty client id
	Issuer   string // "" means "iss" (RFC 9068, section 2.2)
	Subject  string // "" means "sub" (RFC 9068, section 2.2); used only where TokenInfo.UserID is empty
}

// principal tells who sent a request. Whatever goes wrong is a failed principal.
func (b *boundary) principal(ctx context.Context, req mcp.Request) (p binding.Principal) {
	defer func() {
		if v := recover(); v != nil {
			// The value may name who asked; its type does not.
			p = binding.FailedPrincipal(fmt.Errorf("the principal function panicked with a %T", v))
		}
	}()
	find := b.options.Principal
	if find == nil {
		find = b.options.OAuth.principal
	}
	p, err := find(ctx, req)
	if err != nil {
		return binding.FailedPrincipal(err)
	}
	return p
}

// principal is the default of [Options.Principal].
func (k OAuthKeys) principal(ctx context.Context, req mcp.Request) (binding.Principal, error) {
	info := tokenInfo(ctx, req)
	if info == nil {
		return binding.Principal{}, nil
	}
	client, err := extra(info, cmp.Or(k.ClientID, "client_id"))
	if err != nil {
		return binding.Principal{}, err
	}
	issuer, err := extra(info, cmp.Or(k.Issuer, "iss"))
	if err != nil {
		return binding.Principal{}, err
	}
	subject := &info.UserID
	if *subject == "" {
		if subject, err = extra(info, cmp.Or(k.Subject, "sub")); err != nil {
			return binding.Principal{}, err
		}
	}
	if isBlank(client) && isBlank(subject) {
		// Everyone with such a token would be one principal, whoever issued it.
		return binding.Principal{}, errors.New("the bearer token names neither a client nor a user; have the TokenVerifier set UserID, or name the keys of TokenInfo.Extra in Options.OAuth, or set Options.Principal")
	}
	if client == nil {
		client = new(string)
	}
	return binding.OAuthPrincipal(*client, issuer, subject), nil
}

// tokenInfo returns what was verified of the request's bearer token, or nil.
func tokenInfo(ctx context.Context, req mcp.Request) *auth.TokenInfo {
	if e := req.GetExtra(); e != nil {
		return e.TokenInfo
	}
	// The HTTP+SSE transport of older protocol versions leaves Extra out. There the
	// context is that of the request which opened the stream, on which the answer goes
	// out, too.
	return auth.TokenInfoFromContext(ctx)
}

// extra returns the text under a key of info.Extra, nil if there is none.
func extra(info *auth.TokenInfo, key string) (*string, error) {
	switch v := info.Extra[key].(type) {
	case nil:
		return nil, nil
	case string:
		return &v, nil
	default:
		return nil, fmt.Errorf("TokenInfo.Extra[%q] of the bearer token is a %T; it must be a string", key, v)
	}
}

func isBlank(s *string) bool { return s == nil || *s == "" }
