package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	mcpgosdk "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/middleware/gosdk"
	"github.com/echoseal/echoseal/middleware/mcpgo"
)

// A memory is all that the server knows of a call between two rounds: it is the state.
type memory struct {
	Heard  []string `json:"heard"`
	Waited int      `json:"waited"`
}

// next takes a step: it returns the text of the complete result, or a question ("" for
// none) and the next state.
func (p plan) next(state, answer string) (text, question, nextState string, err error) {
	var m memory
	if state != "" {
		if err := json.Unmarshal([]byte(state), &m); err != nil {
			return "", "", "", err
		}
		if len(m.Heard) < p.Questions {
			m.Heard = append(m.Heard, answer)
		} else {
			m.Waited++
		}
	}
	switch {
	case len(m.Heard) < p.Questions:
		question = fmt.Sprintf("Question %d?", len(m.Heard)+1)
	case m.Waited >= p.Waits:
		return fmt.Sprintf("%s, waited %d", strings.Join(m.Heard, " and "), m.Waited), "", "", nil
	}
	next, err := json.Marshal(m)
	return "", question, string(next), err
}

// told is the text of the complete result if all goes well.
func told(p plan) string {
	answers := make([]string, p.Questions)
	for i := range answers {
		answers[i] = fmt.Sprintf("answer %d", i+1)
	}
	return fmt.Sprintf("%s, waited %d", strings.Join(answers, " and "), p.Waits)
}

var form = map[string]any{"type": "object", "properties": map[string]any{"answer": map[string]any{"type": "string"}}, "required": []string{"answer"}}

// parsePlan reads the arguments of a prompt, which are strings.
func parsePlan(questions, waits string) (p plan, err error) {
	if p.Questions, err = strconv.Atoi(questions); err != nil {
		return p, err
	}
	p.Waits, err = strconv.Atoi(waits)
	return p, err
}

// A site is a server on loopback and what it sent.
type site struct {
	url    string
	meddle atomic.Bool // replaces each token by one from elsewhere, as a client may

	mu   sync.Mutex
	sent bytes.Buffer
}

var states = regexp.MustCompile(`"requestState":"([^"]*)"`)

func (s *site) serve(t *testing.T, h http.Handler) *site {
	t.Helper()
	loopback := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.meddle.Load() {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			body = states.ReplaceAll(body, []byte(`"requestState":"v1.elsewhere"`))
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		h.ServeHTTP(&recorder{w, s}, r)
	}))
	t.Cleanup(loopback.Close)
	t.Cleanup(loopback.CloseClientConnections) // streams that a client left open; runs first
	s.url = loopback.URL
	return s
}

func (s *site) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent.Reset()
}

// wire returns what the server sent since the last reset.
func (s *site) wire() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent.String()
}

// tokens returns the states among it.
func (s *site) tokens() (all []string) {
	for _, match := range states.FindAllStringSubmatch(s.wire(), -1) {
		all = append(all, match[1])
	}
	return all
}

// A recorder keeps a copy of what is written.
type recorder struct {
	http.ResponseWriter
	site *site
}

func (r *recorder) Write(p []byte) (int, error) {
	r.site.mu.Lock()
	r.site.sent.Write(p)
	r.site.mu.Unlock()
	return r.ResponseWriter.Write(p)
}

func (r *recorder) Flush()                      { _ = http.NewResponseController(r.ResponseWriter).Flush() }
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func policy(t *testing.T) *binding.Policy {
	t.Helper()
	p, err := binding.New(local.Ephemeral(), binding.Options{NoAudience: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func logger(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// startGoSDK starts a server of the go-sdk, without sessions if it is for the newest
// version of the protocol, which has none.
func startGoSDK(t *testing.T, stateless bool) *site {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "go-sdk", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "order"}, func(_ context.Context, req *mcp.CallToolRequest, p plan) (*mcp.CallToolResult, any, error) {
		text, ask, state, err := stepGoSDK(p, req.Params.RequestState, req.Params.InputResponses)
		res := &mcp.CallToolResult{InputRequests: ask, RequestState: state}
		if ask == nil {
			res.Content = []mcp.Content{&mcp.TextContent{Text: text}}
		}
		return res, nil, err
	})
	server.AddPrompt(&mcp.Prompt{Name: "order"}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		p, err := parsePlan(req.Params.Arguments["questions"], req.Params.Arguments["waits"])
		if err != nil {
			return nil, err
		}
		text, ask, state, err := stepGoSDK(p, req.Params.RequestState, req.Params.InputResponses)
		res := &mcp.GetPromptResult{InputRequests: ask, RequestState: state}
		if ask == nil {
			res.Messages = []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}
		}
		return res, err
	})
	server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "orders", URITemplate: "orders://{questions}/{waits}"}, func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		questions, waits, _ := strings.Cut(strings.TrimPrefix(req.Params.URI, "orders://"), "/")
		p, err := parsePlan(questions, waits)
		if err != nil {
			return nil, err
		}
		text, ask, state, err := stepGoSDK(p, req.Params.RequestState, req.Params.InputResponses)
		res := &mcp.ReadResourceResult{InputRequests: ask, RequestState: state}
		switch {
		case len(ask) > 0:
			res.Contents = []*mcp.ResourceContents{} // older clients want some, even beside a question
		case ask == nil:
			res.Contents = []*mcp.ResourceContents{{URI: req.Params.URI, Text: text}}
		}
		return res, err
	})
	server.AddReceivingMiddleware(gosdk.Middleware(policy(t), &gosdk.Options{Logger: logger(t)}))
	return (&site{}).serve(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: stateless}))
}

// stepGoSDK takes a step. The questions are nil if the result is complete, and empty if
// the client is to wait.
func stepGoSDK(p plan, state string, in mcp.InputResponseMap) (text string, ask mcp.InputRequestMap, next string, err error) {
	answer := ""
	if filled, ok := in["ask"].(*mcp.ElicitResult); ok {
		answer, _ = filled.Content["answer"].(string)
	}
	text, question, next, err := p.next(state, answer)
	if next != "" {
		ask = mcp.InputRequestMap{}
	}
	if question != "" {
		ask["ask"] = &mcp.ElicitParams{Mode: "form", Message: question, RequestedSchema: form}
	}
	return text, ask, next, err
}

// startMCPGo starts a server of mcp-go.
func startMCPGo(t *testing.T, stateless bool) *site {
	t.Helper()
	server := mcpgoserver.NewMCPServer("mcp-go", "1", mcpgo.Middleware(policy(t), &mcpgo.Options{Logger: logger(t)}), mcpgoserver.WithElicitation())
	server.AddTool(mcpgosdk.NewTool("order", mcpgosdk.WithNumber("questions"), mcpgosdk.WithNumber("waits")), func(_ context.Context, req mcpgosdk.CallToolRequest) (*mcpgosdk.CallToolResult, error) {
		var p plan
		if err := req.BindArguments(&p); err != nil {
			return nil, err
		}
		text, ask, err := stepMCPGo(p, req.Params.MultiRoundTripParams)
		if err != nil || ask != nil {
			return ask.ToolResult(), err
		}
		return mcpgosdk.NewToolResultText(text), nil
	})
	server.AddPrompt(mcpgosdk.NewPrompt("order"), func(_ context.Context, req mcpgosdk.GetPromptRequest) (*mcpgosdk.GetPromptResult, error) {
		p, err := parsePlan(req.Params.Arguments["questions"], req.Params.Arguments["waits"])
		if err != nil {
			return nil, err
		}
		text, ask, err := stepMCPGo(p, req.Params.MultiRoundTripParams)
		if err != nil || ask != nil {
			return ask.PromptResult(), err
		}
		return mcpgosdk.NewGetPromptResult("", []mcpgosdk.PromptMessage{mcpgosdk.NewPromptMessage(mcpgosdk.RoleUser, mcpgosdk.NewTextContent(text))}), nil
	})
	return (&site{}).serve(t, mcpgo.Handler(mcpgoserver.NewStreamableHTTPServer(server, mcpgoserver.WithStateLess(stateless), mcpgoserver.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))))
}

// stepMCPGo takes a step. There is nothing to ask if the result is complete.
func stepMCPGo(p plan, in mcpgosdk.MultiRoundTripParams) (text string, ask *mcpgoserver.InputRequestBuilder, err error) {
	answer := ""
	if filled := mcpgoserver.ElicitationResponse(in.InputResponses, "ask"); filled != nil {
		content, _ := filled.Content.(map[string]any)
		answer, _ = content["answer"].(string)
	}
	text, question, next, err := p.next(in.RequestState, answer)
	if next != "" {
		ask = mcpgoserver.NewInputRequestBuilder(next)
	}
	if question != "" {
		ask.Elicit("ask", mcpgosdk.ElicitationParams{Mode: "form", Message: question, RequestedSchema: form})
	}
	return text, ask, err
}
