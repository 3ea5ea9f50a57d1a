package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/echoseal/echoseal/rotation"
)

// formatTime writes a time for JSON: RFC 3339, UTC, whole seconds, rounded up, since most
// of them are times before which something is not safe.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ceil(t).Format(time.RFC3339)
}

func ceil(t time.Time) time.Time {
	if down := t.Truncate(time.Second); !down.Equal(t) {
		t = down.Add(time.Second)
	}
	return t.UTC()
}

// clock writes a time for people: the time of day alone if it is less than half a day
// from now.
func clock(t, now time.Time) string {
	switch {
	case t.IsZero():
		return "–"
	case t.Sub(now).Abs() < 12*time.Hour:
		return ceil(t).Format("15:04:05Z")
	default:
		return formatTime(t)
	}
}

// shortDuration writes a duration in its two largest units: 30d4h, 12m, 1m30s, 4s.
func shortDuration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + shortDuration(d.Abs()) // of the smallest there is no opposite
	case d == 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	units := []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.of {
			continue
		}
		text := strconv.FormatInt(int64(d/u.of), 10) + u.name
		if i+1 < len(units) {
			if rest := d % u.of / units[i+1].of; rest > 0 {
				text += strconv.FormatInt(int64(rest), 10) + units[i+1].name
			}
		}
		return text
	}
	return "0s"
}

// flagDuration writes a duration as a flag takes it, without the units that are none: 720h,
// 1m30s, 0. Nothing of it is lost.
func flagDuration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	text := d.String()
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, none) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// left writes how long it is until a time, rounded up to seconds as the time is.
func left(t, now time.Time) string {
	return shortDuration(max(0, ceil(t).Sub(now.Truncate(time.Second))))
}

// shortCount writes a number in at most five characters: 950, 12.3k, 9.1M, 4.2G.
func shortCount(n int64) string {
	f, unit := float64(n), ""
	for _, u := range []string{"k", "M", "G", "T", "P"} {
		if f < 999.5 {
			break
		}
		f, unit = f/1000, u
	}
	if unit == "" {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%.1f%s", f, unit)
}

// shareOfBudget writes how much of what a key may seal it has sealed.
func shareOfBudget(seals int64) string {
	share := float64(seals) / rotation.Budget * 100
	switch {
	case seals == 0:
		return "0%"
	case share < 0.1:
		return "<0.1%"
	case share < 10:
		return fmt.Sprintf("%.1f%%", share)
	default:
		return fmt.Sprintf("%.0f%%", share)
	}
}

// shortService writes the name of a key-encryption key for a table: the scheme, and the
// end of the key's name.
func shortService(service string) string {
	scheme, rest, ok := strings.Cut(service, "://")
	if !ok {
		return service
	}
	rest, _, _ = strings.Cut(strings.TrimPrefix(rest, "/"), "?")
	if i := strings.LastIndexAny(rest, ":/"); i >= 0 {
		if before := strings.LastIndexAny(rest[:i], ":/"); before >= 0 {
			rest = rest[before+1:]
		}
	}
	return scheme + " " + rest
}
