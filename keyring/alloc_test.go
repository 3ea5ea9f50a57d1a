//go:build !race

package keyring

import (
	"testing"
	"time"
)

// Under the race detector sync.Pool drops some of what it is given.
func TestAppendAllocatesNothing(t *testing.T) {
	r := newWorld(t).open()
	payload := make([]byte, 1024)
	buf := make([]byte, 0, 4096)
	token := seal(t, r)
	for name, f := range map[string]func(){
		"AppendSeal":             func() { _, _ = r.AppendSeal(buf, payload, time.Time{}) },
		"AppendSeal with a time": func() { _, _ = r.AppendSeal(buf, payload, origin.Add(time.Minute)) },
		"AppendUnseal":           func() { _, _ = r.AppendUnseal(buf, token) },
		"MaxTTL":                 func() { _ = r.MaxTTL() },
		"Err":                    func() { _ = r.Err() },
	} {
		if n := testing.AllocsPerRun(100, f); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
