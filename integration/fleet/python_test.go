package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/integration/peers"
)

const python = "python"

// pythonReasons are the words of the Python SDK's log for our reasons.
var pythonReasons = map[codec.Reason]string{
	"malformed": "malformed",
	"seal":      "seal",
	"request":   "request binding",
	"principal": "principal",
}

// startPython starts testdata/server.py.
func startPython(t *testing.T, c config) *instance {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := peers.Python(t.Context(), t, "testdata/server.py")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log := peers.Start(t, cmd)
	if _, err := stdin.Write(append(text, '\n')); err != nil {
		t.Fatalf("configuring the Python server: %v\n%s", err, log)
	}
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the Python server did not start: %v\n%s", err, log)
	}
	return &instance{
		name: python,
		url:  strings.TrimSpace(url),
		refusals: func() func(method string, reason codec.Reason) bool {
			offset := log.Len()
			return func(method string, reason codec.Reason) bool {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				return log.Await(ctx, offset, "requestState rejected on "+method+": "+pythonReasons[reason]+"\n")
			}
		},
	}
}
