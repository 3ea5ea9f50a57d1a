package binding

import "github.com/echoseal/echoseal/internal/canon"

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
	issued := in.time()
	in.skip(`,"exp":`)
	expires := in.time()
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
	// Within a second of a limit the fractions count, which are not looked at here.
	if in.differs || issued+1 > now+futureSkew || expires <= now {
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

// time takes a time off the start as [canon.AppendFloat] writes one, and returns its whole
// seconds.
func (l *layout) time() float64 {
	if len(l.rest) > 0 && l.rest[0] == '0' { // 0.5 may be one, but 00.5 is no number
		l.differs = true
	}
	seconds := l.digits()
	l.skip(".")
	l.digits()
	return seconds
}

// digits takes digits off the start and returns what they say.
func (l *layout) digits() float64 {
	const most = 15 // a float64 has room for these
	n, value := 0, int64(0)
	for ; n < len(l.rest) && n <= most && l.rest[n] >= '0' && l.rest[n] <= '9'; n++ {
		value = value*10 + int64(l.rest[n]-'0')
	}
	if n == 0 || n > most {
		l.differs = true
		return 0
	}
	l.rest = l.rest[n:]
	return float64(value)
}
