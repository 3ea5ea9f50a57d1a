// Direct is an MCP server on no SDK: JSON-RPC over standard input and output, with one
// tool, whose state package binding seals.
//
//	echo '{"id":1,"method":"tools/call","params":{"name":"refund"}}' | go run ./examples/direct
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"os"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec/local"
)

type object map[string]any

type request struct {
	ID     json.RawMessage // as it came; nil for a notification
	Method string
	Params struct {
		Name         string
		Arguments    json.RawMessage // as they came: a token is bound to them
		RequestState any             // a string, if the client is honest
	}
}

func main() {
	policy, err := binding.New(local.Ephemeral(), binding.Options{NoAudience: true}) // for one process
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))                          // the reason of a refusal exists only there
	for in := json.NewDecoder(os.Stdin); err == nil; {
		var r request
		if err = in.Decode(&r); err == nil && r.ID != nil {
			message := handle(policy, logger, r)
			message["jsonrpc"], message["id"] = "2.0", r.ID
			err = json.NewEncoder(os.Stdout).Encode(message)
		}
	}
	if !errors.Is(err, io.EOF) {
		log.Fatal(err)
	}
}

// handle stands where the middleware of an SDK does: the tool knows nothing of tokens.
func handle(policy *binding.Policy, logger *slog.Logger, r request) object {
	switch r.Method {
	case "server/discover":
		return object{"result": object{"supportedVersions": []string{"2026-07-28"}, "capabilities": object{"tools": object{}}}}
	case binding.MethodCallTool: // and, with prompts and resources, the other methods of binding
	default:
		return object{"error": object{"code": -32601, "message": "Method not found"}}
	}
	bound := binding.Request{Method: r.Method, Target: r.Params.Name, Arguments: r.Params.Arguments, UniqueNames: true}
	round := policy.Round(bound, binding.Principal{}) // nobody, as there is one client; else binding.Bound(user)
	var state string
	var err error
	if r.Params.RequestState != nil {
		token, _ := r.Params.RequestState.(string) // what is no string is refused, as "" is
		if state, err = round.Unseal(token); err != nil {
			logger.LogAttrs(context.Background(), slog.LevelWarn, "requestState refused", round.Refusal(token, err).Attrs()...)
			return object{"error": object{"code": binding.RefusedCode, "message": binding.RefusedMessage, "data": json.RawMessage(binding.RefusedData)}}
		}
	}
	if state == "asked" { // the tool: it asks before it pays, and remembers that it has
		return object{"result": object{"content": []object{{"type": "text", "text": "paid"}}}}
	}
	token, err := round.Seal("asked")
	if err != nil {
		logger.Error("requestState internal error", slog.Any("error", err))
		return object{"error": object{"code": binding.InternalCode, "message": binding.InternalMessage}}
	}
	ask := object{"method": "elicitation/create", "params": object{"mode": "form", "message": "Pay?", "requestedSchema": object{"type": "object", "properties": object{}}}}
	return object{"result": object{"resultType": "input_required", "inputRequests": object{"sure": ask}, "requestState": token}}
}
