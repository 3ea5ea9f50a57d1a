package keyring

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// An entry is what the keyset has wrapped: the auth key, or a data key that was not
// revoked. The lock of the ring guards it.
type entry struct {
	name  string // for people and reports: the key id, or fleet.AuthKey
	key   keyset.Key
	held  *heldKey    // nil: it is not unwrapped, or it is the auth key, which the ring always holds
	wraps []*wrapping // those of configured services
	out   leftOut     // why it is not even tried; zero if it is
	gone  bool        // from the keyset
	retry retry
}

// A leftOut says why a key is not even tried.
type leftOut struct{ kind, text string }

// A wrapping is a wrapped key, and what came of opening it. It stays the same from
// revision to revision as long as it is not changed, so that it is opened once.
type wrapping struct {
	keyset.WrappedKey
	opened bool
	err    error // of the last attempt
	retry  retry
}

// A retry says when something is tried again that has failed.
type retry struct {
	busy  bool
	tries int
	at    time.Time // by time.Now, as timers are
}

func (r *retry) due(now time.Time) bool { return !r.busy && !now.Before(r.at) }

// failed doubles the wait, from at most a second up to most.
func (r *retry) failed(now time.Time, most time.Duration) {
	const doublings = 20 // a second becomes more than a week
	r.at = now.Add(min(time.Second<<min(r.tries, doublings), most))
	r.tries++
}

// mostWait is the longest wait before a wrapping is tried again whose key is held: it is
// needed only when another instance starts.
const mostWait = time.Hour

func (e *entry) isAuth() bool { return e.name == fleet.AuthKey }

// needed reports whether the key is to be unwrapped yet.
func (e *entry) needed() bool { return e.held == nil && e.out.kind == "" && !e.isAuth() }

// why tells why a key is left out.
func (e *entry) why() string {
	if e.out.kind != "" {
		return e.out.text
	}
	var failed []error
	for _, w := range e.wraps {
		if w.err != nil {
			failed = append(failed, w.err)
		}
	}
	if len(failed) == 0 {
		return "it has not been unwrapped yet"
	}
	return strings.ReplaceAll(errors.Join(failed...).Error(), "\n", "; ")
}

// takeOver makes e the entry of k as it is now; services decide which of its wrappings
// count.
func (e *entry) takeOver(k keyset.Key, services keyset.Services, wrapped []keyset.WrappedKey) {
	old := e.wraps
	e.key, e.wraps, e.out = k, nil, leftOut{}
	for _, w := range wrapped {
		if !services.Opens(w.Service) {
			continue
		}
		i := slices.IndexFunc(old, func(o *wrapping) bool {
			return o.Service == w.Service && o.Version == w.Version && string(o.Ciphertext) == string(w.Ciphertext)
		})
		if i >= 0 {
			e.wraps = append(e.wraps, old[i])
			continue
		}
		e.wraps = append(e.wraps, &wrapping{WrappedKey: w})
		e.retry.at = time.Time{} // there is something new to try
	}
	switch {
	case !e.isAuth() && k.Format != keyset.FormatV1:
		e.out = leftOut{"format", fmt.Sprintf("its token format %q is not known to this version", k.Format)}
	case len(e.wraps) == 0:
		e.out = leftOut{"no_service", "no configured key service opens it"}
	}
}

// unwrap opens one wrapping of an entry. The caller zeroes the secret.
func (r *Ring) unwrap(ctx context.Context, name string, k keyset.Key, w keyset.WrappedKey) ([]byte, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for other calls of the key services: %w", ctx.Err())
	}
	what := "key " + name
	if name == fleet.AuthKey {
		what = "the auth key"
	}
	defer r.steps.begin("key service " + w.Service + " to unwrap " + what)()
	wrapped := []keyset.WrappedKey{w}
	if name == fleet.AuthKey {
		return r.config.Services.OpenAuth(ctx, &keyset.Document{Name: r.config.Name, Auth: keyset.AuthEntry{ID: k.ID, Wrapped: wrapped}})
	}
	k.Wrapped = wrapped
	return r.config.Services.OpenSecret(ctx, r.config.Name, k)
}

// open tries the wrappings of an entry whose key is not held, in their order, until one
// gives it. Each has an equal share of the time that is left.
func (r *Ring) open(ctx context.Context, e *entry) error {
	r.mu.Lock()
	k, wraps := e.key, slices.Clone(e.wraps)
	r.mu.Unlock()
	var failed []error
	for i, w := range wraps {
		err := r.tryOne(ctx, e, k, w, len(wraps)-i)
		if err == nil {
			return nil
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// tryOne opens one wrapping and notes what came of it. left is how many wait for the time
// that ctx has, this one included.
func (r *Ring) tryOne(ctx context.Context, e *entry, k keyset.Key, w *wrapping, left int) error {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	secret, err := r.unwrap(ctx, e.name, k, w.WrappedKey)
	defer clear(secret)
	return r.settle(e, k, w, secret, err)
}

// settle notes what came of opening a wrapping: a key that was not held, or the same key
// once more.
func (r *Ring) settle(e *entry, k keyset.Key, w *wrapping, secret []byte, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		err = r.accept(e, k, w, secret)
	}
	if w.opened, w.err = err == nil, err; err != nil {
		w.retry.failed(time.Now(), mostWait)
		r.noteError(err)
	}
	return err
}

// accept holds a secret against what the ring holds, and takes it where there is
// nothing yet.
func (r *Ring) accept(e *entry, k keyset.Key, w *wrapping, secret []byte) error {
	differs := &keyset.KeyError{
		Kind: keyset.Corrupt, Key: w.Service, Operation: "comparing what was unwrapped", Err: errors.New("it is not the key that the ring holds"),
		Remedy: "it was not used; wrap the key anew",
	}
	switch {
	case e.isAuth():
		auth, err := keyset.NewAuthKey(k.ID, secret)
		if err != nil || !auth.Equal(r.auth) {
			return differs
		}
		return nil
	case e.held != nil:
		if sum := sha256.Sum256(secret); subtle.ConstantTimeCompare(sum[:], e.held.sum[:]) != 1 {
			return differs
		}
		return nil
	case e.gone || e.out.kind != "" || !slices.Contains(e.wraps, w):
		return nil // the keyset has changed meanwhile
	}
	key, err := local.NewKey(secret)
	if err != nil {
		return err
	}
	ring, err := local.NewRing(key)
	if err != nil {
		return err
	}
	id := parseKID(key.KID())
	e.held = &heldKey{kid: id, ring: ring, sum: sha256.Sum256(secret), use: r.useOf(id)}
	r.rebuild()
	return nil
}
