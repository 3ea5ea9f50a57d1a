package cli

import (
	"testing"
	"time"
)

// A duration is shown as its flag takes it, whole and without units that are none.
func TestFlagDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 720 * time.Hour: "720h", 10 * time.Minute: "10m", 90 * time.Second: "1m30s", time.Hour + 5*time.Second: "1h0m5s",
		100*time.Hour + 30*time.Minute: "100h30m", 10 * time.Second: "10s", 1500 * time.Millisecond: "1.5s", 500 * time.Microsecond: "500µs",
		time.Hour + 10*time.Minute + 20*time.Second: "1h10m20s", 20 * time.Hour: "20h", time.Minute: "1m",
	} {
		got := flagDuration(d)
		if back, err := time.ParseDuration(got); got != want || err != nil || back != d {
			t.Errorf("%v is shown as %s, not %s, and read as %v (%v)", d, got, want, back, err)
		}
	}
}
