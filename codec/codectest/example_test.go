package codectest_test

import (
	"testing"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/codectest"
	"github.com/echoseal/echoseal/codec/local"
)

// In the tests of a codec this is the whole of it.
func Example() {
	testMyCodec := func(t *testing.T) {
		codectest.Run(t, func(testing.TB) codec.Codec { return local.Ephemeral() })
	}
	_ = testMyCodec // go test runs it
	// Output:
}
