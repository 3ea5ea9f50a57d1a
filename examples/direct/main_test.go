package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client of an SDK finishes what the server on none begins, and nothing else.
func TestDirectServesAnSDKsClient(t *testing.T) {
	program := filepath.Join(t.TempDir(), "direct")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	asked := 0
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked++
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
	})
	var log bytes.Buffer
	command := exec.Command(program)
	command.Stderr = &log
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := func(state string) (*mcp.CallToolResult, error) {
		return session.CallTool(t.Context(), &mcp.CallToolParams{Name: "refund", Arguments: map[string]any{"amount": 20}, RequestState: state})
	}
	result, err := call("")
	if err != nil {
		t.Fatal(err)
	}
	if text := result.Content[0].(*mcp.TextContent).Text; text != "paid" || asked != 1 {
		t.Errorf("the tool said %q after %d questions", text, asked)
	}
	var refused *jsonrpc.Error
	if _, err := call("asked"); !errors.As(err, &refused) || refused.Code != -32602 || string(refused.Data) != `{"reason":"invalid_request_state"}` {
		t.Errorf("a forged state: %v", err)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "reason=malformed") {
		t.Errorf("the log is %q", log.String())
	}
}

func TestStateThatIsNoStringIsRefused(t *testing.T) {
	const messages = `{"id":1,"method":"tools/call","params":{"name":"refund","requestState":7}}{"method":"note"}{"id":2,"method":"tools/call","params":{"name":"refund","requestState":null}}`
	var out bytes.Buffer
	command := exec.Command("go", "run", ".")
	command.Stdin, command.Stdout = strings.NewReader(messages), &out
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	answers := json.NewDecoder(&out)
	var first, second struct {
		Error  struct{ Code int }
		Result struct{ RequestState string }
	}
	if err := errors.Join(answers.Decode(&first), answers.Decode(&second)); err != nil {
		t.Fatal(err)
	}
	if first.Error.Code != -32602 || !strings.HasPrefix(second.Result.RequestState, "v1.") {
		t.Errorf("the answers are %+v and %+v", first, second)
	}
}

func TestDirectIsShort(t *testing.T) {
	text, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(text, []byte("\n")); lines >= 80 {
		t.Errorf("it has %d lines, not fewer than 80", lines)
	}
}

// A client finds its request by the id that it gave, a string or a number of any size.
func TestIDComesBackAsItWas(t *testing.T) {
	ids := []string{`9007199254740993`, `"a"`, `0`}
	var in, out bytes.Buffer
	for _, id := range ids {
		in.WriteString(`{"id":` + id + `,"method":"server/discover"}`)
	}
	command := exec.Command("go", "run", ".")
	command.Stdin, command.Stdout = &in, &out
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	answers := json.NewDecoder(&out)
	for _, id := range ids {
		var answer struct{ ID json.RawMessage }
		if err := answers.Decode(&answer); err != nil || string(answer.ID) != id {
			t.Errorf("the id %s comes back as %s, %v", id, answer.ID, err)
		}
	}
}
