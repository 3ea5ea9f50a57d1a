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
	for _, state := range []string{strings.Repeat("x", 128), strings.Repeat("x", 1024), strings.Repeat("x", 16<<10), strings.Repeat(`{"a":"b"},`, 102)} {
		testAllocations(t, p, principal, state)
	}
}

func testAllocations(t *testing.T, p *Policy, principal Principal, state string) {
	t.Helper()
	same := p.Round(call, principal)
	token := mustSeal(t, same, state)
	dst := make([]byte, 0, 2*len(token))
	for name, c := range map[string]struct {
		want float64
		run  func()
	}{
		"Seal":           {1, func() { _, _ = p.Round(call, principal).Seal(state) }},
		"Unseal":         {1, func() { _, _ = p.Round(call, principal).Unseal(token) }},
		"AppendSeal":     {0, func() { _, _ = p.Round(call, principal).AppendSeal(dst, state) }},
		"the same round": {0, func() { _, _ = same.AppendSeal(dst, state) }},
		"AppendUnseal":   {0, func() { _, _ = p.Round(call, principal).AppendUnseal(dst, token) }},
	} {
		if got := testing.AllocsPerRun(200, c.run); got > c.want {
			t.Errorf("%s of %d characters: %v allocations, want %v", name, len(state), got, c.want)
		}
	}
}
