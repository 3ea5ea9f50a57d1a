package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// refund is the call that everything here is about.
var refund = mcp.CallToolParams{Name: "refund", Arguments: map[string]any{"invoice": "A-17", "amount": 20}}

// connect returns a client that leaves the rounds to us, so that what it holds
// between them can be seen and changed.
func (s *server) connect(ctx context.Context, user string) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "quickstart", Version: "1.0.0"}, &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
	})
	return client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:   "http://" + s.address,
		HTTPClient: &http.Client{Transport: asUser(user)},
	}, nil)
}

// leave ends a session; there is nothing to do if that fails.
func leave(client *mcp.ClientSession) { _ = client.Close() }

// asUser sends requests with a user's access token.
type asUser string

func (user asUser) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(user))
	return http.DefaultTransport.RoundTrip(r)
}

// begin makes a call and returns the state that the server gives to the client.
func begin(ctx context.Context, client *mcp.ClientSession, params mcp.CallToolParams) (state string, err error) {
	result, err := client.CallTool(ctx, &params)
	switch {
	case err != nil:
		return "", err
	case !result.NeedsInput() || result.RequestState == "":
		return "", errors.New("the server did not ask for approval")
	}
	return result.RequestState, nil
}

// finish makes a call again, with the approval and what the server gave.
func finish(ctx context.Context, client *mcp.ClientSession, params mcp.CallToolParams, state string) (answer string, err error) {
	params.RequestState = state
	params.InputResponses = mcp.InputResponseMap{"approve": &mcp.ElicitResult{Action: "accept"}}
	result, err := client.CallTool(ctx, &params)
	if err != nil {
		return "", err
	}
	if len(result.Content) == 1 {
		if text, ok := result.Content[0].(*mcp.TextContent); ok && !result.IsError {
			return text.Text, nil
		}
	}
	return "", errors.New("the tool did not answer")
}
