package conformance

import "github.com/modelcontextprotocol/go-sdk/mcp"

// A step is a handler reduced to what a multi round-trip is made of. It gets the state
// and what the client filled in, and either has a text for an answer, or asks again.
// No step checks its state: that is the middleware's part.
type step func(state string, in mcp.InputResponseMap, can *mcp.ClientCapabilities) (text string, ask mcp.InputRequestMap, next string)

// prefix is that of the names of all tools and of the prompt.
const prefix = "test_input_required_result_"

// The tools that the suite calls.
var tools = map[string]step{
	"elicitation": func(_ string, in mcp.InputResponseMap, _ *mcp.ClientCapabilities) (string, mcp.InputRequestMap, string) {
		if name := field(in, "user_name", "name"); name != nil {
			return "Hello, " + text(name) + "!", nil, ""
		}
		return "", mcp.InputRequestMap{"user_name": form("Who are you?", "name", "string")}, ""
	},
	"sampling": func(_ string, in mcp.InputResponseMap, _ *mcp.ClientCapabilities) (string, mcp.InputRequestMap, string) {
		if in["capital_question"] != nil {
			return "It is " + sampled(in["capital_question"]), nil, ""
		}
		return "", mcp.InputRequestMap{"capital_question": sample("Which city is the capital of France?")}, ""
	},
	"list_roots": func(_ string, in mcp.InputResponseMap, _ *mcp.ClientCapabilities) (string, mcp.InputRequestMap, string) {
		if roots, ok := in["client_roots"].(*mcp.ListRootsResult); ok && len(roots.Roots) > 0 {
			return "The first root is " + roots.Roots[0].URI, nil, ""
		}
		return "", mcp.InputRequestMap{"client_roots": &mcp.ListRootsParams{}}, ""
	},
	"request_state": confirm("state-ok, it was "),
	"multiple_inputs": func(state string, in mcp.InputResponseMap, _ *mcp.ClientCapabilities) (string, mcp.InputRequestMap, string) {
		if state != "" && in["user_name"] != nil && in["greeting"] != nil && in["client_roots"] != nil {
			return sampled(in["greeting"]) + ", " + text(field(in, "user_name", "name")), nil, ""
		}
		return "", mcp.InputRequestMap{
			"user_name":    form("Who are you?", "name", "string"),
			"greeting":     sample("Greet somebody."),
			"client_roots": &mcp.ListRootsParams{},
		}, "three questions"
	},
	"multi_round": func(state string, in mcp.InputResponseMap, _ *mcp.ClientCapabilities) (string, mcp.InputRequestMap, string) {
		switch state {
		case "":
			return "", mcp.InputRequestMap{"step1": form("Who are you?", "name", "string")}, "asked for the name"
		case "asked for the name":
			return "", mcp.InputRequestMap{"step2": form("Which colour do you like?", "color", "string")}, text(field(in, "step1", "name"))
		default:
			return state + " likes " + text(field(in, "step2", "color")), nil, ""
		}
	},
	"tampered_state": confirm("done after "),
	"capabilities": func(_ string, in mcp.InputResponseMap, can *mcp.ClientCapabilities) (string, mcp.InputRequestMap, string) {
		if len(in) > 0 {
			return "thank you", nil, ""
		}
		ask := mcp.InputRequestMap{}
		if can != nil && can.Elicitation != nil {
			ask["user_name"] = form("Who are you?", "name", "string")
		}
		if can != nil && can.Sampling != nil {
			ask["greeting"] = sample("Greet somebody.")
		}
		return "", ask, ""
	},
}

// prompt is the prompt that the suite gets.
func prompt(state string, in mcp.InputResponseMap, _ *mcp.ClientCapabilities) (string, mcp.InputRequestMap, string) {
	if state != "" {
		return text(field(in, "user_context", "context")), nil, ""
	}
	return "", mcp.InputRequestMap{"user_context": form("In which context?", "context", "string")}, "asked for the context"
}

// confirm asks for a confirmation and then believes whatever state it finds.
func confirm(answer string) step {
	return func(state string, in mcp.InputResponseMap, _ *mcp.ClientCapabilities) (string, mcp.InputRequestMap, string) {
		if state != "" && field(in, "confirm", "ok") != nil {
			return answer + state, nil, ""
		}
		return "", mcp.InputRequestMap{"confirm": form("Shall it be done?", "ok", "boolean")}, "waiting for a confirmation"
	}
}

func form(message, name, kind string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: map[string]any{
		"type":       "object",
		"properties": map[string]any{name: map[string]any{"type": kind}},
		"required":   []string{name},
	}}
}

func sample(question string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: 50, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: question}}}}
}

// field returns what the client filled into a field of a form, nil for nothing.
func field(in mcp.InputResponseMap, key, name string) any {
	if filled, ok := in[key].(*mcp.ElicitResult); ok && filled.Action == "accept" {
		return filled.Content[name]
	}
	return nil
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func sampled(in mcp.InputResponse) string {
	if message, ok := in.(*mcp.CreateMessageWithToolsResult); ok && len(message.Content) > 0 {
		if content, ok := message.Content[0].(*mcp.TextContent); ok {
			return content.Text
		}
	}
	return ""
}
