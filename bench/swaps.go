package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/echoseal/echoseal/keyring"
	"github.com/echoseal/echoseal/keyset"
)

// swaps compares the p99 of unsealing while the ring follows a new revision every 10 ms,
// each of which swaps the primary, with that while none comes.
func swaps(ctx context.Context) ([]float64, error) {
	const every, span = 10 * time.Millisecond, 400 * time.Millisecond
	f, err := newFollowed(ctx, int(span/every)*(runs+1))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.ring.Close() }()
	payload, err := claims(works()[1].state)
	if err != nil {
		return nil, err
	}
	token, err := f.ring.Seal(payload)
	if err != nil {
		return nil, err
	}
	dst := make([]byte, 0, len(token))
	p99 := func() (float64, error) {
		took := make([]time.Duration, 0, 1<<20)
		for end := time.Now().Add(span); ; {
			began := time.Now()
			if _, err := f.ring.AppendUnseal(dst, token); err != nil {
				return 0, err
			}
			now := time.Now()
			if took = append(took, now.Sub(began)); now.After(end) {
				slices.Sort(took)
				return float64(took[len(took)*99/100]), nil
			}
		}
	}
	return alternate(p99, func() (float64, error) {
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- f.swapEvery(ctx, every) }()
		result, err := p99()
		cancel()
		if swapped := <-done; err == nil {
			err = swapped
		}
		return result, err
	})
}

// afterMany compares unsealing in a ring that has followed 200 revisions with unsealing in one
// that is at its first.
func afterMany(ctx context.Context) ([]float64, error) {
	payload, err := claims(works()[1].state)
	if err != nil {
		return nil, err
	}
	var unseal [2]runner
	for side, revisions := range []int{1, 200} {
		f, err := newFollowed(ctx, revisions)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.ring.Close() }()
		for range revisions - 1 {
			f.at.Add(1)
			if err := f.ring.Refresh(ctx); err != nil {
				return nil, err
			}
		}
		token, err := f.ring.Seal(payload)
		if err != nil {
			return nil, err
		}
		unseal[side] = unsealing(f.ring, token)
	}
	return paired(unseal[0], unseal[1])
}

// A followed is a ring with revisions to come.
type followed struct {
	ring      *keyring.Ring
	revisions [][]byte
	at        atomic.Int64
}

func newFollowed(ctx context.Context, revisions int) (*followed, error) {
	kek, err := newMemoryKEK()
	if err != nil {
		return nil, err
	}
	services := keyset.Services{kek}
	note := keyset.Note{At: time.Now(), Actor: "bench"}
	doc, auth, err := keyset.Init(ctx, services, keyset.InitOptions{Name: "bench", Note: note})
	if err != nil {
		return nil, err
	}
	first := doc.Primary().KID
	key, err := doc.GenerateKey(ctx, services, note.At)
	if err != nil {
		return nil, err
	}
	doc = doc.Next()
	if err := doc.Stage(note, key); err != nil {
		return nil, err
	}
	f := &followed{}
	for i := range revisions {
		if i > 0 {
			doc = doc.Next()
			if i == 1 {
				err = doc.Promote(note, key.KID)
			} else {
				err = doc.Rollback(note, [2]string{first, key.KID}[i%2])
			}
			if err != nil {
				return nil, err
			}
		}
		text, err := auth.Encode(doc)
		if err != nil {
			return nil, err
		}
		f.revisions = append(f.revisions, text)
	}
	f.ring, err = keyring.Open(ctx, keyring.Config{
		Name:     "bench",
		Source:   keyset.SourceFunc(func(context.Context) ([]byte, error) { return f.revisions[f.at.Load()], nil }),
		Services: services,
		Every:    time.Hour, // it is told
		Logger:   slog.New(slog.DiscardHandler),
	})
	return f, err
}

// swapEvery has the ring follow the next revision again and again.
func (f *followed) swapEvery(ctx context.Context, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if f.at.Load()+1 < int64(len(f.revisions)) {
				f.at.Add(1)
			}
			if err := f.ring.Refresh(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// A memoryKEK is a key service whose key is in memory.
type memoryKEK struct{ aead cipher.AEAD }

const memoryService = "bench://memory"

func newMemoryKEK() (memoryKEK, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return memoryKEK{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return memoryKEK{aead}, err
}

func (m memoryKEK) Opens(service string) bool { return service == memoryService }

func (m memoryKEK) Wrap(_ context.Context, dataKey []byte, ec map[string]string) (keyset.WrappedKey, error) {
	aad, err := json.Marshal(ec) // members are sorted
	return keyset.WrappedKey{Service: memoryService, Ciphertext: m.aead.Seal(nil, nil, dataKey, aad)}, err
}

func (m memoryKEK) Unwrap(_ context.Context, w keyset.WrappedKey, ec map[string]string) ([]byte, error) {
	aad, err := json.Marshal(ec)
	if err != nil {
		return nil, err
	}
	return m.aead.Open(nil, nil, w.Ciphertext, aad)
}
