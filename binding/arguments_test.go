package binding_test

import (
	"errors"
	"testing"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec/local"
)

func TestPromptArgumentsAreTheClients(t *testing.T) {
	for name, test := range map[string]struct {
		decoded map[string]string
		sent    string
	}{
		"none":            {nil, ``},
		"empty":           {map[string]string{}, `{}`},
		"order":           {map[string]string{"to": "Ada", "a": "1"}, `{"to": "Ada", "a": "1"}`},
		"what JSON hides": {map[string]string{"x": "<é>&\u2028\x00\U0001f511"}, `{"x":"<\u00e9>&\u2028\u0000\ud83d\udd11"}`},
	} {
		got, err := binding.Digest(binding.PromptArguments(test.decoded))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var sent []byte
		if test.sent != "" {
			sent = []byte(test.sent)
		}
		if want, err := binding.Digest(sent); err != nil || got != want {
			t.Errorf("%s: the digest is %s, want %s, %v", name, got, want, err)
		}
	}
}

func TestNothingIsBoundToPromptArgumentsThatAreNotText(t *testing.T) {
	policy, err := binding.New(local.Ephemeral(), binding.Options{NoAudience: true})
	if err != nil {
		t.Fatal(err)
	}
	round := func(arguments map[string]string) *binding.Round {
		return policy.Round(binding.Request{Method: binding.MethodGetPrompt, Target: "greet", Arguments: binding.PromptArguments(arguments)}, binding.Principal{})
	}
	good, err := round(map[string]string{"x": "\ufffd"}).Seal("state")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []map[string]string{{"x": "\xff"}, {"x": "\xed\xa0\x80"}, {"\xff": "x"}} {
		if _, err := round(bad).Seal("state"); err == nil {
			t.Errorf("%q was sealed for", bad)
		}
		if _, err := round(bad).Unseal(good); !errors.Is(err, binding.WrongRequest) {
			t.Errorf("%q: %v, want a refusal", bad, err)
		}
	}
}
