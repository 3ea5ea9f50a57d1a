package binding

import (
	"bytes"
	"strconv"
	"time"

	"github.com/echoseal/echoseal/internal/canon"
)

const claimsVersion = 1

// claims are the members of a payload as they stand in it; nil where absent.
type claims struct {
	v, iat, exp, m, t, a, s, aud, p []byte
}

// appendClaims appends the payload for state to dst. It reports false if the state
// or the target is not text. The order of the members is that of the Python SDK.
func (r *Round) appendClaims(dst []byte, state string, now time.Time, ttl time.Duration, salt [saltSize]byte) (_ []byte, ok bool) {
	iat := seconds(now)
	dst = append(dst, `{"v":1,"iat":`...)
	dst = appendTime(dst, iat)
	dst = append(dst, `,"exp":`...)
	dst = appendTime(dst, iat+ttl.Seconds())
	dst = append(dst, `,"m":"`...)
	dst = append(dst, r.request.Method...)
	dst = append(dst, `","t":`...)
	if dst, ok = canon.AppendString(dst, r.request.Target); !ok {
		return dst, false
	}
	dst = append(dst, `,"a":"`...)
	dst = append(dst, r.digest[:]...)
	dst = append(dst, `","s":`...)
	if dst, ok = canon.AppendString(dst, state); !ok {
		return dst, false
	}
	dst = append(dst, r.policy.audienceMember...)
	if r.principal.bound {
		dst = append(dst, `,"p":"`...)
		dst = r.principal.appendTag(dst, salt)
		dst = append(dst, '"')
	}
	return append(dst, '}'), true
}

// claimsSize bounds the size of a payload: every byte of text may become six.
func (r *Round) claimsSize(state string) int {
	const fixed = 256
	return fixed + len(r.policy.audienceMember) + 6*(len(r.request.Target)+len(state))
}

// parseClaims finds the claims in a payload. It reports false if the payload is no
// JSON object, or a claim is missing that every version has. Of two members with
// one name the last counts, as in Python.
func parseClaims(payload []byte) (c claims, ok bool) {
	members := canon.Members{Doc: payload}
	for members.Next() {
		name, value := members.Name, members.Value
		if bytes.IndexByte(name, '\\') >= 0 {
			name = append(appendText([]byte{'"'}, name), '"')
		}
		if member := c.member(name); member != nil {
			*member = value
		}
	}
	// A null is as good as absent; where a claim is required, its type says no.
	for _, optional := range []*[]byte{&c.m, &c.t, &c.a, &c.aud, &c.p} {
		if string(*optional) == "null" {
			*optional = nil
		}
	}
	if members.Err() != nil || c.v == nil || c.iat == nil || c.exp == nil || c.s == nil {
		return claims{}, false
	}
	version, ok := number(c.v)
	return c, ok && version == claimsVersion && isString(c.s)
}

// member returns where the claim of a name belongs, or nil if it is unknown.
func (c *claims) member(name []byte) *[]byte {
	switch string(name) {
	case `"v"`:
		return &c.v
	case `"iat"`:
		return &c.iat
	case `"exp"`:
		return &c.exp
	case `"m"`:
		return &c.m
	case `"t"`:
		return &c.t
	case `"a"`:
		return &c.a
	case `"s"`:
		return &c.s
	case `"aud"`:
		return &c.aud
	case `"p"`:
		return &c.p
	}
	return nil
}

func isString(value []byte) bool { return len(value) > 0 && value[0] == '"' }

// number returns the value of a JSON number. Beyond the range of a float it is
// infinite, which still compares as it should.
func number(value []byte) (float64, bool) {
	if len(value) == 0 || value[0] != '-' && (value[0] < '0' || value[0] > '9') {
		return 0, false
	}
	f, _ := strconv.ParseFloat(string(value), 64)
	return f, true
}

// isText reports whether value is a JSON string that says want.
func isText(value []byte, want string) bool {
	if !isString(value) {
		return false
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1:len(value)-1]) == want
	}
	return string(appendText(nil, value)) == want
}

// appendText appends the text of a JSON string that stands in a payload.
func appendText(dst, quoted []byte) []byte {
	dst, _ = canon.AppendText(dst, quoted[1:len(quoted)-1]) // it has been scanned
	return dst
}
