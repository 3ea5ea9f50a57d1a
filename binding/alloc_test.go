//go:build !race

package binding

import (
	"strings"
	"testing"

	"github.com/echoseal/echoseal/codec/local"
)

// Under the race detector sync.Pool drops some of what it is given.
func TestAllocations(t *testing.T) {
	p := mustPolicy(t, local.Ephemeral(), Options{Audience: "fleet"})
	principal := Bound("alice")
	state := strings.Repeat("x", 1024)
	token := mustSeal(t, p.Round(call, principal), state)
	dst := make([]byte, 0, 4096)
	for name, c := range map[string]struct {
		want float64
		run  func()
	}{
		"Seal":         {1, func() { _, _ = p.Round(call, principal).Seal(state) }},
		"Unseal":       {1, func() { _, _ = p.Round(call, principal).Unseal(token) }},
		"AppendSeal":   {0, func() { _, _ = p.Round(call, principal).AppendSeal(dst, state) }},
		"AppendUnseal": {0, func() { _, _ = p.Round(call, principal).AppendUnseal(dst, token) }},
	} {
		if got := testing.AllocsPerRun(200, c.run); got > c.want {
			t.Errorf("%s: %v allocations, want %v", name, got, c.want)
		}
	}
}
