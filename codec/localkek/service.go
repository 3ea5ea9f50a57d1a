package localkek

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/echoseal/echoseal/keyset"
)

const (
	scheme = "localkek"
	prefix = scheme + "://"

	keySize    = 32
	overhead   = 12 + 16 // nonce and tag
	maxDataKey = 4096
	idInfo     = "echoseal/localkek/v1/id:"
	idSize     = 8 // bytes; twice as many hex digits
)

// Operations, as errors name them.
const (
	opOpen   = "open"
	opWrap   = "wrap"
	opUnwrap = "unwrap"
)

// A Service wraps and unwraps data keys with keys that it holds in memory. It is a
// [keyset.KeyService] and a [keyset.Describer], immutable and safe for concurrent use.
// [New] or [Open] makes one; there is nothing to close.
type Service struct {
	keys []*key // at least one; the first wraps
}

var _ interface {
	keyset.KeyService
	keyset.Describer
} = (*Service)(nil)

// A key is a key-encryption key, ready for use.
type key struct {
	name string
	aead cipher.AEAD // draws its own nonce
	from *location   // nil if it was given as bytes
}

// New returns a service for keys of 32 random bytes each. The first wraps, every one
// unwraps. It keeps nothing of them: the caller zeroes them.
//
// The error is [keyset.ErrConfig] and names the index of the key: none, or one of
// another length.
func New(keys ...[]byte) (*Service, error) {
	s := &Service{}
	for i, kek := range keys {
		k, err := newKey(kek)
		if err != nil {
			return nil, fmt.Errorf("localkek: key %d: %w", i, err)
		}
		s.add(k)
	}
	if len(s.keys) == 0 {
		return nil, configError("no key")
	}
	return s, nil
}

// add appends a key. One that is there already is passed over.
func (s *Service) add(k *key) {
	if s.find(k.name) == nil {
		s.keys = append(s.keys, k)
	}
}

func newKey(kek []byte) (*key, error) {
	if len(kek) != keySize {
		return nil, fmt.Errorf("%w: it is %d bytes long, and %d are needed", keyset.ErrConfig, len(kek), keySize)
	}
	if subtle.ConstantTimeCompare(kek, make([]byte, keySize)) == 1 {
		return nil, fmt.Errorf("%w: it is zero, as a key is that was cleared", keyset.ErrConfig)
	}
	block, err := aes.NewCipher(kek)
	if err != nil {
		return nil, err
	}
	// The only GCM with random nonces that FIPS 140-3 mode allows.
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &key{name: nameOf(kek), aead: aead}, nil
}

// nameOf returns the name under which a key is stored.
func nameOf(kek []byte) string {
	labelled := append([]byte(idInfo), kek...)
	defer clear(labelled)
	sum := sha256.Sum256(labelled)
	return prefix + hex.EncodeToString(sum[:idSize])
}

func (s *Service) find(name string) *key {
	for _, k := range s.keys {
		if k.name == name {
			return k
		}
	}
	return nil
}

// Opens reports whether service is the name of one of the keys.
func (s *Service) Opens(service string) bool { return s.find(service) != nil }

// Wrap wraps a data key of 1 to 4096 bytes.
func (s *Service) Wrap(ctx context.Context, dataKey []byte, encryptionContext map[string]string) (keyset.WrappedKey, error) {
	k := s.keys[0]
	if err := checkTime(ctx, opWrap, k.name); err != nil {
		return keyset.WrappedKey{}, err
	}
	if len(dataKey) == 0 || len(dataKey) > maxDataKey {
		return keyset.WrappedKey{}, &keyset.KeyError{
			Kind: keyset.Corrupt, Key: k.name, Operation: opWrap,
			Remedy: "take a data key of 32 random bytes",
			Err:    fmt.Errorf("a data key of %d bytes, where 1 to %d can be wrapped", len(dataKey), maxDataKey),
		}
	}
	return keyset.WrappedKey{
		Service:    k.name,
		Ciphertext: k.aead.Seal(nil, nil, dataKey, keyset.ContextBytes(encryptionContext)),
	}, nil
}

