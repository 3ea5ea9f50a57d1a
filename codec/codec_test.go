package codec_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
)

func TestInvalidErrorIsFoundByItsReason(t *testing.T) {
	for _, reason := range []codec.Reason{codec.Malformed, codec.UnknownKey, codec.BadSeal, "a reason of another package"} {
		err := fmt.Errorf("wrapped: %w", &codec.InvalidError{Reason: reason, KID: "9f2c61ab"})
		var invalid *codec.InvalidError
		switch {
		case !errors.Is(err, reason):
			t.Errorf("%v is not %v", err, reason)
		case !errors.Is(err, codec.ErrInvalid):
			t.Errorf("%v is not ErrInvalid", err)
		case errors.Is(err, codec.ErrConfig) || errors.Is(err, codec.Reason("another")):
			t.Errorf("%v is too much", err)
		case !errors.As(err, &invalid) || invalid.KID != "9f2c61ab":
			t.Errorf("%v does not give its key id", err)
		}
	}
}

func TestErrorTextIsShort(t *testing.T) {
	for _, reason := range []codec.Reason{codec.Malformed, codec.UnknownKey, codec.BadSeal, "principal_drift"} {
		for _, kid := range []string{"", "9f2c61ab"} {
			if text := (&codec.InvalidError{Reason: reason, KID: kid}).Error(); len(text) > 40 {
				t.Errorf("%q has %d characters", text, len(text))
			}
		}
	}
}

// A codec turns bytes into a token; whatever it did not make itself, it refuses.
func Example() {
	var c codec.Codec = local.Ephemeral()
	token, _ := c.Seal([]byte("some bytes"))

	payload, err := c.Unseal(token)
	fmt.Printf("%s, %v\n", payload, err)

	_, err = c.Unseal(token + "A")
	var invalid *codec.InvalidError
	fmt.Println(errors.Is(err, codec.ErrInvalid), errors.As(err, &invalid), invalid.Reason)
	// Output:
	// some bytes, <nil>
	// true true malformed
}
