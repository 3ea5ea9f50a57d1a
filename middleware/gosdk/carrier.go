package gosdk

import (
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
)

// A carrier is one of the methods whose requests and results carry a state. It never
// changes what it is given.
type carrier interface {
	// open returns what the boundary needs of a request, as it is now: handlers may
	// change the arguments of a prompt, a map, in place.
	open(mcp.Request) (opened, error)

	// seal returns a result with its state replaced by the token that the function
	// makes of it, on a copy. A result without a state is returned as it is.
	seal(mcp.Result, func(state string) (token string, err error)) (mcp.Result, error)
}

// An opened request is one whose concrete type has been found.
type opened struct {
	bound binding.Request
	state string                         // "" if there is none
	with  func(state string) mcp.Request // the same request with another state, on a copy
}

// carriers returns the carriers by their methods.
func carriers() map[string]carrier {
	return map[string]carrier{
		binding.MethodCallTool: newShape(
			func(p *mcp.CallToolParamsRaw) binding.Request {
				return binding.Request{Method: binding.MethodCallTool, Target: p.Name, Arguments: p.Arguments, UniqueNames: true}
			},
			func(p *mcp.CallToolParamsRaw) *string { return &p.RequestState },
			func(r *mcp.CallToolResult) *string { return &r.RequestState },
			nil),
		binding.MethodGetPrompt: newShape(
			func(p *mcp.GetPromptParams) binding.Request {
				return binding.Request{Method: binding.MethodGetPrompt, Target: p.Name, Arguments: binding.PromptArguments(p.Arguments)}
			},
			func(p *mcp.GetPromptParams) *string { return &p.RequestState },
			func(r *mcp.GetPromptResult) *string { return &r.RequestState },
			nil),
		binding.MethodReadResource: newShape(
			func(p *mcp.ReadResourceParams) binding.Request {
				return binding.Request{Method: binding.MethodReadResource, Target: p.URI}
			},
			func(p *mcp.ReadResourceParams) *string { return &p.RequestState },
			func(r *mcp.ReadResourceResult) *string { return &r.RequestState },
			// A shared cache would hand one user's token to all the others.
			func(r *mcp.ReadResourceResult) { r.CacheScope = "private" }),
	}
}

// A shape is a carrier by the types of its params P and its results R.
type shape[P, R any, PP paramsOf[P], PR resultOf[R]] struct {
	bound    func(*P) binding.Request
	inbound  func(*P) (state *string)
	outbound func(*R) (state *string)
	sealed   func(*R) // what else changes on a sealed result; may be nil
}

type paramsOf[P any] interface {
	*P
	mcp.Params
}

type resultOf[R any] interface {
	*R
	mcp.Result
}

func newShape[P, R any, PP paramsOf[P], PR resultOf[R]](bound func(*P) binding.Request, inbound func(*P) *string, outbound func(*R) *string, sealed func(*R)) shape[P, R, PP, PR] {
	return shape[P, R, PP, PR]{bound, inbound, outbound, sealed}
}

func (s shape[P, R, PP, PR]) open(req mcp.Request) (opened, error) {
	r, ok := req.(*mcp.ServerRequest[PP])
	if !ok || r == nil || r.Params == nil {
		return opened{}, fmt.Errorf("a %T, or one without params, came instead of a %T with params", req, r)
	}
	return opened{
		bound: s.bound(r.Params),
		state: *s.inbound(r.Params),
		with: func(state string) mcp.Request {
			request, params := *r, *r.Params
			*s.inbound(&params) = state
			request.Params = &params
			return &request
		},
	}, nil
}

func (s shape[P, R, PP, PR]) seal(res mcp.Result, token func(string) (string, error)) (mcp.Result, error) {
	r, ok := res.(PR)
	if !ok {
		return res, holdsNoState(res)
	}
	if r == nil || *s.outbound(r) == "" {
		return res, nil
	}
	sealed := *r
	place := s.outbound(&sealed)
	var err error
	if *place, err = token(*place); err != nil {
		return nil, err
	}
	if s.sealed != nil {
		s.sealed(&sealed)
	}
	return PR(&sealed), nil
}

// holdsNoState returns an error if a result of a type that is not the method's own
// would show a state to the client. Such a result comes from another middleware; its
// fields are unknown here, so what counts is what it looks like on the wire.
func holdsNoState(res mcp.Result) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("a result of type %T panicked with a %T when it was encoded", res, v)
		}
	}()
	text, err := json.Marshal(res)
	if err != nil {
		return fmt.Errorf("a result of type %T cannot be encoded", res) // the error may quote it
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return fmt.Errorf("a result of type %T is no JSON object", res)
	}
	if _, ok := members["requestState"]; ok {
		return fmt.Errorf("a result of type %T has a requestState; only the SDK's own type for the method can be sealed", res)
	}
	return nil
}
