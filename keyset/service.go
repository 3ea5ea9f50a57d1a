package keyset

import (
	"context"
	"time"
)

// A KeyService wraps data keys under a key-encryption key that never leaves it: a
// key management service, or a key file.
//
// Every wrap carries an encryption context, see [EncryptionContext]; a data key
// comes back only under the very same one. An implementation names in what it
// returns the key that really answered, and refuses to unwrap what was wrapped under
// any key but those it was given. Errors are [*KeyError]; [Throttled] and
// [Unavailable] are retried with backoff and jitter while the context allows, the
// other kinds never. It is safe for concurrent use, and starts nothing that outlives
// a call.
//
// Package keysettest checks all of this. What only some services can do is in
// [Generator], [Rewrapper] and [Describer].
type KeyService interface {
	// Wrap wraps dataKey under the first key that the service was given. It keeps
	// nothing of dataKey.
	Wrap(ctx context.Context, dataKey []byte, encryptionContext map[string]string) (WrappedKey, error)

	// Unwrap returns the data key. The caller zeroes it after use.
	Unwrap(ctx context.Context, w WrappedKey, encryptionContext map[string]string) ([]byte, error)

	// Opens reports whether service, a [WrappedKey.Service], is one of the keys that
	// the service was given. It makes no call.
	Opens(service string) bool
}

// A WrappedKey is a data key as it is stored. It is not secret. The encryption
// context is never part of it: whoever unwraps it has to know what it is for.
type WrappedKey struct {
	// Service names the key that wrapped it, in full and without an alias, as a URI:
	// awskms:///arn:…, gcpkms://projects/…, hashivault://KEY?mount=M, localkek://ID.
	Service string `json:"service"`

	// Version is the version of that key, where the service tells; else "".
	Version string `json:"version,omitempty"`

	// Ciphertext is opaque, in the form that the service returned it.
	Ciphertext []byte `json:"ciphertext"`
}

// A Generator is a [KeyService] that makes data keys itself, so that the key comes
// from the random source of the service.
//
// Optional: found by type assertion. [Services.Generate] uses it.
type Generator interface {
	// Generate returns 32 random bytes, and the same wrapped under the first key.
	Generate(ctx context.Context, encryptionContext map[string]string) (dataKey []byte, w WrappedKey, err error)
}

// A Rewrapper is a [KeyService] that wraps a data key anew, under the newest version
// of its first key, without showing it to the caller.
//
// Optional: found by type assertion. [Services.Rewrap] uses it.
type Rewrapper interface {
	Rewrap(ctx context.Context, w WrappedKey, encryptionContext map[string]string) (WrappedKey, error)
}

// A Describer is a [KeyService] that tells the state of its keys, for status pages
// and checks. It may need a permission that a server does not have.
//
// Optional: found by type assertion.
type Describer interface {
	// Describe tells of every key that the service was given, in that order. An
	// error about one key is in its description.
	Describe(ctx context.Context) ([]KeyDescription, error)
}

// A KeyDescription is what a [Describer] tells of one key.
type KeyDescription struct {
	Service string // as in WrappedKey.Service
	Version string // the version that wraps now; "" if the service has none
	Err     error  // why the key cannot be used, a *KeyError; nil if it can

	// CredentialExpires is when the credential with which the service is called
	// ends. The zero time means never, or unknown.
	CredentialExpires time.Time

	// Settings are how the service is reached, each with where the setting came from,
	// in plain words and without a secret; nil where there is nothing to tell.
	Settings []string

	// Warnings are in plain words what will become a problem if nothing is done.
	Warnings []string
}
