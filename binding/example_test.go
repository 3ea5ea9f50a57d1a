package binding_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec/local"
)

// A server on an SDK without a middleware seals the state of its answer, and opens
// the token that comes back with the next request.
func Example() {
	ring, err := local.New([]byte("0123456789abcdef0123456789abcdef")) // from your secret manager
	if err != nil {
		log.Fatal(err)
	}
	policy, err := binding.New(ring, binding.Options{Audience: "billing"})
	if err != nil {
		log.Fatal(err)
	}

	request := binding.Request{
		Method:    binding.MethodCallTool,
		Target:    "refund",
		Arguments: []byte(`{"invoice":"A-17","amount":20}`), // as they came in
	}
	token, err := policy.Round(request, binding.Bound("alice")).Seal("asked for approval")
	if err != nil {
		log.Fatal(err)
	}

	// The retry may come to another replica. It has to be the same request.
	state, err := policy.Round(request, binding.Bound("alice")).Unseal(token)
	fmt.Println(state, err)

	request.Arguments = []byte(`{"invoice":"A-17","amount":2000}`)
	round := policy.Round(request, binding.Bound("alice"))
	_, err = round.Unseal(token)
	fmt.Println(errors.Is(err, binding.WrongRequest))
	fmt.Println(round.Refusal(token, err).Reason) // for the log; the client gets binding.RefusedMessage
	// Output:
	// asked for approval <nil>
	// true
	// request
}

func ExampleRound_Explain() {
	policy, err := binding.New(local.Ephemeral(), binding.Options{NoAudience: true})
	if err != nil {
		log.Fatal(err)
	}
	request := binding.Request{Method: binding.MethodReadResource, Target: "file:///report"}
	token, err := policy.Round(request, binding.Principal{}).Seal("page 2")
	if err != nil {
		log.Fatal(err)
	}
	request.Target = "file:///salaries"
	for _, check := range policy.Round(request, binding.Bound("alice")).Explain(token).Checks {
		if check.Outcome == binding.Failed {
			fmt.Printf("%s: %s\n", check.Name, check.Detail)
		}
	}
	// Output:
	// request: the token is for "file:///report", the request names "file:///salaries"
	// principal_drift: the request has a principal, the token is bound to none
}
