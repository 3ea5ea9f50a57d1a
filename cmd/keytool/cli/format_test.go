package cli

import (
	"math"
	"testing"
	"time"
)

func TestShortDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Millisecond: "1ms", time.Nanosecond: "0s", 4 * time.Second: "4s", 90 * time.Second: "1m30s", 30*24*time.Hour + 4*time.Hour: "30d4h",
		-12 * time.Minute: "-12m", math.MaxInt64: "106751d23h",
		// What time.Sub returns for times that are too far apart.
		math.MinInt64: "-106751d23h",
	} {
		if got := shortDuration(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
