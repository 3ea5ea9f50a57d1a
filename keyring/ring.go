package keyring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/fleet"
)

// A Ring is a [codec.Codec] in token format v1 whose keys are those of a keyset, which it
// follows. Its tokens live no longer than the keyset's ceiling. It is safe for concurrent
// use. The zero value is not a ring; [Open] makes one.
//
// Sealing and unsealing take no lock and wait for nothing, with one exception: a token
// under a key id that the ring does not know makes it read the document, at most once a
// second. A token under that key id waits for it, half a second at most, since another
// instance may have read a newer revision already; all others are refused at once.
type Ring struct {
	config  Config
	id      string // of this instance, random
	started time.Time
	version string // of this module

	current atomic.Pointer[snapshot]
	search  atomic.Pointer[search]

	life     context.Context // of all that goes on in the background
	end      context.CancelFunc
	wait     sync.WaitGroup
	wakes    chan struct{} // capacity 1: read the document
	settled  chan struct{} // capacity 1: an attempt at unwrapping has ended
	reading  chan struct{} // capacity 1: held while the document is read and applied
	reads    atomic.Uint64 // how many have begun
	readWell bool          // the last one succeeded; reading guards it
	slots    chan struct{} // held by each call of a key service
	steps    *steps        // what Open is waiting for

	publisher *fleet.Publisher // nil without a registry
	pushed    atomic.Bool      // the registry may have a report
	close     func() error

	mu sync.Mutex
	state
}

var (
	_ codec.Codec      = (*Ring)(nil)
	_ codec.Expirer    = (*Ring)(nil)
	_ codec.Identifier = (*Ring)(nil)
	_ codec.Appender   = (*Ring)(nil)
)

// Seal is [Ring.SealUntil] for a token that expires when the ceiling allows it, which
// is that much later than now.
func (r *Ring) Seal(payload []byte) (string, error) { return r.SealUntil(payload, time.Time{}) }

// SealUntil returns a token for payload under the primary. expires is when the payload
// stops being accepted, and is noted, so that the key is kept until then; the zero time
// stands for the ceiling.
//
// It is an error if expires is further ahead than tokens of this key may live, if the ring
// has lost contact for longer than the keyset's max_stale (package documentation, "Ready"),
// if it holds no key to seal with, if 2^32 tokens were sealed with the key, or
// [ErrClosed].
func (r *Ring) SealUntil(payload []byte, expires time.Time) (string, error) {
	k, err := r.admit(expires)
	if err != nil {
		return "", err
	}
	return k.ring.Seal(payload)
}

// AppendSeal is [Ring.SealUntil] that appends the token to dst. It allocates nothing where
// dst has room.
func (r *Ring) AppendSeal(dst, payload []byte, expires time.Time) ([]byte, error) {
	k, err := r.admit(expires)
	if err != nil {
		return dst, err
	}
	return k.ring.AppendSeal(dst, payload, time.Time{})
}

func (r *Ring) admit(expires time.Time) (*heldKey, error) {
	if r == nil || r.config.Now == nil {
		return nil, errNotARing
	}
	now := r.config.Now() // before the snapshot, see there
	return r.current.Load().seal(now, expires)
}

// MaxTTL returns the ceiling in force now: the keyset's ttl.
func (r *Ring) MaxTTL() time.Duration {
	if r == nil || r.config.Now == nil {
		return 0
	}
	return r.current.Load().ceiling
}

// Unseal returns the payload of a token. The error is a [*codec.InvalidError] with the
// reason [codec.Malformed], [codec.UnknownKey] or [codec.BadSeal], or [ErrClosed]. It is
// another one, and not [codec.ErrInvalid], for a token under a key that the keyset has and
// the ring has not unwrapped: that token may be good. Whether a token is in time is not for
// the ring to say, but for whoever reads the payload.
func (r *Ring) Unseal(token string) ([]byte, error) {
	payload, err := r.AppendUnseal(nil, token)
	if err != nil {
		return nil, err
	}
	return payload, nil
}

// AppendUnseal is [Ring.Unseal] that appends the payload to dst. It allocates nothing
// where dst has room.
func (r *Ring) AppendUnseal(dst []byte, token string) ([]byte, error) {
	if r == nil || r.config.Now == nil {
		return dst, errNotARing
	}
	s := r.current.Load()
	if s.closed {
		return dst, ErrClosed
	}
	k, id := s.find(token)
	if k == nil {
		err := s.refuse(token)
		if !errors.Is(err, codec.UnknownKey) {
			return dst, err
		}
		if k = r.await(s, id); k == nil {
			return dst, r.current.Load().missed(id, err)
		}
	}
	out, err := k.ring.AppendUnseal(dst, token)
	if err == nil {
		k.use.unseals.Add(1)
	}
	return out, err
}

// KID returns the key id that token names, or "" if token is not of format v1 as far as
// its key id goes.
func (r *Ring) KID(token string) string {
	id, ok := tokenKID(token)
	if !ok {
		return ""
	}
	return id.String()
}

// Format prints the keyset's name and the key ids whatever the verb, so that no log ever
// shows a key.
func (r *Ring) Format(f fmt.State, _ rune) {
	if r == nil || r.config.Now == nil {
		_, _ = io.WriteString(f, "keyring.Ring()")
		return
	}
	s := r.current.Load()
	sealing := "nothing"
	if s.sealing != nil {
		sealing = s.sealing.kid.String()
	}
	_, _ = fmt.Fprintf(f, "keyring.Ring(%s: %s seals, %d in all)", s.name, sealing, len(s.keys))
}
