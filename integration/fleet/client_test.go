package fleet

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
)

// A config is what the servers of a fleet have in common.
type config struct {
	Secret   string          `json:"secret"`
	Audience string          `json:"audience"`
	Users    map[string]user `json:"users"` // by bearer token
}

// A user is what a verified bearer token says.
type user struct {
	ClientID string `json:"client_id"`
	Issuer   string `json:"iss,omitempty"`
	Subject  string `json:"sub,omitempty"`
}

// An instance is one server of the fleet.
type instance struct {
	name, url string

	// refusals begins to watch the log, and returns a function that reports whether
	// since then a token was refused on a method for a reason.
	refusals func() func(method string, reason codec.Reason) bool
}

// A request is one of tools/call, prompts/get and resources/read, as raw as it goes
// over the wire.
type request struct {
	method, target string
	arguments      string // raw JSON; "" for none
	bearer         string
}

// A response is either a result or the raw bytes of an error.
type response struct {
	state string // "" if complete
	text  string // "" if not
	err   string
}

// post sends a request, with a token unless it is empty, as protocol 2026-07-28 wants
// it over Streamable HTTP.
func (i *instance) post(t *testing.T, r request, token string) response {
	t.Helper()
	return i.send(t, r, r.body(token))
}

// send is post with a body that is made already.
func (i *instance) send(t *testing.T, r request, body []byte) response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, i.url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization":        "Bearer " + r.bearer,
		"Content-Type":         "application/json",
		"Accept":               "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method":           r.method,
		"Mcp-Name":             r.target,
	} {
		req.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, i.name, body)
}

func (r request) body(token string) []byte {
	body := `{"jsonrpc":"2.0","id":1,"method":"` + r.method + `","params":{`
	if r.method == binding.MethodReadResource {
		body += `"uri":"` + r.target + `"`
	} else {
		body += `"name":"` + r.target + `"`
	}
	if r.arguments != "" {
		body += `,"arguments":` + r.arguments
	}
	if token != "" {
		body += `,"inputResponses":{"go_on":{"action":"accept","content":{}}},"requestState":"` + token + `"`
	}
	return []byte(body + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"fleet","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`)
}

func parse(t *testing.T, name string, body []byte) response {
	t.Helper()
	type content struct {
		Text string `json:"text"`
	}
	var message struct {
		Error  json.RawMessage `json:"error"`
		Result *struct {
			ResultType   string    `json:"resultType"`
			RequestState string    `json:"requestState"`
			IsError      bool      `json:"isError"`
			Content      []content `json:"content"`
			Contents     []content `json:"contents"`
			Messages     []struct {
				Content content `json:"content"`
			} `json:"messages"`
		} `json:"result"`
	}
	if err := json.Unmarshal(body, &message); err != nil {
		t.Fatalf("%s answers no JSON: %v\n%s", name, err, body)
	}
	if message.Error != nil {
		return response{err: string(message.Error)}
	}
	result := message.Result
	switch {
	case result == nil || result.IsError:
	case result.ResultType == "input_required":
		return response{state: result.RequestState}
	case len(result.Content) > 0:
		return response{text: result.Content[0].Text}
	case len(result.Contents) > 0:
		return response{text: result.Contents[0].Text}
	case len(result.Messages) > 0:
		return response{text: result.Messages[0].Content.Text}
	}
	t.Fatalf("%s answers neither a result nor an error:\n%s", name, body)
	return response{}
}
