package local

import (
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/internal/base64url"
)

// buffers hold sealed bodies on their way to and from base64; they are not secret.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled keeps one huge token from pinning its buffer for good.
const maxPooled = 1 << 18

// AppendSeal appends a token for payload to dst; expires does not matter, as in
// [Ring.SealUntil].
func (r *Ring) AppendSeal(dst, payload []byte, _ time.Time) ([]byte, error) {
	if r == nil || r.first == nil {
		return dst, errNotARing
	}
	if r.seals.Add(1) > maxSeals {
		return dst, fmt.Errorf("local: key %s has made 2^32 seals, the most that random nonces allow; put a new secret first", r.first.text)
	}
	buf := take(overhead + len(payload))
	defer give(buf)
	body := append((*buf)[:0], r.first.kid[:]...)
	body = r.first.aead.Seal(body, nil, payload, r.first.aad)
	return base64url.AppendEncode(append(dst, prefix...), body), nil
}

// AppendUnseal appends the payload of token to dst. Errors are those of
// [Ring.Unseal].
func (r *Ring) AppendUnseal(dst []byte, token string) ([]byte, error) {
	if r == nil || r.first == nil {
		return dst, errNotARing
	}
	text, ok := strings.CutPrefix(token, prefix)
	if !ok {
		return dst, &codec.InvalidError{Reason: codec.Malformed}
	}
	buf := take(base64url.DecodedLen(len(text)) + base64url.Room)
	defer give(buf)
	body, ok := base64url.AppendDecode((*buf)[:0], text)
	if !ok || len(body) < overhead {
		return dst, &codec.InvalidError{Reason: codec.Malformed}
	}
	k := r.keys[[kidSize]byte(body)]
	if k == nil {
		return dst, &codec.InvalidError{Reason: codec.UnknownKey, KID: hex.EncodeToString(body[:kidSize])}
	}
	out, err := k.aead.Open(dst, nil, body[kidSize:], k.aad)
	if err != nil {
		return dst, &codec.InvalidError{Reason: codec.BadSeal, KID: k.text}
	}
	return out, nil
}

// KID returns the key id that token names, or "" if token is not of format v1 as
// far as its key id goes.
func (r *Ring) KID(token string) string {
	text, ok := strings.CutPrefix(token, prefix)
	if !ok || len(text) < base64url.EncodedLen(overhead) {
		return ""
	}
	// 8 characters are whole bytes, so that the trailing bits of a shorter cut
	// cannot matter.
	var room [8]byte
	head, ok := base64url.AppendDecode(room[:0], text[:8])
	if !ok {
		return ""
	}
	return hex.EncodeToString(head[:kidSize])
}

func take(size int) *[]byte {
	buf := buffers.Get().(*[]byte)
	if cap(*buf) < size {
		*buf = make([]byte, 0, size)
	}
	return buf
}

func give(buf *[]byte) {
	if cap(*buf) <= maxPooled {
		buffers.Put(buf)
	}
}
