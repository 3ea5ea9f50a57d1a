package codectest_test

import (
	"testing"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/codectest"
	"github.com/echoseal/echoseal/codec/local"
)

// This is the whole test of a codec. (An example cannot run a test, so go test runs it
// as one.)
func TestCodec(t *testing.T) {
	codectest.Run(t, func(testing.TB) codec.Codec { return local.Ephemeral() })
}
