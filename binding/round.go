package binding

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/internal/canon"
)

// futureSkew is how far a token's iat may lie ahead of this clock, in seconds.
const futureSkew = 60

// A Round is one round of one request: it opens the token that came with the
// request, and seals the state of the answer. The digest of the request is computed
// at most once. It is not safe for concurrent use; every request has its own.
type Round struct {
	policy    *Policy
	request   Request
	principal Principal

	digest    [digestChars]byte
	digestErr error
	digested  bool
}

// Round begins a round for a request from a principal.
func (p *Policy) Round(request Request, principal Principal) *Round {
	return &Round{policy: p, request: request, principal: principal}
}

// Format prints the method and whether there is a principal, whatever the verb: the
// arguments and the principal belong in no log.
func (r *Round) Format(f fmt.State, _ rune) {
	if r == nil {
		_, _ = io.WriteString(f, "binding.Round()")
		return
	}
	_, _ = fmt.Fprintf(f, "binding.Round(%q, principal %s)", r.request.Method, r.principal.kind())
}

// Unseal checks a token and returns the state in it.
//
// An error tells why through errors.Is and a reason: [TooLarge]; [codec.Malformed],
// [codec.UnknownKey] or [codec.BadSeal]; [Future], [Expired], [WrongRequest],
// [WrongAudience], [PrincipalDrift] or [WrongPrincipal], in the order in which they
// are checked. All of these are [codec.ErrInvalid]. [PrincipalError] and [CodecError]
// are not: they say nothing of the token. None may reach the client; it gets
// [RefusedCode], [RefusedMessage] and [RefusedData] whatever the reason.
func (r *Round) Unseal(token string) (state string, err error) {
	s := take()
	defer s.give()
	if s.result, err = r.unseal(s, s.result, token); err != nil {
		return "", err
	}
	return string(s.result), nil
}

// AppendUnseal is [Round.Unseal] that appends the state to dst. On an error it
// returns dst as it was given.
func (r *Round) AppendUnseal(dst []byte, token string) ([]byte, error) {
	s := take()
	defer s.give()
	return r.unseal(s, dst, token)
}

func (r *Round) unseal(s *scratch, dst []byte, token string) ([]byte, error) {
	if err := r.decrypt(s, token); err != nil {
		return dst, err
	}
	now := seconds(r.policy.now())
	if out, ok := r.appendExpected(dst, s, now); ok {
		return out, nil
	}
	out, reason := r.appendChecked(dst, s, now)
	switch reason {
	case "":
		return out, nil
	case PrincipalError:
		return dst, &failure{reason, r.principal.err}
	}
	return dst, &codec.InvalidError{Reason: reason, KID: r.policy.kid(token)}
}

// appendChecked appends the state in s.payload to dst, whatever the layout of the payload,
// or returns why it is refused.
func (r *Round) appendChecked(dst []byte, s *scratch, now float64) ([]byte, codec.Reason) {
	c, ok := parseClaims(s.payload)
	if !ok {
		return dst, codec.Malformed
	}
	for _, name := range checkNames {
		if reason := r.check(s, name, &c, now); reason != "" {
			return dst, reason
		}
	}
	return appendText(dst, c.s), ""
}

// decrypt puts the payload of token into s.
func (r *Round) decrypt(s *scratch, token string) error {
	if len(token) > r.policy.maxChars {
		return &codec.InvalidError{Reason: TooLarge}
	}
	reserve(&s.payload, len(token))
	payload, err := r.policy.unseal(s.payload, token)
	if err == nil {
		s.payload = payload
		return nil
	}
	clear(s.payload[:len(token)]) // a codec that failed half way may have written there
	// A refusal without a reason is a codec that does not keep its promise.
	var invalid *codec.InvalidError
	if errors.As(err, &invalid) && invalid.Reason != "" {
		return err
	}
	return &failure{CodecError, err}
}

// checkNames are the checks of the claims, in order.
var checkNames = [...]string{"future", "expired", "request", "audience", "principal_drift", "principal"}

