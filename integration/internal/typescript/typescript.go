// Package typescript mints tokens with the official TypeScript SDK
// (@modelcontextprotocol/server). They begin with v1. as ours do, and are another format:
// signed and not encrypted, v1.payload.mac.
package typescript

import (
	"bytes"
	"context"
	_ "embed" // for mint
	"encoding/json"
	"testing"
	"time"

	"github.com/echoseal/echoseal/integration/peers"
)

//go:embed mint.mjs
var mint string

// A Token is one that the SDK's codec made and verified.
type Token struct {
	Name    string          `json:"name"` // what is special about it: text, object, number, null, empty, long, bound or expired
	Token   string          `json:"token"`
	Payload json.RawMessage `json:"payload"` // the state, which anybody can read in the token
	Bound   bool            `json:"bound"`   // to a method and a user
}

// Mint mints tokens under a key, text of 32 bytes or more, and tells for which reason
// the codec refuses each of some others, "" if it does not. It skips the test if there
// are no peers.
func Mint(tb testing.TB, key string, others ...string) (tokens []Token, reasons []string) {
	tb.Helper()
	input, err := json.Marshal(map[string]any{"key": key, "others": append([]string{}, others...)})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	cmd := peers.Node(ctx, tb, "--input-type=module", "--eval", mint)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("minting: %v\n%s", err, stderr.Bytes())
	}
	var minted struct {
		Tokens  []Token
		Reasons []string
	}
	if err := json.Unmarshal(out, &minted); err != nil {
		tb.Fatalf("minting gave %q: %v", out, err)
	}
	return minted.Tokens, minted.Reasons
}
