package etcd_test

import (
	"context"
	"testing"

	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/etcdstore"
	"github.com/echoseal/echoseal/keyset/keysettest"
)

// A writer that dies is one whose connection breaks: it writes nothing but to that. Its
// steps are the chunks of bytes that it sends.
func TestStoreKit(t *testing.T) {
	s := newServer(t)
	way := newLink(t, s.address())
	var stores []keyset.Store
	keysettest.Store(t, keysettest.StoreHarness{
		New: func(t testing.TB, place string) keyset.Store {
			t.Helper()
			store, err := etcdstore.Open(context.Background(), uri("etcd", "kit/"+place, way.address()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			stores = append(stores, store)
			return store
		},
		Silence: func(t testing.TB) {
			way.setSilent(true)
			t.Cleanup(func() {
				way.setSilent(false)
				for _, store := range stores { // until each has noticed, or is closed
					_, _, _ = store.Load(context.Background())
				}
			})
		},
		Kill: func(t testing.TB, place string, doc []byte, version string, step int) bool {
			ctx, die := context.WithCancel(within(t))
			defer die()
			last := newBrittleLink(t, s.address(), step, die)
			store, err := etcdstore.Open(ctx, uri("etcd", "kit/"+place, last.address()))
			if err != nil {
				t.Fatal(err)
			}
			_, err = store.Save(ctx, doc, version)
			dead := last.isCut()
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
