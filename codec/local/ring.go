package local

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/internal/base64url"
)

// maxSeals is how many seals under random 96-bit nonces keep the chance of a
// repeated nonce below 2^-32 (NIST SP 800-38D, section 8.3).
const maxSeals = 1 << 32

// A Ring is a [codec.Codec] in token format v1: its first key seals, every key
// unseals. It has no ceiling for the life of a token. It is safe for concurrent
// use and its keys never change. The zero value is not a ring; [New], [NewRing] and
// [Ephemeral] make one.
//
// A ring refuses to seal after 2^32 seals. The limit belongs to a key and counts
// over all the processes that share it, of which a ring sees one: change the
// secret well before that.
type Ring struct {
	keys  map[[kidSize]byte]*Key
	first *Key
	_     [56]byte // what every call reads does not share a cache line with what every seal writes
	seals atomic.Uint64
}

var (
	_ codec.Codec      = (*Ring)(nil)
	_ codec.Expirer    = (*Ring)(nil)
	_ codec.Identifier = (*Ring)(nil)
	_ codec.Appender   = (*Ring)(nil)
)

// New makes a ring of secrets, as [NewKey] takes them; the first one seals. It
// keeps nothing of them.
//
// The error is [codec.ErrConfig] and names the index of the secret: one that is too
// short, one that is given twice, or one whose key id is that of another secret by
// chance (1 in 4 thousand million: take another secret).
func New(secrets ...[]byte) (*Ring, error) {
	keys := make([]*Key, len(secrets))
	for i, secret := range secrets {
		k, err := newKey(secret, fmt.Sprintf("secret %d", i))
		if err != nil {
			return nil, err
		}
		keys[i] = k
	}
	return newRing("secret", keys)
}

// NewRing makes a ring of keys; the first one seals. Errors are those of [New].
func NewRing(keys ...*Key) (*Ring, error) { return newRing("key", keys) }

// Ephemeral makes a ring of one random secret that lives and dies with this
// process: after a restart, and in every other process, its tokens are refused.
func Ephemeral() *Ring {
	secret := make([]byte, minSecret)
	defer clear(secret)
	_, _ = rand.Read(secret) // never fails: it ends the process instead
	ring, err := New(secret)
	if err != nil {
		panic("local: a random secret makes no ring: " + err.Error())
	}
	return ring
}

func newRing(what string, keys []*Key) (*Ring, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: local: a ring needs at least one %s", codec.ErrConfig, what)
	}
	r := &Ring{keys: make(map[[kidSize]byte]*Key, len(keys)), first: keys[0]}
	at := make(map[[kidSize]byte]int, len(keys))
	for i, k := range keys {
		if k == nil || k.aead == nil {
			return nil, fmt.Errorf("%w: local: %s %d is %w", codec.ErrConfig, what, i, errNotAKey)
		}
		if other := r.keys[k.kid]; other != nil {
			if subtle.ConstantTimeCompare(other.mark[:], k.mark[:]) == 1 {
				return nil, fmt.Errorf("%w: local: %s %d is the same as %s %d; give each once", codec.ErrConfig, what, i, what, at[k.kid])
			}
			return nil, fmt.Errorf("%w: local: %s %d and %s %d differ but have the same key id %s, so tokens could not tell them apart; replace the newer one",
				codec.ErrConfig, what, i, what, at[k.kid], k.text)
		}
		r.keys[k.kid], at[k.kid] = k, i
	}
	return r, nil
}

// Seal returns a token for payload under the first key. The error tells that the
// ring has made its 2^32 seals.
func (r *Ring) Seal(payload []byte) (string, error) {
	buf := take(len(prefix) + base64url.EncodedLen(overhead+len(payload)))
	defer give(buf)
	token, err := r.AppendSeal((*buf)[:0], payload, time.Time{})
	if err != nil {
		return "", err
	}
	return string(token), nil
}

// Unseal returns the payload of a token. The error is a [*codec.InvalidError] with
// the reason [codec.Malformed], [codec.UnknownKey] or [codec.BadSeal].
func (r *Ring) Unseal(token string) ([]byte, error) {
	payload, err := r.AppendUnseal(nil, token)
	if err != nil {
		return nil, err
	}
	return payload, nil
}

// MaxTTL is 0: a local ring has no ceiling.
func (r *Ring) MaxTTL() time.Duration { return 0 }

// SealUntil is [Ring.Seal]: without a ceiling there is nothing to hold expires
// against.
func (r *Ring) SealUntil(payload []byte, _ time.Time) (string, error) { return r.Seal(payload) }

// Format prints the key ids whatever the verb, so that no log ever shows a key.
func (r *Ring) Format(f fmt.State, _ rune) {
	if r == nil || r.first == nil {
		_, _ = io.WriteString(f, "local.Ring()")
		return
	}
	_, _ = fmt.Fprintf(f, "local.Ring(%s seals, %d in all)", r.first.text, len(r.keys))
}
