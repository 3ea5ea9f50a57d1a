package fleet

import "time"

// A Report is what one instance says of itself: one atomic snapshot, with no secret
// in it. [Key.Sign] gives the document in which it travels.
//
// Times are in UTC with milliseconds there. All are rounded up but Now, which is
// rounded down: what a report proves is never newer than the proof.
type Report struct {
	// ID is 32 lower-case hex digits, drawn at random by each process.
	ID string

	// Host names the machine for people. At most 200 bytes.
	Host string

	// Started is when the process opened its ring; Now, by the same clock, when it
	// took the snapshot.
	Started, Now time.Time

	// Every is the interval at which the instance reads the store and makes reports.
	// Positive.
	Every time.Duration

	// Stopped marks the last report of an instance that ended in good order.
	Stopped bool

	// Keyset, Lineage, Revision and Tag are those of the document that the ring
	// holds, as they stand in it: a name, a UUID, a number below 2^53, and 32 bytes in
	// base64.
	Keyset   string
	Lineage  string
	Revision int64
	Tag      string

	// Loaded is when that revision became the ring's. Zero: it has not yet.
	Loaded time.Time

	// Primary is the key id of the key that seals. "": none, the instance cannot seal.
	Primary string

	// Verifies are the key ids of the keys that the instance accepts tokens under, the
	// primary's among them.
	Verifies []string

	// TTL is the ceiling for the life of a token, the keyset's.
	TTL time.Duration

	// Ready says that the instance takes part. Reason is why it is not ready, or what
	// is degraded; "" if all is well, [Starting] until it was ready once. At most 200
	// bytes.
	Ready  bool
	Reason string

	// Services are the key services that the instance is configured with, as in
	// keyset.WrappedKey.Service, as far as the keyset names them.
	Services []string

	// Opened are the wrappings that the instance has opened itself, and Failed those
	// that it could not open the last time it tried.
	Opened []Opened
	Failed []Failure

	// Keys tells what was sealed under each key that this process has sealed with.
	Keys []KeyUse

	// Software is the version of this module. At most 200 bytes.
	Software string
}

// Starting is the [Report.Reason] of an instance that has not been ready yet.
const Starting = "starting"

// AuthKey stands for the keyset's authentication key where a key id is expected: in
// [Opened] and [Failure].
const AuthKey = "auth"

// Opened is a wrapping of a key that an instance has opened.
type Opened struct {
	KID     string // or AuthKey
	Service string // as in keyset.WrappedKey
	Version string // as in keyset.WrappedKey; may be ""
}

// Failure is a wrapping of a key that an instance could not open.
type Failure struct {
	KID       string // or AuthKey
	Service   string // as in keyset.WrappedKey; "" if no configured service opens the key
	Kind      string // a keyset.Kind, or another word; at most 200 bytes
	Operation string // as in keyset.KeyError; at most 200 bytes; may be ""
}

// KeyUse tells what one process has sealed under one key.
type KeyUse struct {
	KID       string
	Seals     int64     // how many tokens, below 2^53
	Since     time.Time // counted from then on
	LiveUntil time.Time // the latest expiry of any of them; zero if there is none
}

// FreshUntil returns the time up to which the report counts as fresh: three of the
// instance's own intervals from when it was made.
func (r *Report) FreshUntil() time.Time { return r.Now.Add(3 * r.Every) }

// Fresh reports whether the report is fresh at the given time.
func (r *Report) Fresh(at time.Time) bool { return !at.After(r.FreshUntil()) }

// Health is the state of the instance in a word or two: stopped, starting, not ready,
// degraded or ok.
func (r *Report) Health() string {
	switch {
	case r.Stopped:
		return "stopped"
	case r.Ready && r.Reason == "" && len(r.Failed) == 0:
		return "ok"
	case r.Ready:
		return "degraded"
	case r.Reason == Starting:
		return "starting"
	default:
		return "not ready"
	}
}

// Keep returns how long a registry keeps a report that is not renewed, for an instance
// that makes one at the given interval under a policy with the given max_stale and
// max_skew: max_stale, twice max_skew and three intervals. It is 0, which means for
// ever, if maxStale is 0.
//
// An instance that its registry has forgotten has been silent for max_stale, so it no
// longer seals and is not ready, by any clock within max_skew.
func Keep(every, maxStale, maxSkew time.Duration) time.Duration {
	if maxStale == 0 {
		return 0
	}
	return maxStale + 2*maxSkew + 3*every
}