// Unwrap returns a data key that one of the keys has wrapped.
func (s *Service) Unwrap(ctx context.Context, w keyset.WrappedKey, encryptionContext map[string]string) ([]byte, error) {
	k := s.find(w.Service)
	if k == nil {
		return nil, &keyset.KeyError{
			Kind: keyset.WrongKey, Key: fmt.Sprintf("%.256q", w.Service), Operation: opUnwrap,
			Remedy: "add the key file that it was wrapped under, or correct the passphrase",
			Err:    fmt.Errorf("the keys here are %v", s),
		}
	}
	if err := checkTime(ctx, opUnwrap, k.name); err != nil {
		return nil, err
	}
	if n := len(w.Ciphertext); n <= overhead || n > overhead+maxDataKey {
		return nil, &keyset.KeyError{
			Kind: keyset.Corrupt, Key: k.name, Operation: opUnwrap,
			Remedy: "take back the entry as it was written",
			Err:    fmt.Errorf("a ciphertext of %d bytes, where %d to %d are possible", n, overhead+1, overhead+maxDataKey),
		}
	}
	dataKey, err := k.aead.Open(nil, nil, w.Ciphertext, keyset.ContextBytes(encryptionContext))
	if err != nil {
		return nil, &keyset.KeyError{
			Kind: keyset.ContextMismatch, Key: k.name, Operation: opUnwrap, Remedy: contextRemedy(encryptionContext),
			Err: errors.New("the ciphertext is not authentic"),
		}
	}
	return dataKey, nil
}

// Describe reads the files of the keys once more, so that what would fail at the next
// start is seen before: an error of [Open], or [keyset.WrongKey] if a file or a passphrase
// now gives another key. Keys that were given to [New] have no file.
func (s *Service) Describe(ctx context.Context) ([]keyset.KeyDescription, error) {
	described := make([]keyset.KeyDescription, len(s.keys))
	for i, k := range s.keys {
		described[i].Service = k.name
		if k.from == nil {
			continue
		}
		now, err := k.from.load(ctx)
		if err == nil && now.name != k.name {
			err = &keyset.KeyError{
				Kind: keyset.WrongKey, Key: k.name, Operation: opOpen,
				Remedy: "put back what was there: the next start will not unwrap what is wrapped under " + k.name,
				Err:    fmt.Errorf("it has changed since the start, to %v", now),
			}
		}
		described[i].Err = err
	}
	return described, nil
}

// String returns the names of the keys and the files that they are from.
func (s *Service) String() string {
	texts := make([]string, len(s.keys))
	for i, k := range s.keys {
		texts[i] = k.String()
	}
	return strings.Join(texts, ", ")
}

// Format prints what String returns whatever the verb, so that no log ever shows a key.
func (s *Service) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

func (k *key) String() string {
	if k.from == nil {
		return k.name
	}
	return k.name + " from " + k.from.String()
}

// checkTime returns an error if ctx has ended. What is done here takes no time, but who
// has ended a context wants nothing done.
func checkTime(ctx context.Context, operation, name string) error {
	if ctx.Err() == nil {
		return nil
	}
	return &keyset.KeyError{
		Kind: keyset.Unavailable, Key: name, Operation: operation,
		Remedy: "the caller has ended it, or given it too little time", Err: ctx.Err(),
	}
}

func contextRemedy(encryptionContext map[string]string) string {
	names := "none"
	if len(encryptionContext) > 0 {
		names = strings.Join(slices.Sorted(maps.Keys(encryptionContext)), ", ")
	}
	return "context mismatch or corrupt, which cannot be told apart: check the name of the keyset and that the entry was not moved or edited (keys of the encryption context: " + names + ")"
}

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: localkek: "+format, append([]any{keyset.ErrConfig}, args...)...)
}
