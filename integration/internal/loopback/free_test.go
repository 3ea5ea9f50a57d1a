package loopback_test

import (
	"net"
	"testing"

	"github.com/echoseal/echoseal/integration/internal/loopback"
)

// An address is given out once as long as its test runs, though nobody listens there yet.
func TestFree(t *testing.T) {
	given := make(map[string]bool)
	for range 400 { // of 15,000: two would be the same in all but one run of 200
		address := loopback.Free(t)
		if given[address] {
			t.Fatalf("%s was given out twice", address)
		}
		given[address] = true
	}
	for address := range given {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = listener.Close()
		break
	}
}
