package local_test

import (
	"errors"
	"fmt"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
)

// A secret is changed in three steps, each rolled out to every replica before the
// next.
func Example() {
	older := []byte("0123456789abcdef0123456789abcdef") // from your secret manager: 32 random bytes or more
	newer := []byte("fedcba9876543210fedcba9876543210")

	before, _ := local.New(older)
	token, _ := before.Seal([]byte("a round in flight"))

	first, _ := local.New(older, newer)  // every replica learns the new secret
	second, _ := local.New(newer, older) // every replica seals with it
	for _, ring := range []*local.Ring{first, second} {
		payload, _ := ring.Unseal(token)
		fmt.Printf("%s\n", payload)
	}

	third, _ := local.New(newer) // the last token under the old one has expired
	_, err := third.Unseal(token)
	fmt.Println(errors.Is(err, codec.UnknownKey))
	// Output:
	// a round in flight
	// a round in flight
	// true
}
