package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/middleware/gosdk"
)

// roundCosts are what rounds of a server cost.
type roundCosts struct {
	without float64   // Echoseal, in microseconds
	with    []float64 // Echoseal, over without
	longer  []float64 // without it, but with a state as long as its token, over without
}

// serverRounds compares rounds of a go-sdk server with Echoseal, and of one whose state is as
// long as the token, with those of the same server without either, by the paired method.
func serverRounds(ctx context.Context) (roundCosts, error) {
	state := works()[1].state
	policy, who, token, err := sealed(works()[1])
	if err != nil {
		return roundCosts{}, err
	}
	options := &gosdk.Options{
		Principal: func(context.Context, mcp.Request) (binding.Principal, error) { return who, nil },
		Logger:    slog.New(slog.DiscardHandler),
	}
	bare, endBare, err := roundsOf(ctx, state)
	if err != nil {
		return roundCosts{}, err
	}
	defer endBare()
	with, endWith, err := roundsOf(ctx, state, gosdk.Middleware(policy, options))
	if err != nil {
		return roundCosts{}, err
	}
	defer endWith()
	longer, endLonger, err := roundsOf(ctx, token)
	if err != nil {
		return roundCosts{}, err
	}
	defer endLonger()
	var costs roundCosts
	var without []float64
	for range runs {
		for _, side := range []struct {
			round  runner
			ratios *[]float64
		}{{with, &costs.with}, {longer, &costs.longer}} {
			c, err := compare(rounds, 10, bare, side.round)
			if err != nil {
				return costs, err
			}
			*side.ratios = append(*side.ratios, c.ratio)
			without = append(without, float64(c.floor)/1e3)
		}
	}
	costs.without = median(without)
	return costs, nil
}

// roundsOf connects a client to a server whose tool asks for input once more whenever it
// is asked; each round brings the state of the last one.
func roundsOf(ctx context.Context, state string, middleware ...mcp.Middleware) (round runner, end func(), err error) {
	server := mcp.NewServer(&mcp.Implementation{Name: audience, Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: tool, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if got := req.Params.RequestState; got != "" && got != state {
			return nil, errDiffers
		}
		return &mcp.CallToolResult{RequestState: state, InputRequests: mcp.InputRequestMap{"sure": &mcp.ElicitParams{
			Message:         "Go on?",
			RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
		}}}, nil
	})
	server.AddReceivingMiddleware(middleware...)
	here, there := mcp.NewInMemoryTransports()
	serverSide, err := server.Connect(ctx, there, nil)
	if err != nil {
		return nil, nil, err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"},
		&mcp.ClientOptions{MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}})
	session, err := client.Connect(ctx, here, nil)
	if err != nil {
		return nil, nil, err
	}
	end = func() {
		_ = session.Close()
		_ = serverSide.Wait()
	}
	held := ""
	round = each(func() error {
		res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments), RequestState: held})
		switch {
		case err != nil:
			return fmt.Errorf("a round: %w", err)
		case res.RequestState == "":
			return errors.New("a round gave no state")
		case len(middleware) > 0 == (res.RequestState == state):
			return errors.New("a round gave the state in the wrong form")
		}
		held = res.RequestState
		return nil
	})
	return round, end, nil
}
