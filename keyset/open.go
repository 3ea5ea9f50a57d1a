package keyset

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/internal/strict"
)

// Load reads the document of a source, and verifies that it is the keyset of that name
// and was written by somebody who has its auth key. The version is that of the source.
//
// This is how a tool begins; a server's ring (package keyring) does more. Errors are
// those of [Source.Load], [Parse], [Services.OpenAuth] and [AuthKey.Verify], or tell
// that the keyset has another name.
func Load(ctx context.Context, source Source, services Services, name string) (d *Document, auth *AuthKey, version string, err error) {
	text, version, err := source.Load(ctx)
	if err != nil {
		return nil, nil, "", fmt.Errorf("reading the keyset %s: %w", name, err)
	}
	d, err = Parse(text)
	if err != nil {
		return nil, nil, "", fmt.Errorf("reading the keyset %s: %w", name, err)
	}
	if d.Name != name {
		return nil, nil, "", fmt.Errorf("the keyset is %s, and %s is what was asked for: correct the name or the place", d.Name, name)
	}
	secret, err := services.OpenAuth(ctx, d)
	if err != nil {
		return nil, nil, "", err
	}
	defer clear(secret)
	auth, err = NewAuthKey(d.Auth.ID, secret)
	if err != nil {
		return nil, nil, "", err
	}
	if err := auth.Verify(d); err != nil {
		return nil, nil, "", fmt.Errorf("reading the keyset %s: %w", name, err)
	}
	return d, auth, version, nil
}

// OpenAuth unwraps the auth key of a keyset, for [NewAuthKey] and the key of the fleet's
// reports. The caller zeroes the 32 bytes after use. Errors are those of
// [Services.Unwrap], or [Corrupt].
func (s Services) OpenAuth(ctx context.Context, d *Document) ([]byte, error) {
	secret, t, err := s.unwrap(ctx, d.Auth.Wrapped, EncryptionContext(d.Name, d.Auth.ID, Auth))
	if err != nil {
		return nil, fmt.Errorf("unwrapping the auth key of keyset %s: %w", d.Name, err)
	}
	if len(secret) != authKeySize {
		clear(secret)
		return nil, corrupt("the auth key of keyset "+d.Name, t.wrapped, restore, fmt.Errorf("it is %d bytes long instead of %d", len(secret), authKeySize))
	}
	return secret, nil
}

// OpenSecret unwraps the data key of a key of the named keyset: the secret that package
// codec/local makes a key of. The caller zeroes it after use. Errors are those of
// [Services.Unwrap], or [Corrupt] if it is not the data key of k.
func (s Services) OpenSecret(ctx context.Context, name string, k Key) ([]byte, error) {
	secret, _, err := s.openSecret(ctx, name, k)
	return secret, err
}

// OpenKey is [Services.OpenSecret] and [local.NewKey].
func (s Services) OpenKey(ctx context.Context, name string, k Key) (*local.Key, error) {
	secret, key, err := s.openSecret(ctx, name, k)
	clear(secret)
	return key, err
}

const (
	minSecret = 32   // bytes of a data key
	maxSecret = 1024 // bytes of one that was taken over
)

func (s Services) openSecret(ctx context.Context, name string, k Key) ([]byte, *local.Key, error) {
	if k.State == Revoked {
		return nil, nil, fmt.Errorf("%w: key %s of keyset %s is revoked, and its data key gone", ErrConfig, k.KID, name)
	}
	if k.Format != FormatV1 {
		return nil, nil, fmt.Errorf("%w: key %s has the token format %q, which this version does not know", ErrConfig, k.KID, k.Format)
	}
	secret, t, err := s.unwrap(ctx, k.Wrapped, EncryptionContext(name, k.ID, Data))
	if err != nil {
		return nil, nil, fmt.Errorf("unwrapping key %s of keyset %s: %w", k.KID, name, err)
	}
	key, err := localKey(secret)
	if err == nil && key.KID() != k.KID {
		err = errors.New("the data key belongs to another key id")
	}
	if err != nil {
		clear(secret)
		return nil, nil, corrupt("key "+k.KID+" of keyset "+name, t.wrapped, restore, err)
	}
	return secret, key, nil
}

