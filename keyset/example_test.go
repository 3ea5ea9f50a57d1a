package keyset_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/echoseal/echoseal/keyset"
)

// A key service that stores no context itself authenticates these bytes with the data
// key.
func ExampleContextBytes() {
	context := keyset.EncryptionContext("billing", "6a1f9e0c-3c52-4e2b-9d3c-0f6f6f1f2a77", keyset.Data)
	fmt.Println(string(keyset.ContextBytes(context)))
	// Output:
	// {"echoseal:key":"6a1f9e0c-3c52-4e2b-9d3c-0f6f6f1f2a77","echoseal:keyset":"billing","echoseal:purpose":"data"}
}

// A program lists what it can open, and the operator says where the keys are.
func ExampleOpeners_Open() {
	openers := keyset.Openers{
		// localkek.Opener(), awskms.Opener(), …
		{Schemes: []string{"example"}, Open: func(context.Context, ...string) (keyset.KeyService, error) {
			return nil, &keyset.KeyError{Kind: keyset.Denied, Key: "example://payments", Operation: "unwrap", Remedy: "ask for the role key-user"}
		}},
	}
	_, err := openers.Open(context.Background(), "gcpkms://projects/p")
	fmt.Println(err)
	_, err = openers.Open(context.Background(), "example://payments")
	fmt.Println(err)
	fmt.Println(errors.Is(err, keyset.Denied))
	// Output:
	// invalid configuration: no key service has the scheme "gcpkms"; the schemes are example
	// unwrap with example://payments: denied; ask for the role key-user
	// true
}
