package keyset

import (
	"errors"
	"strings"
	"unicode"
)

// ErrConfig is what every error of a key service's constructor has in common: a
// missing, malformed or contradictory setting, found before any call.
var ErrConfig = errors.New("invalid configuration")

// A Kind says in one word why a key service failed. It is an error, so that
// errors.Is(err, keyset.Denied) works on whatever carries it.
type Kind string

// The kinds.
const (
	NotFound        Kind = "not_found"        // no such key
	Disabled        Kind = "disabled"         // the key or this version is disabled
	PendingDeletion Kind = "pending_deletion" // the key is scheduled for deletion; it can still be rescued
	Destroyed       Kind = "destroyed"        // the key material is gone
	Denied          Kind = "denied"           // the credential is missing, wrong, expired or not allowed to
	Throttled       Kind = "throttled"        // too many calls; retried
	Unavailable     Kind = "unavailable"      // no answer, a fault of the service, or out of time; retried
	Sealed          Kind = "sealed"           // Vault or OpenBao is sealed
	ContextMismatch Kind = "context_mismatch" // another encryption context, or a damaged ciphertext where the service cannot tell which
	WrongKey        Kind = "wrong_key"        // wrapped under another key, or another key answered
	Corrupt         Kind = "corrupt"          // a damaged ciphertext, or not the data key that was expected
	VersionTooOld   Kind = "version_too_old"  // the key no longer decrypts versions this old
)

// Error returns the kind.
func (k Kind) Error() string { return string(k) }

// Temporary reports whether trying again may help: for [Throttled] and
// [Unavailable] it may.
func (k Kind) Temporary() bool { return k == Throttled || k == Unavailable }

// A KeyError reports that a key service did not do what it was asked. It holds no
// key material, no credential and no value of an encryption context.
type KeyError struct {
	Kind      Kind
	Key       string // the key, as in WrappedKey.Service
	Operation string // as the vendor calls it, which is also the permission to look for: kms:Decrypt
	Remedy    string // what to do about it, a phrase without a full stop
	Err       error  // what the vendor's client said; may be nil
}

// Error names operation, key, kind, cause and remedy, in one line.
func (e *KeyError) Error() string {
	var b strings.Builder
	b.WriteString(e.Operation + " with " + e.Key + ": " + strings.ReplaceAll(string(e.Kind), "_", " "))
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	// What a service says goes to terminals and logs.
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, b.String())
}

// Unwrap returns the kind and the cause.
func (e *KeyError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// isControl reports whether r could do something to a terminal or to the line that it
// stands in.
func isControl(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }
