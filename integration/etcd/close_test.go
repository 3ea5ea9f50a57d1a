package etcd_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/integration/internal/loopback"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/etcdstore"
)

// calls returns all that can be done with a store and a registry.
func calls(t *testing.T, store *etcdstore.Store, registry *etcdstore.Registry) map[string]func(context.Context) error {
	t.Helper()
	return map[string]func(context.Context) error{
		"load":    func(ctx context.Context) error { _, _, err := store.Load(ctx); return err },
		"save":    func(ctx context.Context) error { _, err := store.Save(ctx, []byte("x"), "7"); return err },
		"watch":   func(ctx context.Context) error { return store.Watch(ctx, func() {}) },
		"collect": func(ctx context.Context) error { _, err := registry.Collect(ctx); return err },
		"publish": func(ctx context.Context) error { return registry.Publish(ctx, id, []byte("report"), time.Hour) },
		"forget":  func(ctx context.Context) error { return registry.Forget(ctx, id) },
	}
}

// closed checks the error of a call that ended because of Close.
func closed(t *testing.T, operation string, err error, place string) {
	t.Helper()
	switch {
	case !errors.Is(err, net.ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		t.Errorf("%s: %v", operation, err)
	case !strings.HasPrefix(err.Error(), place+": "+operation) || !strings.Contains(err.Error(), "the client was closed"):
		t.Errorf("%s: the error does not say what is the matter: %v", operation, err)
	case errors.Is(err, keyset.ErrNotExist) || errors.Is(err, keyset.ErrConflict) || errors.Is(err, fleet.ErrMalformed):
		t.Errorf("%s: the error tells of what it cannot know: %v", operation, err)
	}
}

// What is closed is of no use, and says so at once: nothing is tried again. It does not
// matter whose the client is.
func TestUseAfterClose(t *testing.T) {
	s := newServer(t)
	var attempts atomic.Int32
	count := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		attempts.Add(1)
		return invoke(ctx, method, request, reply, conn, options...)
	}
	for name, open := range map[string]func() (*etcdstore.Store, *etcdstore.Registry, error){
		"own client": func() (*etcdstore.Store, *etcdstore.Registry, error) {
			store := open(t, uri("etcd", "closed", s.address()))
			registry := openRegistry(t, s, "closed")
			return store, registry, errors.Join(store.Close(), registry.Close())
		},
		"caller's client": func() (*etcdstore.Store, *etcdstore.Registry, error) {
			client, err := clientv3.New(clientv3.Config{
				Endpoints: []string{s.address()}, Logger: zap.NewNop(),
				DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(count)},
			})
			if err != nil {
				return nil, nil, err
			}
			store, err := etcdstore.New(client, "closed")
			if err != nil {
				return nil, nil, err
			}
			registry, err := etcdstore.NewRegistry(client, "closed")
			_ = client.Close() // which is how it says that it is closed
			return store, registry, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, registry, err := open()
			if err != nil {
				t.Fatal(err)
			}
			for operation, call := range calls(t, store, registry) {
				attempts.Store(0)
				err := call(context.Background())
				closed(t, operation, err, store.String())
				if n := attempts.Load(); n > 1 { // the vendor's client makes a hundred
					t.Errorf("%s: %d attempts", operation, n)
				}
				if strings.Contains(err.Error(), "may have succeeded") {
					t.Errorf("%s: nothing was sent: %v", operation, err)
				}
			}
		})
	}
}

// A call that is under way when its client is closed is not tried again either.
func TestCloseDuringACall(t *testing.T) {
	s := newServer(t)
	var attempts int
	var client *clientv3.Client
	closing := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		attempts++
		_ = client.Close()
		return invoke(ctx, method, request, reply, conn, options...)
	}
	for _, operation := range []string{"load", "save", "collect", "publish", "forget"} {
		client = s.through(t, closing)
		store, err := etcdstore.New(client, "closed")
		if err != nil {
			t.Fatal(err)
		}
		registry, err := etcdstore.NewRegistry(client, "closed")
		if err != nil {
			t.Fatal(err)
		}
		attempts = 0
		closed(t, operation, calls(t, store, registry)[operation](context.Background()), store.String())
		if attempts != 1 { // the vendor's client makes a hundred
			t.Errorf("%s: %d attempts", operation, attempts)
		}
	}
}

// Close ends whatever is under way, also what waits for a server that does not answer,
// and leaves nothing behind.
func TestCloseDuringEverything(t *testing.T) {
	s := newServer(t)
	for name, disturb := range map[string]func(*loopback.Link){
		"with a server":    func(*loopback.Link) {},
		"a server is gone": func(way *loopback.Link) { way.SetCut(true) },
		"a silent one":     func(way *loopback.Link) { way.SetSilent(true) },
	} {
		t.Run(name, func(t *testing.T) {
			way := loopback.NewLink(t, s.address())
			store := open(t, uri("etcd", "busy", way.Address()))
			if _, _, err := store.Load(within(t)); err != nil && !errors.Is(err, keyset.ErrNotExist) {
				t.Fatal(err)
			}
			registry, err := etcdstore.OpenRegistry(within(t), store.String())
			if err != nil {
				t.Fatal(err)
			}
			disturb(way)
			var wait sync.WaitGroup
			var over atomic.Bool // both are closed
			begun := make(chan struct{}, 100)
			for operation, call := range calls(t, store, registry) {
				for range 3 {
					wait.Go(func() {
						for {
							begun <- struct{}{}
							late := over.Load()
							if err := call(context.Background()); late || errors.Is(err, net.ErrClosed) {
								closed(t, operation, err, store.String())
								return
							}
						}
					})
				}
			}
			for range 18 { // every one of them
				<-begun
			}
			go func() {
				for range begun {
				}
			}()
			for range 3 { // whoever comes first closes it
				wait.Go(func() {
					if err := errors.Join(store.Close(), registry.Close()); err != nil {
						t.Errorf("Close: %v", err)
					}
					over.Store(true)
				})
			}
			wait.Wait()
			close(begun)
		})
	}
}
