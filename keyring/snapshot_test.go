package keyring

import (
	"testing"
	"time"
	"unsafe"
)

// later returns a reading of the clock for which since from the wall clock has gone on by
// wall and the monotonic one by mono. Package time makes no such reading by itself.
func later(t *testing.T, from time.Time, wall, mono time.Duration) time.Time {
	t.Helper()
	to := from.Add(wall)                                                // moves both
	*(*int64)(unsafe.Add(unsafe.Pointer(&to), 8)) += int64(mono - wall) // time.Time.ext, the monotonic reading
	if to.Sub(from) != mono || to.Round(0).Sub(from.Round(0)) != wall {
		t.Fatalf("this version of package time is another: %v and %v, not %v and %v", to.Sub(from), to.Round(0).Sub(from.Round(0)), mono, wall)
	}
	return to
}

// A machine that sleeps, a function that is frozen and a wall clock that is set back do
// not make a ring believe that it was in contact a moment ago.
func TestTimeThatWasSleptThrough(t *testing.T) {
	from := time.Now()
	for _, c := range []struct {
		name       string
		wall, mono time.Duration
		lost       bool
	}{
		{"a moment", time.Second, time.Second, false},
		{"almost max_stale", time.Hour - 1, time.Hour - 1, false},
		{"max_stale", time.Hour, time.Hour, true},
		{"frozen for two hours", 2 * time.Hour, time.Second, true},
		{"the wall clock stands still", 0, time.Hour, true},
		{"the wall clock is set back", -24 * time.Hour, time.Hour, true},
		{"set back a moment ago", -24 * time.Hour, time.Second, false},
	} {
		now := later(t, from, c.wall, c.mono)
		for what, contact := range map[string]contact{
			"read":     {maxStale: time.Hour, read: from, following: true},
			"accepted": {maxStale: time.Hour, read: now, registered: true, accepted: from, silence: time.Hour, following: true},
		} {
			if lost := contact.lost(now); (lost != "") != c.lost {
				t.Errorf("%s, %s: %q", c.name, what, lost)
			}
		}
	}
}

// An expiry is a matter of the wall clock, whatever a reading of the monotonic one says.
func TestExpiryIsByTheWallClock(t *testing.T) {
	w := newWorld(t)
	now := time.Now()
	r := w.open(func(c *Config) { c.Now = func() time.Time { return now } })
	const most = 11 * time.Minute // the ceiling and max_skew
	if _, err := r.SealUntil(nil, later(t, now, most+time.Second, time.Second)); err == nil {
		t.Error("a token was sealed that lives too long by the wall clock")
	}
	if _, err := r.SealUntil(nil, later(t, now, time.Second, most+time.Second)); err != nil {
		t.Error(err)
	}
}
