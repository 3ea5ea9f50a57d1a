package etcd_test

import (
	"context"
	"errors"
	"testing"

	"github.com/echoseal/echoseal/integration/internal/loopback"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/etcdstore"
	"github.com/echoseal/echoseal/keyset/keysettest"
)

// A writer that dies is one whose connection breaks: it writes nothing but to that. Its
// steps are the chunks of bytes that it sends.
func TestStoreKit(t *testing.T) {
	s := newServer(t)
	way := loopback.NewLink(t, s.address())
	stores := make(map[*etcdstore.Store]bool) // those that are open
	keysettest.Store(t, keysettest.StoreHarness{
		New: func(t testing.TB, place string) keyset.Store {
			t.Helper()
			store, err := etcdstore.Open(context.Background(), uri("etcd", "kit/"+place, way.Address()))
			if err != nil {
				t.Fatal(err)
			}
			stores[store] = true
			t.Cleanup(func() {
				delete(stores, store)
				_ = store.Close()
			})
			return store
		},
		Silence: func(t testing.TB) {
			way.SetSilent(true)
			t.Cleanup(func() {
				way.SetSilent(false)
				for store := range stores { // until each has noticed
					if _, _, err := store.Load(context.Background()); err != nil && !errors.Is(err, keyset.ErrNotExist) {
						t.Error(err)
					}
				}
			})
		},
		Kill: func(t testing.TB, place string, doc []byte, version string, step int) bool {
			ctx, die := context.WithCancel(within(t))
			defer die()
			last := loopback.NewBrittleLink(t, s.address(), step, false, die)
			store, err := etcdstore.Open(ctx, uri("etcd", "kit/"+place, last.Address()))
			if err != nil {
				t.Fatal(err)
			}
			_, err = store.Save(ctx, doc, version)
			dead := last.IsCut()
			if !dead && err != nil {
				t.Fatal(err)
			}
			_ = store.Close()
			return dead
		},
		Restart: func(t testing.TB) {
			s.stop()
			s.start(t)
		},
	})
}
