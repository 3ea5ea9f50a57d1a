package mixed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/echoseal/echoseal/binding"
)

// A Request is one of tools/call, prompts/get and resources/read, as raw as it goes
// over the wire.
type Request struct {
	Method, Target string
	Arguments      string // raw JSON; "" for none
	Bearer         string
}

// A Response is either a result or the raw bytes of an error.
type Response struct {
	State string // "" if complete
	Text  string // "" if not
	Err   string
}

// Frozen is the one error for every refused token, byte for byte.
const Frozen = `{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}`

// HTTP makes of the request one over Streamable HTTP, as protocol 2026-07-28 wants it.
func (r Request) HTTP(ctx context.Context, url string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Authorization":        "Bearer " + r.Bearer,
		"Content-Type":         "application/json",
		"Accept":               "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method":           r.Method,
		"Mcp-Name":             r.Target,
	} {
		req.Header.Set(name, value)
	}
	return req, nil
}

// Body returns the JSON-RPC request, with a token unless it is empty.
func (r Request) Body(token string) []byte {
	body := `{"jsonrpc":"2.0","id":1,"method":"` + r.Method + `","params":{`
	if r.Method == binding.MethodReadResource {
		body += `"uri":"` + r.Target + `"`
	} else {
		body += `"name":"` + r.Target + `"`
	}
	if r.Arguments != "" {
		body += `,"arguments":` + r.Arguments
	}
	if token != "" {
		body += `,"inputResponses":{"go_on":{"action":"accept","content":{}}},"requestState":"` + token + `"`
	}
	return []byte(body + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"fleet","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`)
}

// Send sends the request with a body that is made already.
func (r Request) Send(ctx context.Context, url string, body []byte) (Response, error) {
	req, err := r.HTTP(ctx, url, body)
	if err != nil {
		return Response{}, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return Response{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return Response{}, err
	}
	return Parse(text)
}

// Parse reads the answer of a server.
func Parse(body []byte) (Response, error) {
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
		return Response{}, fmt.Errorf("the answer is no JSON: %w\n%s", err, body)
	}
	if message.Error != nil {
		return Response{Err: string(message.Error)}, nil
	}
	result := message.Result
	switch {
	case result == nil || result.IsError:
	case result.ResultType == "input_required":
		return Response{State: result.RequestState}, nil
	case len(result.Content) > 0:
		return Response{Text: result.Content[0].Text}, nil
	case len(result.Contents) > 0:
		return Response{Text: result.Contents[0].Text}, nil
	case len(result.Messages) > 0:
		return Response{Text: result.Messages[0].Content.Text}, nil
	}
	return Response{}, fmt.Errorf("the answer is neither a result nor an error:\n%s", body)
}
