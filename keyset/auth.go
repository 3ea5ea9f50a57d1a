package keyset

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// authKeySize is the size of an auth key, in bytes.
const authKeySize = 32

const tagInfo = "echoseal/keyset/v1/tag"

// ErrTag is the error of a document whose tag does not fit: somebody without the auth
// key has changed it.
var ErrTag = errors.New("the keyset's tag does not fit: somebody without its auth key has written it; restore it from a copy that you trust")

// An AuthKey authenticates the documents of one lineage. It is immutable and safe for
// concurrent use, and prints its id whatever the verb.
type AuthKey struct {
	id  string
	tag []byte // HKDF-SHA256(secret, no salt, info echoseal/keyset/v1/tag)
}

// NewAuthKey derives the key from the secret of a document's [AuthEntry] of that id, 32
// bytes as [Services.OpenAuth] returns them. It keeps nothing of secret.
func NewAuthKey(id string, secret []byte) (*AuthKey, error) {
	if len(secret) != authKeySize {
		return nil, fmt.Errorf("the auth key %s is %d bytes long instead of %d", id, len(secret), authKeySize)
	}
	tag, err := hkdf.Key(sha256.New, secret, nil, tagInfo, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("deriving the tag key: %w", err)
	}
	return &AuthKey{id: id, tag: tag}, nil
}

// ID returns the id of the [AuthEntry].
func (k *AuthKey) ID() string { return k.id }

// Equal reports, in constant time, whether two keys are of one secret and one id.
func (k *AuthKey) Equal(other *AuthKey) bool { return k.id == other.id && hmac.Equal(k.tag, other.tag) }

// Format prints the id whatever the verb, so that no log ever shows a key.
func (k AuthKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "keyset.AuthKey("+k.id+")") }

// Verify reports [ErrTag] unless the text that d was parsed from carries the tag of k:
// HMAC-SHA256 over the canonical JSON of the document without its tag, members that
// this version does not know included.
func (k *AuthKey) Verify(d *Document) error {
	if len(d.read.signed) == 0 || d.Auth.ID != k.id || !hmac.Equal(d.Tag, k.mac(d.read.signed)) {
		return ErrTag
	}
	return nil
}

func (k *AuthKey) mac(signed []byte) []byte {
	h := hmac.New(sha256.New, k.tag)
	h.Write(signed)
	return h.Sum(nil)
}
