package binding

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"

	"github.com/echoseal/echoseal/internal/base64url"
	"github.com/echoseal/echoseal/internal/canon"
)

const (
	principalLabel = "mcp/request-state/principal:"
	saltSize       = 8
	tagSize        = 16
	tagChars       = (saltSize + tagSize) * 4 / 3 // 24 bytes fill 32 characters, without padding or spare bits
)

// A Principal is who asks, as far as it is known. The zero value means that nobody
// is known (no authentication), and binds a token to nobody. A token made for a
// known principal is refused from an unknown one, and the other way round.
type Principal struct {
	name  string
	bound bool
	err   error
}

// Format prints whether the principal is known, whatever the verb, and never who it is.
func (p Principal) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "binding.Principal("+p.kind()+")")
}

func (p *Principal) kind() string {
	switch {
	case p.err != nil:
		return "failed"
	case p.bound:
		return "bound"
	}
	return "not bound"
}

// Bound returns a known principal. Any string will do, the empty one too, as long
// as it is the same for the same user in every replica.
func Bound(principal string) Principal { return Principal{name: principal, bound: true} }

// FailedPrincipal returns the principal of a request whose sender should be known
// but could not be determined. Nothing is sealed or unsealed for it: both fail with
// [PrincipalError] and err. The text of err goes to the log, so it must not name
// who asked.
func FailedPrincipal(err error) Principal {
	if err == nil {
		err = errors.New("FailedPrincipal was given no error")
	}
	return Principal{err: err}
}

// OAuthPrincipal returns the principal of a verified OAuth access token: the
// compact JSON array of client id, issuer and subject, the same string as the
// Python SDK gives. nil means that the token does not tell. If a part is not valid
// UTF-8, the principal is a failed one.
func OAuthPrincipal(clientID string, issuer, subject *string) Principal {
	buf := []byte{'['}
	for i, part := range []*string{&clientID, issuer, subject} {
		if i > 0 {
			buf = append(buf, ',')
		}
		if part == nil {
			buf = append(buf, "null"...)
			continue
		}
		var ok bool
		if buf, ok = canon.AppendString(buf, *part); !ok {
			return FailedPrincipal(errors.New("the client id, issuer or subject is not valid UTF-8"))
		}
	}
	return Bound(string(append(buf, ']')))
}

// appendTag appends the claim for p under a salt.
func (p *Principal) appendTag(dst []byte, salt [saltSize]byte) []byte {
	var raw [saltSize + tagSize]byte
	copy(raw[:], salt[:])
	p.tag((*[tagSize]byte)(raw[saltSize:]), salt[:])
	return base64url.AppendEncode(dst, raw[:])
}

// matches reports whether claim is a claim for p.
func (p *Principal) matches(claim []byte) bool {
	var room [saltSize + tagSize + base64url.Room]byte
	if len(claim) != tagChars {
		return false
	}
	raw, ok := base64url.AppendDecode(room[:0], string(claim))
	if !ok {
		return false
	}
	var want [tagSize]byte
	p.tag(&want, raw[:saltSize])
	return subtle.ConstantTimeCompare(raw[saltSize:], want[:]) == 1
}

func (p *Principal) tag(dst *[tagSize]byte, salt []byte) {
	var room [256]byte // enough for most
	text := append(append(append(room[:0], principalLabel...), salt...), p.name...)
	sum := sha256.Sum256(text)
	copy(dst[:], sum[:])
}
