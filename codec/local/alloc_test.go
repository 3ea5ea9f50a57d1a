//go:build !race

package local

import (
	"testing"
)

// Under the race detector sync.Pool drops some of what it is given.
func TestAppendAllocatesNothing(t *testing.T) {
	ring := Ephemeral()
	payload := make([]byte, 1024)
	buf := make([]byte, 0, 4096)
	token := mustSeal(t, ring)
	if n := testing.AllocsPerRun(100, func() { _, _ = ring.AppendSeal(buf, payload, noExpiry) }); n > 0 {
		t.Errorf("AppendSeal: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = ring.AppendUnseal(buf, token) }); n > 0 {
		t.Errorf("AppendUnseal: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = ring.Seal(payload) }); n > 1 {
		t.Errorf("Seal: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = ring.Unseal(token) }); n > 1 {
		t.Errorf("Unseal: %v allocations", n)
	}
}
