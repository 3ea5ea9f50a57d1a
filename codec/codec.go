package codec

import "time"

// A Codec turns a payload into a token and back. It proves that the token was
// made by a holder of the same key and was not changed since, and ideally hides
// the payload; it never looks inside the payload.
//
// What a Codec must do:
//
//   - Unseal(Seal(p)) gives p for every p, the empty one included.
//   - Unseal refuses, with an [*InvalidError], every string that it did not mint:
//     a changed, cut or extended token, another spelling of the same bytes, a
//     token under a key it does not hold. Two different strings never open to the
//     same payload by way of the same token.
//   - A token is printable ASCII without spaces, safe in a URL and in JSON.
//   - An error of another kind means that the codec itself failed (its keys are
//     stale, say). Its text is logged by the middleware, so no error ever holds a
//     payload, a token or a key.
//   - Both methods are safe for concurrent use, keep nothing of their arguments,
//     and do no input or output: a codec on top of a key service unwraps its keys
//     beforehand.
//
// Package codectest checks all of this.
type Codec interface {
	// Seal returns a token for payload.
	Seal(payload []byte) (token string, err error)

	// Unseal returns the payload of a token. The error is an *InvalidError for
	// anything that this codec did not mint.
	Unseal(token string) (payload []byte, err error)
}

// An Expirer is a [Codec] that knows how long its tokens may live: it keeps a key
// until the last token under it has expired, so it must be told when that is.
//
// Optional: found by type assertion. A Codec that wraps another passes on what
// the inner one has.
type Expirer interface {
	// MaxTTL is the longest time that a token sealed now may live, the ceiling in
	// force at this moment; 0 means that there is none. It may change between
	// two calls.
	MaxTTL() time.Duration

	// SealUntil is Seal for a payload that nobody accepts at or after expires. It
	// is an error if expires lies beyond the ceiling.
	SealUntil(payload []byte, expires time.Time) (token string, err error)
}

// An Identifier is a [Codec] whose tokens name their key.
//
// Optional: found by type assertion.
type Identifier interface {
	// KID returns the key id written in token, 8 lower-case hex digits and the same
	// for every token under a key, or "" if there is none to be read. It reads the text only: neither that the key is known nor that the
	// token is genuine follows from it.
	KID(token string) string
}

// An Appender is a [Codec] that works in the caller's buffers, without an
// allocation where dst has room.
//
// Optional: found by type assertion. Both methods return the extended dst; on an
// error they return dst as it was given, and what lies between its length and its
// capacity is undefined but holds no part of a payload that failed to verify.
type Appender interface {
	// AppendSeal appends a token for payload to dst. expires is as in
	// [Expirer.SealUntil]; the zero time stands for the ceiling of the codec, as
	// Seal does. dst and payload must not overlap.
	AppendSeal(dst, payload []byte, expires time.Time) ([]byte, error)

	// AppendUnseal appends the payload of token to dst.
	AppendUnseal(dst []byte, token string) ([]byte, error)
}