// check makes one of the checks and returns why it fails, or "". Each asks for what
// must hold, never for what must not, so that a claim of a wrong type or a NaN fails.
func (r *Round) check(s *scratch, name string, c *claims, now float64) codec.Reason {
	switch name {
	case "future":
		if iat, ok := number(c.iat); ok && iat <= now+futureSkew {
			return ""
		}
		return Future
	case "expired":
		if exp, ok := number(c.exp); ok && now < exp {
			return ""
		}
		return Expired
	case "request":
		if isText(c.m, r.request.Method) && isText(c.t, r.request.Target) && r.digestRequest(s) == nil && isText(c.a, string(r.digest[:])) {
			return ""
		}
		return WrongRequest
	case "audience":
		if r.policy.audience == "" && c.aud == nil || r.policy.audience != "" && isText(c.aud, r.policy.audience) {
			return ""
		}
		return WrongAudience
	case "principal_drift":
		if r.principal.err != nil {
			return PrincipalError
		}
		if r.principal.bound == (c.p != nil) {
			return ""
		}
		return PrincipalDrift
	case "principal":
		if !r.principal.bound || isString(c.p) && r.principal.matches(c.p[1:len(c.p)-1]) {
			return ""
		}
		return WrongPrincipal
	}
	panic("binding: no check " + name)
}

// digestRequest computes the digest of the request if that has not been done.
func (r *Round) digestRequest(s *scratch) error {
	if r.digested {
		return r.digestErr
	}
	r.digested = true
	switch r.request.Method {
	case MethodReadResource:
		r.digest, r.digestErr = s.digest(nil)
	case MethodCallTool, MethodGetPrompt:
		if r.digest, r.digestErr = s.digest(r.request.Arguments); r.digestErr == nil && r.request.UniqueNames && r.request.Arguments != nil {
			r.digestErr = canon.NamesDiffer(r.request.Arguments)
		}
	default:
		r.digestErr = errors.New("the method carries no requestState")
	}
	return r.digestErr
}

// Seal returns a token for state, bound to this round's request and principal, that
// expires after the policy's time to live.
//
// Errors: the state or the target is not valid UTF-8 (lone surrogates as package
// binding explains excepted); the arguments are not JSON; the method carries no
// requestState; the token would be longer than Options.MaxTokenChars ([TooLarge]);
// [PrincipalError]; [CodecError]. None is [codec.ErrInvalid]. The client gets
// [InternalCode] and [InternalMessage].
func (r *Round) Seal(state string) (token string, err error) {
	s := take()
	defer s.give()
	if s.result, err = r.seal(s, s.result, state); err != nil {
		return "", err
	}
	return string(s.result), nil
}

// AppendSeal is [Round.Seal] that appends the token to dst. On an error it returns
// dst as it was given.
func (r *Round) AppendSeal(dst []byte, state string) ([]byte, error) {
	s := take()
	defer s.give()
	return r.seal(s, dst, state)
}

func (r *Round) seal(s *scratch, dst []byte, state string) ([]byte, error) {
	switch {
	case r.principal.err != nil:
		return dst, &failure{PrincipalError, r.principal.err}
	case len(state)+len(r.request.Target) > r.policy.maxChars:
		return dst, tooLarge(r.policy.maxChars)
	}
	if err := r.digestRequest(s); err != nil {
		return dst, fmt.Errorf("binding: the request cannot be bound: %w", err)
	}
	var salt [saltSize]byte
	if r.principal.bound {
		_, _ = rand.Read(salt[:]) // never fails: it ends the process instead
	}
	now := r.policy.now()
	ttl, err := r.policy.lifetime()
	if err != nil {
		return dst, &failure{CodecError, err}
	}

	reserve(&s.payload, r.claimsSize(state))
	var ok bool
	if s.payload, ok = r.appendClaims(s.payload, state, now, ttl, salt); !ok {
		clear(s.payload[:cap(s.payload)]) // see canon.AppendString
		return dst, errors.New("binding: the state or the target is not valid UTF-8; encode binary state as text, in base64 say")
	}
	out, err := r.policy.seal(dst, s.payload, now.Add(ttl))
	switch {
	case err != nil:
		return dst, &failure{CodecError, err}
	case len(out)-len(dst) > r.policy.maxChars:
		return dst, tooLarge(r.policy.maxChars)
	}
	return out, nil
}

func tooLarge(limit int) error {
	return &failure{TooLarge, fmt.Errorf("the token would be longer than the %d characters of MaxTokenChars; keep less in the state, or use a shorter name or URI", limit)}
}
