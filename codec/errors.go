package codec

import "errors"

// ErrInvalid is what every refused token has in common: errors.Is(err, ErrInvalid)
// holds for each [*InvalidError]. The failure of a back end is never ErrInvalid.
var ErrInvalid = errors.New("invalid token")

// ErrConfig is what every error of a constructor has in common: a missing or
// unusable setting, found before anything is sealed.
var ErrConfig = errors.New("invalid configuration")

// A Reason says why a token was refused: a short code for logs and metrics, never
// for the peer that sent the token. It is an error, so that
// errors.Is(err, codec.UnknownKey) works on whatever carries it.
//
// These are the reasons that a codec gives; package binding adds those of the
// claims.
type Reason string

// Reasons of a codec.
const (
	Malformed  Reason = "malformed"   // not a token of this format, in its only spelling
	UnknownKey Reason = "unknown_key" // names a key that the codec does not hold
	BadSeal    Reason = "seal"        // the key is known, but the token was not made with it or was changed
)

// Error returns the code.
func (r Reason) Error() string { return string(r) }

// An InvalidError reports a token that was refused. It holds nothing of the
// token but the key id that the token's text names.
type InvalidError struct {
	Reason Reason
	KID    string // 8 lower-case hex digits; "" if the token names no key
}

// Error gives the reason and the key id, at most 40 characters in all for the
// reasons of this module.
func (e *InvalidError) Error() string {
	if e.KID == "" {
		return "invalid token: " + string(e.Reason)
	}
	return "invalid token: " + string(e.Reason) + " " + e.KID
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Unwrap returns the reason, so that errors.Is(err, codec.UnknownKey) works.
func (e *InvalidError) Unwrap() error { return e.Reason }
