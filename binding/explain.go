package binding

import (
	"errors"
	"fmt"
	"time"

	"github.com/echoseal/echoseal/codec"
)

// An Outcome is what came of a check. The zero value is Skipped.
type Outcome int

// The outcomes of a check.
const (
	Skipped Outcome = iota // could not be made
	Passed
	Failed
)

// String returns the outcome in one lower-case word.
func (o Outcome) String() string {
	switch o {
	case Passed:
		return "passed"
	case Failed:
		return "failed"
	}
	return "skipped"
}

// A Check is one of the checks that a token has to pass.
type Check struct {
	Name    string // codec, claims, future, expired, request, audience, principal_drift or principal
	Outcome Outcome
	Detail  string // in plain words; no state and no principal
}

// Claims are what a token says of itself.
type Claims struct {
	IssuedAt       time.Time // zero if it is no usable time
	Expires        time.Time // likewise
	Method         string
	Target         string
	Digest         string // see [Digest]
	Audience       string
	PrincipalBound bool
}

// An Explanation is all that can be said of a token. [Round.Explain] makes it.
type Explanation struct {
	TokenID    string       // see [TokenID]
	TokenChars int          // the token's length
	KID        string       // the key id that the token names; "" if none can be read
	Reason     codec.Reason // of the first check that failed; "" if the token is valid
	Checks     []Check      // all of them, in the order in which a server makes them
	Claims     *Claims      // nil if the token does not open
	Digest     string       // of this round's request; "" if it has none

	state string
}

// State returns the state in the token, "" if it does not open. It is secret: show it
// only to who asks for it.
func (e Explanation) State() string { return e.state }

// Format prints the token's id and the reason, whatever the verb, and never the state.
func (e Explanation) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "binding.Explanation(token %s, kid %q, reason %q)", e.TokenID, e.KID, string(e.Reason))
}

// Explain makes every check on a token, those behind a failed one too, so that all
// that is wrong shows at once. A round whose Request has no Method leaves the check
// of the request out. It is for tools; to decide whether a token is good, use
// [Round.Unseal].
func (r *Round) Explain(token string) Explanation {
	e := Explanation{TokenID: TokenID(token), TokenChars: len(token), KID: r.policy.kid(token)}
	s := take()
	defer s.give()
	if r.request.Method != "" && r.digestRequest(s) == nil {
		e.Digest = string(r.digest[:])
	}
	if err := r.decrypt(s, token); err != nil {
		reason := CodecError
		errors.As(err, &reason)
		e.add("codec", reason, codecDetail(reason))
		e.skip("the token does not open", "claims")
		e.skip("the token does not open", checkNames[:]...)
		return e
	}
	e.add("codec", "", "opens with key "+e.KID)
	c, ok := parseClaims(s.payload)
	if !ok {
		e.add("claims", codec.Malformed, "the payload is not a claim set of version 1")
		e.skip("there are no claims", checkNames[:]...)
		return e
	}
	e.add("claims", "", "version 1")
	e.Claims = c.decode()
	e.state = text(c.s)
	now := r.policy.now()
	for _, name := range checkNames {
		reason := r.check(s, name, &c, seconds(now))
		switch {
		case name == "request" && r.request.Method == "":
			e.skip("there is no request to compare with", name)
		case name == "principal" && r.principal.bound != e.Claims.PrincipalBound:
			e.skip("there are no two principals to compare", name)
		default:
			e.add(name, reason, r.detail(name, reason, e.Claims, now))
		}
	}
	return e
}

func (e *Explanation) skip(detail string, names ...string) {
	for _, name := range names {
		e.Checks = append(e.Checks, Check{Name: name, Detail: detail})
	}
}

func (e *Explanation) add(name string, reason codec.Reason, detail string) {
	check := Check{Name: name, Outcome: Passed, Detail: detail}
	if reason != "" {
		check.Outcome = Failed
		if e.Reason == "" {
			e.Reason = reason
		}
	}
	e.Checks = append(e.Checks, check)
}

