package cli

import (
	"strconv"
	"strings"
	"time"
)

// formatTime writes a time for people and for JSON: RFC 3339, UTC, whole seconds, rounded
// up, since most of them are times before which something is not safe.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	if down := t.Truncate(time.Second); !down.Equal(t) {
		t = down.Add(time.Second)
	}
	return t.UTC().Format(time.RFC3339)
}

// shortDuration writes a duration in its two largest units: 30d4h, 12m, 1m30s, 4s.
func shortDuration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + shortDuration(-d)
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
