package local

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/echoseal/echoseal/codec"
)

const (
	prefix    = "v1."
	kidSize   = 4
	nonceSize = 12
	tagSize   = 16
	overhead  = kidSize + nonceSize + tagSize // the smallest body: a token with an empty payload

	minSecret = 32
	keyInfo   = "mcp/request-state/v1/aes-256-gcm"
	kidInfo   = "mcp/request-state/v1/kid:"
)

// A Key is one key of a ring, derived from a secret. It is immutable and safe for
// concurrent use. The zero value is not a key; [NewKey] makes one.
type Key struct {
	kid  [kidSize]byte
	text string      // kid in hex
	aad  []byte      // prefix ‖ kid; never written after NewKey
	aead cipher.AEAD // draws its own nonce
	// mark tells two keys with one kid apart, without keeping the key itself.
	mark [sha256.Size]byte
}

// NewKey derives a key from a secret of at least 32 bytes, which should be random
// (RFC 5869 explains why a passphrase is not enough); a text secret is its UTF-8
// bytes. It keeps nothing of secret.
//
// The error is [codec.ErrConfig].
func NewKey(secret []byte) (*Key, error) { return newKey(secret, "the secret") }

func newKey(secret []byte, what string) (*Key, error) {
	if len(secret) < minSecret {
		return nil, fmt.Errorf("%w: local: %s is %d bytes long, at least %d random bytes are needed; make one with: openssl rand -hex 32",
			codec.ErrConfig, what, len(secret), minSecret)
	}
	derived, err := hkdf.Key(sha256.New, secret, nil, keyInfo, 32)
	if err != nil {
		return nil, fmt.Errorf("deriving a key: %w", err)
	}
	defer clear(derived)
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, fmt.Errorf("deriving a key: %w", err)
	}
	// The only GCM with random nonces that FIPS 140-3 mode allows.
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("deriving a key: %w", err)
	}
	sum := labelled(kidInfo, derived)
	k := &Key{aead: aead, mark: labelled("echoseal/local/mark:", derived)}
	copy(k.kid[:], sum[:])
	k.text = hex.EncodeToString(k.kid[:])
	k.aad = append([]byte(prefix), k.kid[:]...)
	return k, nil
}

// KID returns the key id, 8 lower-case hex digits: a fingerprint of the key, not
// secret, the same in every process that has the secret.
func (k *Key) KID() string { return k.text }

// Format prints the key id whatever the verb, so that no log ever shows a key.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "local.Key("+k.text+")") }

func labelled(label string, key []byte) [sha256.Size]byte {
	buf := append([]byte(label), key...)
	defer clear(buf)
	return sha256.Sum256(buf)
}

var (
	errNotAKey  = errors.New("not a key: use NewKey")
	errNotARing = fmt.Errorf("%w: local: not a ring: use New, and check its error", codec.ErrConfig)
)
