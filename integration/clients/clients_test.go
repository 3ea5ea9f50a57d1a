// Package clients tests that the SDKs' own clients finish what sealed servers begin:
// their automatic loops know nothing of tokens, and give them back as they came.
package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/integration/peers"
)

// A job is one call that a client has to finish.
type job struct {
	URL     string `json:"url"`
	Version string `json:"version"` // of the protocol
	Method  string `json:"method"`
	Target  string `json:"target"`
	plan
}

// A plan is how the server answers a call: first with its questions, one a round, then
// with rounds that have a state and nothing else. It is the arguments of tools and of
// prompts, and the path of a resource.
type plan struct {
	Questions int `json:"questions"`
	Waits     int `json:"waits"`
}

// An outcome is what the client has in the end.
type outcome struct {
	Version string `json:"version"` // of the protocol that the two agreed on
	Text    string `json:"text"`
	Asked   int    `json:"asked"` // how often its user was asked
	Error   string `json:"error"` // the JSON-RPC error, as far as the client shows it
}

// A loop is the client of an SDK. The nth answer of its user to a call is "answer n".
type loop struct {
	name     string
	start    func(*testing.T) func(job) outcome
	versions []string // of the protocol, besides the newest
}

const newest = "2026-07-28"

var loops = []loop{
	{"go-sdk", inProcess(runGoSDK), []string{"2025-11-25", "2025-06-18"}},
	{"mcp-go", inProcess(runMCPGo), []string{"2025-11-25", "2025-06-18"}},
	{"python", script(peers.Python, "testdata/client.py"), []string{"2025-11-25"}}, // asks for no older one
	{"typescript", script(peers.Node, "testdata/client.mjs"), []string{"2025-11-25", "2025-06-18"}},
}

// A call is a way for a server to be asked.
type call struct {
	method, target string
	plan
}

const (
	tool     = binding.MethodCallTool
	prompt   = binding.MethodGetPrompt
	resource = binding.MethodReadResource
)

// A server is one of an SDK.
type server struct {
	name   string
	start  func(t *testing.T, stateless bool) *site
	newest []call
	older  []call // the server asks by requests of its own, and cannot make a client wait

	// The methods by whose results some clients do not see that they are to wait: they
	// take them for complete, sealed or not.
	unseen map[string][]string
}

var servers = []server{{
	name:  "go-sdk",
	start: startGoSDK,
	newest: []call{
		{tool, "order", plan{1, 0}}, {tool, "order", plan{3, 0}}, {tool, "order", plan{0, 2}}, {tool, "order", plan{2, 2}},
		{prompt, "order", plan{2, 1}},
		{resource, "orders://2/1", plan{2, 1}},
	},
	// It asks a client only once.
	older: []call{{tool, "order", plan{1, 0}}, {prompt, "order", plan{1, 0}}, {resource, "orders://1/0", plan{1, 0}}},
}, {
	name:  "mcp-go",
	start: startMCPGo,
	newest: []call{
		{tool, "order", plan{1, 0}}, {tool, "order", plan{3, 0}}, {tool, "order", plan{0, 2}}, {tool, "order", plan{2, 2}},
		{prompt, "order", plan{2, 0}}, {prompt, "order", plan{2, 1}},
	},
	older: []call{{tool, "order", plan{1, 0}}, {tool, "order", plan{3, 0}}, {prompt, "order", plan{2, 0}}},
	// It leaves out inputRequests that are empty, and sends a tool's content that is.
	unseen: map[string][]string{"go-sdk": {tool, prompt}, "python": {tool}},
}}

func TestLoopsFinish(t *testing.T) {
	for _, server := range servers {
		for _, loop := range loops {
			t.Run(loop.name+" to "+server.name, func(t *testing.T) {
				run := loop.start(t)
				site := server.start(t, true)
				for _, call := range server.newest {
					want := ended{outcome{newest, told(call.plan), call.Questions, ""}, call.Questions + call.Waits}
					if call.Waits > 0 && slices.Contains(server.unseen[loop.name], call.method) {
						want.Text, want.tokens = "", call.Questions+1
					}
					finishes(t, run, site, call, want)
				}
				for _, version := range loop.versions {
					site := server.start(t, false)
					for _, call := range server.older {
						// The server goes round by itself, and no token leaves it.
						finishes(t, run, site, call, ended{outcome{version, told(call.plan), call.Questions, ""}, 0})
					}
				}
			})
		}
	}
}

// ended is what is known in the end: the client's outcome, and how many tokens it got.
type ended struct {
	outcome
	tokens int
}

func finishes(t *testing.T, run func(job) outcome, site *site, c call, want ended) {
	t.Helper()
	what := fmt.Sprintf("%s %s %+v in %s", c.method, c.target, c.plan, want.Version)
	site.reset()
	if got := run(job{site.url, want.Version, c.method, c.target, c.plan}); got != want.outcome {
		t.Errorf("%s: the client has %+v, want %+v\n%s", what, got, want.outcome, site.wire())
	}
	tokens := site.tokens()
	if len(slices.Compact(slices.Sorted(slices.Values(tokens)))) != want.tokens {
		t.Errorf("%s: the client got the tokens %q, want %d different ones", what, tokens, want.tokens)
	}
	for _, token := range tokens {
		if !strings.HasPrefix(token, "v1.") {
			t.Errorf("%s: the state %q is not sealed", what, token)
		}
	}
	if strings.Contains(site.wire(), "heard") {
		t.Errorf("%s: the state is readable on the wire", what)
	}
}

// A client that is given a state from elsewhere shows its caller the error that all SDKs
// send.
func TestClientsShowTheRefusal(t *testing.T) {
	for _, loop := range loops {
		t.Run(loop.name, func(t *testing.T) {
			run := loop.start(t)
			for _, server := range servers {
				site := server.start(t, true)
				site.meddle.Store(true)
				got := run(job{site.url, newest, tool, "order", plan{1, 0}})
				if !strings.Contains(got.Error, "Invalid or expired requestState") || got.Text != "" || got.Asked != 1 {
					t.Errorf("from %s the client has %+v", server.name, got)
				}
			}
		})
	}
}

func inProcess(run func(*testing.T, job) outcome) func(*testing.T) func(job) outcome {
	return func(t *testing.T) func(job) outcome {
		t.Helper()
		return func(j job) outcome { t.Helper(); return run(t, j) }
	}
}

// script starts a script that reads jobs from standard input and writes their outcomes
// to standard output, a line of JSON each, and ends with its input.
func script(interpreter func(context.Context, testing.TB, string, ...string) *exec.Cmd, name string) func(*testing.T) func(job) outcome {
	return func(t *testing.T) func(job) outcome {
		t.Helper()
		cmd := interpreter(t.Context(), t, name)
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		log := peers.Start(t, cmd)
		jobs, outcomes := json.NewEncoder(stdin), json.NewDecoder(stdout)
		return func(j job) (o outcome) {
			t.Helper()
			if err := jobs.Encode(j); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, log)
			}
			if err := outcomes.Decode(&o); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, log)
			}
			return o
		}
	}
}