// corrupt is the error of what unwraps to something else than the document says.
func corrupt(what string, w WrappedKey, remedy string, err error) error {
	return &KeyError{Kind: Corrupt, Key: w.Service, Operation: "unwrapping " + what, Remedy: "it was not used; " + remedy, Err: err}
}

const restore = "restore the wrapping from an older copy of the keyset"

// GenerateKey makes a data key for d, wrapped by the first service, and opens the wrapping
// once as a server would. It is a new [Key] without a state, for [Document.Stage], whose
// key id no key of the keyset has or had.
func (d *Document) GenerateKey(ctx context.Context, s Services, now time.Time) (Key, error) {
	const draws = 8 // a second one is needed once in a hundred million times
	for range draws {
		id := newUUID()
		secret, w, err := s.Generate(ctx, EncryptionContext(d.Name, id, Data))
		if err != nil {
			return Key{}, fmt.Errorf("making a key for keyset %s: %w", d.Name, err)
		}
		k, err := d.newKey(ctx, s, id, secret, w, now)
		clear(secret)
		if err != nil || !d.taken(k.KID) {
			return k, err
		}
	}
	return Key{}, fmt.Errorf("making a key for keyset %s: %d data keys in a row have the key id of another: the random source does not work", d.Name, draws)
}

// wrapKey makes a [Key] as [Document.GenerateKey] does, of a secret of 32 to 1024 bytes that
// is in use already. It keeps nothing of secret.
//
// Before any call the error is [ErrConfig] for a secret of another length, and a
// [*MoveError] if the keyset has or had a key of its key id.
func (d *Document) wrapKey(ctx context.Context, s Services, secret []byte, now time.Time) (Key, error) {
	key, err := localKey(secret)
	switch {
	case err != nil:
		return Key{}, fmt.Errorf("%w: the secret: %w", ErrConfig, err)
	case d.taken(key.KID()):
		return Key{}, &MoveError{KID: key.KID(), From: "new", To: string(Staged), Why: "the keyset has or had a key of that id: the same secret, or another that has its key id by chance"}
	case len(s) == 0:
		return Key{}, errNoService
	}
	id := newUUID()
	w, err := s[0].Wrap(ctx, secret, EncryptionContext(d.Name, id, Data))
	if err != nil {
		return Key{}, fmt.Errorf("wrapping a secret for keyset %s: %w", d.Name, err)
	}
	return d.newKey(ctx, s, id, secret, w, now)
}

// localKey makes the key of a data key.
func localKey(secret []byte) (*local.Key, error) {
	if len(secret) < minSecret || len(secret) > maxSecret {
		return nil, fmt.Errorf("it is %d bytes long, and %d to %d are possible", len(secret), minSecret, maxSecret)
	}
	return local.NewKey(secret)
}

// newKey makes the key of a data key, whose wrapping is opened before it is returned.
func (d *Document) newKey(ctx context.Context, s Services, id string, secret []byte, w WrappedKey, now time.Time) (Key, error) {
	key, err := localKey(secret)
	if err != nil {
		return Key{}, fmt.Errorf("making a key for keyset %s: %w", d.Name, err)
	}
	if err := preflight(ctx, s, EncryptionContext(d.Name, id, Data), secret, w); err != nil {
		return Key{}, err
	}
	return Key{ID: id, KID: key.KID(), Format: FormatV1, Created: strict.CeilTime(now), Wrapped: []WrappedKey{w}}, nil
}

// preflight opens a new wrapping as a server would, before it is stored.
func preflight(ctx context.Context, s Services, encryptionContext map[string]string, secret []byte, w WrappedKey) error {
	again, err := s.Unwrap(ctx, []WrappedKey{w}, encryptionContext)
	defer clear(again)
	if err != nil {
		return fmt.Errorf("unwrapping what was just wrapped: %w", err)
	}
	if subtle.ConstantTimeCompare(again, secret) != 1 {
		return corrupt("what was just wrapped", w, "look for what stands between here and the key service", errors.New("it is another data key"))
	}
	return nil
}

// newUUID returns a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
