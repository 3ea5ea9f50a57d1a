package binding

import (
	"bytes"
	"strconv"

	"github.com/echoseal/echoseal/internal/canon"
)

// appendExpected appends the state in s.payload to dst if the payload is what this round
// would have sealed, but for the times, the salt and the state, and passes every check. It
// goes over the state once, where [parseClaims] and the checks behind it go over all of
// the payload. false says nothing of the payload but that those have to look at it.
//
// The payloads of the Python SDK are laid out in the same way.
func (r *Round) appendExpected(dst []byte, s *scratch, now float64) (_ []byte, ok bool) {
	if r.principal.err != nil || !canon.IsPlain(r.request.Target) || len(s.payload) > canon.MaxBytes {
		return dst, false
	}
	in := layout{rest: s.payload}
	in.skip(`{"v":1,"iat":`)
	iat := in.time()
	in.skip(`,"exp":`)
	exp := in.time()
	in.skip(`,"m":"`)
	in.skip(r.request.Method)
	in.skip(`","t":"`)
	in.skip(r.request.Target)
	if in.differs || r.digestRequest(s) != nil {
		return dst, false
	}
	in.skip(`","a":"`)
	in.skip(string(r.digest[:]))
	in.skip(`","s":"`)
	in.skipLast(`}`)
	if r.principal.bound {
		in.skipLast(`"`)
		if !r.principal.matches(in.last(tagChars)) {
			return dst, false
		}
		in.skipLast(`,"p":"`)
	}
	in.skipLast(r.policy.audienceMember)
	in.skipLast(`"`)
	if in.differs || !(iat <= now+futureSkew) || !(now < exp) {
		return dst, false
	}
	// A quote that is not escaped would end the state early: then it is no text.
	return canon.AppendText(dst, in.rest)
}

// A layout is taken off a payload from both ends. Once it differs from what is expected,
// nothing that it gives means anything.
type layout struct {
	rest    []byte
	differs bool
}

// skip takes text off the start.
func (l *layout) skip(text string) {
	if len(l.rest) < len(text) || string(l.rest[:len(text)]) != text {
		l.differs = true
		return
	}
	l.rest = l.rest[len(text):]
}

// skipLast takes text off the end.
func (l *layout) skipLast(text string) {
	if string(l.last(len(text))) != text {
		l.differs = true
	}
}

// last takes n bytes off the end, or none if there are fewer.
func (l *layout) last(n int) []byte {
	at := len(l.rest) - n
	if at < 0 {
		l.differs = true
		return nil
	}
	end := l.rest[at:]
	l.rest = l.rest[:at]
	return end
}

// time takes a number off the start that is written as [canon.AppendFloat] writes a time.
func (l *layout) time() float64 {
	const longest = 32
	n := bytes.IndexByte(l.rest[:min(longest, len(l.rest))], ',')
	if n < 0 || !isTime(l.rest[:n]) {
		l.differs = true
		return 0
	}
	f, _ := strconv.ParseFloat(string(l.rest[:n]), 64) // its grammar has been checked
	l.rest = l.rest[n:]
	return f
}

// isTime reports whether text is digits, a point and digits, and does not begin with 0.
func isTime(text []byte) bool {
	whole, fraction, ok := bytes.Cut(text, []byte{'.'})
	return ok && isDigits(whole) && whole[0] != '0' && isDigits(fraction)
}

func isDigits(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(text) > 0
}
