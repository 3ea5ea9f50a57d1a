// Package mixed has servers of both Go SDKs and of the official Python SDK that offer the
// same tools, prompts and resources to the same users, and a client that speaks to all
// of them: what a mixed fleet is made of.
package mixed

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// A Config is what the servers of a fleet have in common.
type Config struct {
	Secret    string          `json:"secret,omitempty"` // that seals, as text,
	Keys      json.RawMessage `json:"keys,omitempty"`   // or what keytool export has written
	TTL       float64         `json:"ttl,omitempty"`    // in seconds; 0 for the default
	Audience  string          `json:"audience"`
	Users     Users           `json:"users"`
	Framework string          `json:"framework,omitempty"` // of Python: PythonSDK, which is the default, or FastMCP
	Stream    bool            `json:"stream,omitempty"`    // of Python: answers are server-sent events
}

// The frameworks of Python.
const (
	PythonSDK = "mcp"
	FastMCP   = "fastmcp"
)

// Users are known by their bearer tokens.
type Users map[string]User

// A User is what a verified bearer token says.
type User struct {
	ClientID string `json:"client_id"`
	Issuer   string `json:"iss,omitempty"`
	Subject  string `json:"sub,omitempty"`
}

// What server.py has, too.
const (
	mark = "\xed\xa0\x80\U0001D11E" // begins every state; the first half is a lone surrogate

	// Rounds is how many rounds a request has before the one that completes it.
	Rounds = 3
)

// respond returns the next state of a server, or the text of the complete result: the
// names of all servers that the request has met.
func respond(name, state string) (text string, complete bool) {
	if state == "" {
		return mark + name, false
	}
	names, ok := strings.CutPrefix(state, mark)
	if !ok {
		return "the state came back damaged", true
	}
	if names += " " + name; len(strings.Fields(names)) > Rounds {
		return names, true
	}
	return mark + names, false
}

// Authenticate lets only users through.
func (u Users) Authenticate(handler http.Handler) http.Handler {
	bearer := auth.RequireBearerToken(u.verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	return bearer(handler)
}

// verify is an auth.TokenVerifier that looks a bearer token up.
func (u Users) verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	user, ok := u[token]
	if !ok {
		return nil, auth.ErrInvalidToken
	}
	info := &auth.TokenInfo{UserID: user.Subject, Extra: map[string]any{"client_id": user.ClientID}}
	if user.Issuer != "" {
		info.Extra["iss"] = user.Issuer
	}
	return info, nil
}
