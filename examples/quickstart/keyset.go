package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/keyring"
	"github.com/echoseal/echoseal/keyset"
)

const keysetName = "refunds"

// keys are a keyset in a file, wrapped by a key file, and the rings that follow it. It is
// the operator and the servers in one.
type keys struct {
	folder   string
	store    *keyset.File
	services keyset.Services
	rings    []*keyring.Ring
}

// newKeys makes a key file and a keyset in a folder of their own: what an operator does
// once.
func newKeys(ctx context.Context) (_ *keys, err error) {
	k := &keys{}
	defer func() {
		if err != nil {
			k.close()
		}
	}()
	if k.folder, err = os.MkdirTemp("", "quickstart"); err != nil {
		return nil, err
	}
	kek := filepath.Join(k.folder, "kek")
	if _, err = localkek.NewKeyFile(kek); err != nil {
		return nil, err
	}
	// With a key management service only these two names are different.
	if k.services, err = (keyset.Openers{localkek.Opener()}).Open(ctx, "localkek://"+kek); err != nil {
		return nil, err
	}
	if k.store, err = keyset.NewFile(filepath.Join(k.folder, "keyset.json")); err != nil {
		return nil, err
	}
	doc, auth, err := keyset.Init(ctx, k.services, keyset.InitOptions{Name: keysetName, TTL: ttl, Note: note()})
	if err != nil {
		return nil, err
	}
	return k, k.save(ctx, auth, doc, "")
}

func note() keyset.Note { return keyset.Note{At: time.Now(), Actor: "quickstart"} }

func (k *keys) save(ctx context.Context, auth *keyset.AuthKey, doc *keyset.Document, version string) error {
	text, err := auth.Encode(doc)
	if err != nil {
		return err
	}
	_, err = k.store.Save(ctx, text, version)
	return err
}

// open is all that a server does.
func (k *keys) open(ctx context.Context) (codec.Codec, error) {
	ring, err := keyring.Open(ctx, keyring.Config{
		Name:     keysetName,
		Source:   k.store,
		Services: k.services,
		Every:    100 * time.Millisecond, // 15 seconds by default
		Logger:   slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	k.rings = append(k.rings, ring)
	return ring, nil
}

func (k *keys) close() {
	for _, ring := range k.rings {
		_ = ring.Close() // there is no registry that it could fail to tell
	}
	_ = k.services.Close()
	if k.folder != "" {
		_ = os.RemoveAll(k.folder)
	}
}

// change saves the next revision, after a move.
func (k *keys) change(ctx context.Context, move func(*keyset.Document) error) error {
	doc, auth, version, err := keyset.Load(ctx, k.store, k.services, keysetName)
	if err != nil {
		return err
	}
	next := doc.Next()
	if err := move(next); err != nil {
		return err
	}
	return k.save(ctx, auth, next, version)
}

// follow waits until every ring is as told, and returns how long that took.
func (k *keys) follow(ctx context.Context, is func(keyring.Status) bool) (time.Duration, error) {
	begin := time.Now()
	for slices.ContainsFunc(k.rings, func(r *keyring.Ring) bool { return !is(r.Status()) }) {
		select {
		case <-ctx.Done():
			return 0, errors.New("a server did not follow the keyset")
		case <-time.After(10 * time.Millisecond):
		}
	}
	return time.Since(begin).Round(time.Millisecond), nil
}

// rotate replaces the key of the running servers, and finishes a round that began before.
func (k *keys) rotate(ctx context.Context, out io.Writer, alice, there *mcp.ClientSession) error {
	ring := k.rings[0]
	old := ring.Status().Sealing
	var fresh string
	err := k.change(ctx, func(doc *keyset.Document) error {
		key, err := doc.GenerateKey(ctx, k.services, time.Now())
		if err != nil {
			return err
		}
		fresh = key.KID
		return doc.Stage(note(), key)
	})
	if err != nil {
		return err
	}
	took, err := k.follow(ctx, func(s keyring.Status) bool {
		return slices.ContainsFunc(s.Keys, func(key keyring.KeyStatus) bool { return key.KID == fresh && key.Held })
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  staged       key %s: both servers accept it after %v\n", fresh, took)

	token, err := begin(ctx, alice, refund)
	if err != nil {
		return err
	}
	if err := k.change(ctx, func(doc *keyset.Document) error { return doc.Promote(note(), fresh) }); err != nil {
		return err
	}
	if took, err = k.follow(ctx, func(s keyring.Status) bool { return s.Sealing == fresh }); err != nil {
		return err
	}
	fmt.Fprintf(out, "  promoted     key %s: both servers seal with it after %v\n", fresh, took)
	answer, err := finish(ctx, there, refund, token)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  a round that began with key %s\n  the tool     %s\n", ring.KID(token), answer)
	if token, err = begin(ctx, alice, refund); err != nil {
		return err
	}
	if answer, err = finish(ctx, there, refund, token); err != nil {
		return err
	}
	fmt.Fprintf(out, "  a round that began with key %s\n  the tool     %s\n", ring.KID(token), answer)
	if ring.KID(token) != fresh || old == fresh {
		return fmt.Errorf("a token is sealed with key %s, not %s", ring.KID(token), fresh)
	}
	return nil
}
