package binding

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/echoseal/echoseal/codec"
)

// Reasons for which a claim fails, besides those of the codec ([codec.Malformed],
// [codec.UnknownKey], [codec.BadSeal]). An error of [Round.Unseal] satisfies
// errors.Is with its reason; all but the last two are also [codec.ErrInvalid].
const (
	TooLarge       codec.Reason = "too_large"       // longer than Options.MaxTokenChars; not decoded
	Future         codec.Reason = "future"          // sealed more than 60 seconds from now: clocks disagree
	Expired        codec.Reason = "expired"         // past its time to live
	WrongRequest   codec.Reason = "request"         // another method, target or arguments, or arguments that are not JSON
	WrongAudience  codec.Reason = "audience"        // made for another service
	PrincipalDrift codec.Reason = "principal_drift" // a principal is known on one side only
	WrongPrincipal codec.Reason = "principal"       // made for another principal

	PrincipalError codec.Reason = "principal_error" // it could not be determined who asks; see FailedPrincipal
	CodecError     codec.Reason = "codec_error"     // the codec failed; the token may be good
)

// What a refused token is answered with on the wire: a JSON-RPC error that is the
// same for every reason, byte for byte the Python SDK's, so that an attacker learns
// nothing from it.
const (
	RefusedCode    = -32602
	RefusedMessage = "Invalid or expired requestState"
	RefusedData    = `{"reason":"invalid_request_state"}`
)

// What a failure to seal is answered with on the wire: a JSON-RPC error without
// data.
const (
	InternalCode    = -32603
	InternalMessage = "Internal error"
)

// A Refusal reports a refused token, for logs and metrics. It holds no token,
// state or principal.
type Refusal struct {
	Method  string       // tools/call, prompts/get or resources/read
	Reason  codec.Reason // why
	KID     string       // the key id that the token names, 8 hex digits; "" if none can be read
	TokenID string       // see [TokenID]
	Time    time.Time    // by the policy's clock
}

// Refusal reports that token was refused in this round with err, an error of
// [Round.Unseal]. An error of another origin counts as [CodecError].
func (r *Round) Refusal(token string, err error) Refusal {
	refusal := Refusal{
		Method:  r.request.Method,
		Reason:  CodecError,
		KID:     r.policy.kid(token),
		TokenID: TokenID(token),
		Time:    r.policy.now(),
	}
	var reason codec.Reason
	if errors.As(err, &reason) {
		refusal.Reason = reason
	}
	return refusal
}

// Attrs returns the refusal as log attributes with stable names: reason, method,
// kid and token_id, and a hint where the reason alone is known to mislead. The time
// is left to the logger.
func (r Refusal) Attrs() []slog.Attr {
	attrs := []slog.Attr{
		slog.String("reason", string(r.Reason)),
		slog.String("method", r.Method),
		slog.String("kid", r.KID),
		slog.String("token_id", r.TokenID),
	}
	if r.Reason == codec.UnknownKey {
		attrs = append(attrs, slog.String("hint", "this replica does not have the key; with a keyset: it was retired or revoked, or not read or not opened here yet (keytool inspect --store tells); else: it is from another secret, from an ephemeral key before a restart, or the middleware is made anew for each request"))
	}
	return attrs
}

// TokenID returns the first 8 hex digits of the token's SHA-256: what logs and
// tools print in place of the token, so that a log line and a captured token can
// be matched.
func TokenID(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:4])
}

// failure is an error that is not the token's fault: reason says whose, cause how.
type failure struct {
	reason codec.Reason
	cause  error
}

func (f *failure) Error() string { return string(f.reason) + ": " + f.cause.Error() }

// Unwrap returns the reason and the cause, unless that says of itself that a token is
// invalid: it does not mean this one.
func (f *failure) Unwrap() []error {
	if errors.Is(f.cause, codec.ErrInvalid) {
		return []error{f.reason}
	}
	return []error{f.reason, f.cause}
}
