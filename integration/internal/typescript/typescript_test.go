package typescript_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/integration/internal/typescript"
)

const key = "0123456789abcdef0123456789abcdef"

// One secret and one prefix make no fleet: each side takes the other's tokens for none.
func TestNeitherSideTakesTheOthersTokens(t *testing.T) {
	ring, err := local.New([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := binding.New(ring, binding.Options{NoAudience: true})
	if err != nil {
		t.Fatal(err)
	}
	round := policy.Round(binding.Request{Method: binding.MethodCallTool, Target: "book"}, binding.Principal{})
	ours, err := round.Seal("amount=4200")
	if err != nil {
		t.Fatal(err)
	}
	tokens, reasons := typescript.Mint(t, key, ours)
	if len(tokens) != 8 {
		t.Errorf("there are %d tokens", len(tokens))
	}
	for _, token := range tokens {
		if _, err := round.Unseal(token.Token); !errors.Is(err, codec.Malformed) {
			t.Errorf("%s: %v, want %s", token.Name, err, codec.Malformed)
		}
	}
	if len(reasons) != 1 || reasons[0] != "malformed" {
		t.Errorf("the TypeScript SDK refuses ours for %q", reasons)
	}
}

// What tells its tokens from ours, and what anybody can read in them.
func TestTheFormatIsTheOneThatIsKnown(t *testing.T) {
	tokens, _ := typescript.Mint(t, key)
	for _, token := range tokens {
		parts := strings.Split(token.Token, ".")
		if len(parts) != 3 || parts[0] != "v1" {
			t.Fatalf("%s: %q", token.Name, token.Token)
		}
		body, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		mac, err := base64.RawURLEncoding.DecodeString(parts[2])
		if err != nil || len(mac) != 32 {
			t.Errorf("%s: the MAC has %d bytes, %v", token.Name, len(mac), err)
		}
		var envelope struct {
			P   json.RawMessage
			Exp float64
			B   string
		}
		if err := json.Unmarshal(body, &envelope); err != nil || string(envelope.P) != string(token.Payload) || envelope.Exp == 0 || (envelope.B != "") != token.Bound {
			t.Errorf("%s: the body is %s, %v", token.Name, body, err)
		}
	}
}
