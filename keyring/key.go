package keyring

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"sync/atomic"
	"time"

	"github.com/echoseal/echoseal/codec/local"
)

// A kid is a key id: the 4 bytes of which keyset and codec/local write the hex digits.
type kid uint32

func (k kid) String() string {
	return hex.EncodeToString(binary.BigEndian.AppendUint32(nil, uint32(k)))
}

// parseKID reads what package keyset has checked.
func parseKID(text string) kid {
	b, _ := hex.DecodeString(text)
	return kid(binary.BigEndian.Uint32(b))
}

// Of the text of a token: "v1.", then base64url of the key id, a nonce of 12 bytes, the
// ciphertext and a tag of 16 bytes.
const (
	tokenPrefix  = "v1."
	minTokenBody = 43 // characters, those of an empty payload
)

// tokenKID reads the key id from the text of a token.
func tokenKID(token string) (kid, bool) {
	body, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok || len(body) < minTokenBody {
		return 0, false
	}
	var head [6]byte // 8 characters are whole bytes, so that there are no trailing bits
	if n, err := base64.RawURLEncoding.Decode(head[:], []byte(body[:8])); err != nil || n != len(head) {
		return 0, false
	}
	return kid(binary.BigEndian.Uint32(head[:])), true
}

// A heldKey is a data key that was unwrapped. It is immutable but for what it counts.
type heldKey struct {
	kid  kid
	ring *local.Ring // of this key alone
	sum  [32]byte    // SHA-256 of the data key, to compare other wrappings with
	use  *use
}

// maxSeals is how many tokens may be sealed under one key, as in package local.
const maxSeals = 1 << 32

// nearMaxSeals is from where on the status warns.
const nearMaxSeals = maxSeals / 8 * 7

// A use counts what this process has done with the key of one key id. It outlives
// the revisions of the keyset, and the key where that leaves the ring and comes back.
type use struct {
	since     time.Time
	seals     atomic.Uint64
	liveUntil atomic.Int64 // Unix time of the latest expiry, rounded up; 0: nothing was sealed
	_         [40]byte     // sealing and unsealing do not share a cache line
	unseals   atomic.Uint64
}

// seal counts one seal, before it is made, of a token that expires at the given time.
// It reports false if there may be none.
func (u *use) seal(expires time.Time) bool {
	if u.seals.Add(1) > maxSeals {
		return false
	}
	until := expires.Unix()
	if expires.Nanosecond() > 0 {
		until++
	}
	for {
		old := u.liveUntil.Load()
		if old >= until || u.liveUntil.CompareAndSwap(old, until) {
			return true
		}
	}
}

// sealed returns how many tokens were sealed.
func (u *use) sealed() uint64 { return min(u.seals.Load(), maxSeals) }

// until returns the latest expiry, the zero time if there is none.
func (u *use) until() time.Time {
	if s := u.liveUntil.Load(); s != 0 {
		return time.Unix(s, 0).UTC()
	}
	return time.Time{}
}
