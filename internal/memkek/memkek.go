// Package memkek is a key service in memory, for tests of this module: a real one, with
// AES-256-GCM, whose back end can be made to fail.
package memkek

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

const (
	tagSize   = 16
	nonceSize = 12
	attempts  = 5
	firstWait = 2 * time.Millisecond
)

// A Service is a [keyset.KeyService]. Its key lives as long as it does.
type Service struct {
	// Backend, if not nil, stands for the call of the service behind it: it is called
	// once per attempt, and its error is that of the attempt. Set it before use.
	Backend func(context.Context) error

	names []string
	aeads map[string]cipher.AEAD
}

var _ keyset.KeyService = (*Service)(nil)

// The keys of a name are the same in every Service, for as long as the process runs.
var (
	mu   sync.Mutex
	keys = make(map[string][]byte)
)

// New returns a service for the keys memkek://NAME. The first wraps, every one unwraps.
func New(names ...string) *Service {
	s := &Service{names: names, aeads: make(map[string]cipher.AEAD)}
	for _, name := range names {
		s.aeads[scheme+name] = newAEAD(name)
	}
	return s
}

const scheme = "memkek://"

func newAEAD(name string) cipher.AEAD {
	mu.Lock()
	defer mu.Unlock()
	if keys[name] == nil {
		keys[name] = make([]byte, 32)
		_, _ = rand.Read(keys[name])
	}
	block, err := aes.NewCipher(keys[name])
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return aead
}

// Opens reports whether service is one of the names given to New.
func (s *Service) Opens(service string) bool { return s.aeads[service] != nil }

// Wrap wraps a data key.
func (s *Service) Wrap(ctx context.Context, dataKey []byte, encryptionContext map[string]string) (keyset.WrappedKey, error) {
	name := scheme + s.names[0]
	if err := s.call(ctx, name, "wrap"); err != nil {
		return keyset.WrappedKey{}, err
	}
	ciphertext := s.aeads[name].Seal(nil, nil, dataKey, keyset.ContextBytes(encryptionContext))
	return keyset.WrappedKey{Service: name, Ciphertext: ciphertext}, nil
}

// Unwrap unwraps a data key.
func (s *Service) Unwrap(ctx context.Context, w keyset.WrappedKey, encryptionContext map[string]string) ([]byte, error) {
	aead := s.aeads[w.Service]
	if aead == nil {
		return nil, &keyset.KeyError{
			Kind: keyset.WrongKey, Key: fmt.Sprintf("%.256q", w.Service), Operation: "unwrap",
			Remedy: "it is not one of " + strings.Join(s.names, ", "),
		}
	}
	if len(w.Ciphertext) < nonceSize+tagSize {
		return nil, &keyset.KeyError{Kind: keyset.Corrupt, Key: w.Service, Operation: "unwrap", Remedy: "restore the keyset", Err: errors.New("too short")}
	}
	if err := s.call(ctx, w.Service, "unwrap"); err != nil {
		return nil, err
	}
	dataKey, err := aead.Open(nil, nil, w.Ciphertext, keyset.ContextBytes(encryptionContext))
	if err != nil {
		return nil, &keyset.KeyError{Kind: keyset.ContextMismatch, Key: w.Service, Operation: "unwrap", Remedy: "check the keyset's name", Err: err}
	}
	return dataKey, nil
}

// call calls the back end until it answers, or has failed for good.
func (s *Service) call(ctx context.Context, name, operation string) error {
	for wait, n := firstWait, 1; ; wait, n = 2*wait, n+1 {
		err := ctx.Err()
		if err == nil && s.Backend != nil {
			err = s.Backend(ctx)
		}
		if err == nil {
			return nil
		}
		kind := keyset.Unavailable
		if k := keyset.Kind(""); errors.As(err, &k) {
			kind = k
		}
		if !kind.Temporary() || ctx.Err() != nil || n == attempts {
			return &keyset.KeyError{Kind: kind, Key: name, Operation: operation, Remedy: "ask the test", Err: err}
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + mathrand.N(wait)): //nolint:gosec // jitter, no secret
		}
	}
}
