package keyring

import (
	"fmt"
	"time"

	"github.com/echoseal/echoseal/codec"
)

// A snapshot is what tokens are sealed and unsealed with: immutable, and swapped as a
// whole, so that no seal ever mixes two states of the ring.
type snapshot struct {
	name    string // of the keyset, for errors
	closed  bool
	keys    map[kid]*heldKey
	any     *heldKey         // one of keys; nil if there is none
	absent  map[kid]struct{} // keys of the keyset that are not held, and may be in other instances
	revoked map[kid]struct{} // never written once the snapshot is there

	sealing *heldKey      // one of keys; nil: nothing can be sealed
	ceiling time.Duration // for the life of a token
	maxTTL  time.Duration // of the sealing key
	maxSkew time.Duration

	contact  contact
	missing  string // which primary and retiring keys are not held; "" if none
	starting string // why not all keys were held yet, where they were not
}

// A contact tells whether the ring still follows its keyset, and is reckoned with.
type contact struct {
	maxStale time.Duration // 0: for ever
	read     time.Time     // when the last successful read began

	registered bool          // there is a registry
	accepted   time.Time     // when the last report that it has accepted was made
	silence    time.Duration // how long that one counts; 0: for ever

	// following says that a read began after the report was delivered that made the
	// registry reckon with this instance, and has succeeded.
	following bool
	// started says that every key of a revision was held that such a read has brought,
	// and that contact was not lost since.
	started bool
}

// elapsed returns the time from one reading of the clock to another. The monotonic clock
// stands still while a machine sleeps, and the wall clock may be set back: the longer time
// counts.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

func (c *contact) stale(now time.Time) bool {
	return c.maxStale != 0 && elapsed(c.read, now) >= c.maxStale
}

// silent reports whether the registry may not reckon with this instance any more.
func (c *contact) silent(now time.Time) bool {
	if !c.registered {
		return false
	}
	limit := shorter(c.maxStale, c.silence)
	return c.accepted.IsZero() || limit != 0 && elapsed(c.accepted, now) >= limit
}

// shorter returns the shorter of two times, 0 being for ever.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// lost returns why nothing may be sealed, "" if it may.
func (c *contact) lost(now time.Time) string {
	switch {
	case c.read.IsZero():
		return "it has not read the keyset yet"
	case c.stale(now):
		return fmt.Sprintf("it last read the keyset %v ago, and may go on for %v", elapsed(c.read, now).Round(time.Second), c.maxStale)
	case c.registered && c.accepted.IsZero():
		return "the registry has not accepted a report yet"
	case c.silent(now):
		return fmt.Sprintf("the registry last accepted a report made %v ago, and it counts for %v", elapsed(c.accepted, now).Round(time.Second), shorter(c.maxStale, c.silence))
	case !c.following:
		return "it has not read the keyset since the registry knows of it again"
	}
	return ""
}

// notReady returns why the instance should get no requests, "" if it should.
func (s *snapshot) notReady(now time.Time) string {
	lost := s.contact.lost(now)
	switch {
	case s.closed:
		return "it is closed"
	case lost != "":
		return lost
	case s.missing != "":
		return s.missing
	case !s.contact.started:
		return s.starting
	}
	return ""
}

// seal returns the key to seal with, after it was noted that a token will be sealed that
// expires at the given time; the zero time stands for the ceiling.
//
// now was read before the snapshot was: so a token that is sealed by a process which
// was stopped in between expires as if it had been sealed then, when others still
// reckoned with its key.
func (s *snapshot) seal(now, expires time.Time) (*heldKey, error) {
	if s.closed {
		return nil, ErrClosed
	}
	why := s.contact.lost(now)
	if why == "" && s.sealing == nil {
		why = s.missing
	}
	if why != "" {
		return nil, fmt.Errorf("keyring: keyset %s: nothing is sealed: %s", s.name, why)
	}
	now = now.Round(0) // an expiry is a matter of the wall clock
	if expires.IsZero() {
		expires = now.Add(s.ceiling)
	} else if expires = expires.Round(0); expires.After(now.Add(s.maxTTL + s.maxSkew)) {
		return nil, fmt.Errorf("keyring: keyset %s: a token that expires in %v is not sealed: key %v is kept for tokens of %v at most",
			s.name, expires.Sub(now).Round(time.Second), s.sealing.kid, s.maxTTL)
	}
	if !s.sealing.use.seal(expires) {
		return nil, fmt.Errorf("keyring: keyset %s: key %v has made 2^32 seals, the most that random nonces allow: rotate", s.name, s.sealing.kid)
	}
	return s.sealing, nil
}

// find returns the key that a token names, nil if it is not held.
func (s *snapshot) find(token string) (*heldKey, kid) {
	id, ok := tokenKID(token)
	if !ok {
		return nil, 0
	}
	return s.keys[id], id
}

// refuse returns the error for a token whose key is not held.
func (s *snapshot) refuse(token string) error {
	if s.any != nil {
		_, err := s.any.ring.AppendUnseal(nil, token)
		return err // that it is no token at all, or the unknown key
	}
	if id, ok := tokenKID(token); ok {
		return &codec.InvalidError{Reason: codec.UnknownKey, KID: id.String()}
	}
	return &codec.InvalidError{Reason: codec.Malformed}
}

// missed returns the error for a token under a key id that was looked for in vain, where
// refused is why it is refused if nothing stands in the way of knowing that.
func (s *snapshot) missed(id kid, refused error) error {
	if s.closed {
		return ErrClosed
	}
	if _, absent := s.absent[id]; absent {
		return fmt.Errorf("keyring: keyset %s: key %v is in the keyset but not unwrapped here, so a token under it is neither good nor bad: see the ring's status", s.name, id)
	}
	return refused
}