func (c *claims) decode() *Claims {
	return &Claims{
		IssuedAt:       clock(c.iat),
		Expires:        clock(c.exp),
		Method:         text(c.m),
		Target:         text(c.t),
		Digest:         text(c.a),
		Audience:       text(c.aud),
		PrincipalBound: c.p != nil,
	}
}

// text returns the text of a JSON string, or "" if value is none.
func text(value []byte) string {
	if !isString(value) {
		return ""
	}
	return string(appendText(nil, value))
}

// clock returns the time that a claim names, or the zero time if it is none of the
// years 1 to 9999.
func clock(value []byte) time.Time {
	const first, last = -62135596800, 253402300800
	s, ok := number(value)
	if !ok || !(s >= first && s < last) {
		return time.Time{}
	}
	whole := int64(s)
	return time.Unix(whole, int64((s-float64(whole))*1e9)).UTC()
}

func codecDetail(reason codec.Reason) string {
	switch reason {
	case codec.Malformed:
		return "not a token of this format"
	case codec.UnknownKey:
		return "the key that it names is not among these keys"
	case codec.BadSeal:
		return "changed after it was sealed, or sealed with another key of the same id"
	case TooLarge:
		return "longer than the limit"
	}
	return "the codec refuses it: " + string(reason)
}

// detail says in plain words how a check went.
func (r *Round) detail(name string, reason codec.Reason, c *Claims, now time.Time) string {
	failed := reason != ""
	switch name {
	case "future":
		switch {
		case c.IssuedAt.IsZero():
			return "the time of sealing is not a usable time"
		case failed:
			return fmt.Sprintf("sealed %v from now; one of the two clocks is wrong", c.IssuedAt.Sub(now).Round(time.Second))
		case c.IssuedAt.Sub(now) >= time.Second/2:
			return fmt.Sprintf("sealed %v from now; two clocks may differ by that", c.IssuedAt.Sub(now).Round(time.Second))
		}
		return fmt.Sprintf("sealed %v ago", now.Sub(c.IssuedAt).Round(time.Second))
	case "expired":
		switch {
		case c.Expires.IsZero():
			return "the time of expiry is not a usable time"
		case failed:
			return fmt.Sprintf("expired %v ago", now.Sub(c.Expires).Round(time.Second))
		}
		return fmt.Sprintf("expires in %v", c.Expires.Sub(now).Round(time.Second))
	case "request":
		return r.requestDetail(c)
	case "audience":
		switch {
		case !failed:
			return "the same"
		case c.Audience == "" && r.policy.audience != "":
			return "the token names no audience, this service has one"
		case r.policy.audience == "":
			return fmt.Sprintf("the token is for %q, this service has no audience", c.Audience)
		}
		return fmt.Sprintf("the token is for %q, this service is %q", c.Audience, r.policy.audience)
	case "principal_drift":
		switch {
		case reason == PrincipalError:
			return "it could not be determined who asks"
		case failed && c.PrincipalBound:
			return "the token is bound to a principal, the request has none"
		case failed:
			return "the request has a principal, the token is bound to none"
		case c.PrincipalBound:
			return "both have a principal"
		}
		return "neither has a principal"
	}
	switch {
	case failed:
		return "another principal"
	case c.PrincipalBound:
		return "the same"
	}
	return "not bound"
}

func (r *Round) requestDetail(c *Claims) string {
	switch {
	case c.Method != r.request.Method:
		return fmt.Sprintf("the token is for %s, the request is %s", c.Method, r.request.Method)
	case c.Target != r.request.Target:
		return fmt.Sprintf("the token is for %q, the request names %q", c.Target, r.request.Target)
	case r.digestErr != nil:
		return r.digestErr.Error()
	case c.Digest != string(r.digest[:]):
		return "the arguments differ from those the token was made for"
	}
	return "the same method, target and arguments"
}
