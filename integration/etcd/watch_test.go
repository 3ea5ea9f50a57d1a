package etcd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
	"go.uber.org/goleak"

	"github.com/echoseal/echoseal/integration/internal/loopback"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/etcdstore"
)

// A watch runs in the background of a test until it is ended.
type watch struct {
	*bell

	cancel context.CancelFunc
	ended  chan error
}

// watching begins to watch and returns when every further change is seen.
func watching(t *testing.T, store keyset.Watcher) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watch{bell: newBell(), cancel: cancel, ended: make(chan error, 1)}
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		w.ended <- store.Watch(ctx, func() {
			select {
			case <-returned:
				t.Error("changed was called after Watch had returned")
			default:
				w.ring()
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-returned
	})
	w.await(t, "the first hint", func() bool { return w.count() > 0 })
	return w
}

// end cancels the watch and returns its error.
func (w *watch) end(t *testing.T) error {
	t.Helper()
	w.cancel()
	return w.result(t)
}

func (w *watch) result(t *testing.T) error {
	t.Helper()
	select {
	case err := <-w.ended:
		return err
	case <-within(t).Done():
		t.Fatal("the watch does not end")
		return nil
	}
}

// seen returns whether the store holds a document now.
func seen(t *testing.T, store keyset.Source, doc string) func() bool {
	return func() bool {
		content, _, err := store.Load(within(t))
		return err == nil && string(content) == doc
	}
}

func TestWatch(t *testing.T) {
	s := newServer(t)
	store := open(t, uri("etcd", "watched", s.address()))
	w := watching(t, store)
	client := s.client(t)

	version := save(t, store, "one", "")
	w.await(t, "one", seen(t, store, "one"))
	save(t, store, "two", version)
	w.await(t, "two", seen(t, store, "two"))
	if _, err := client.Delete(within(t), "watched"); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the deletion", func() bool {
		_, _, err := store.Load(within(t))
		return errors.Is(err, keyset.ErrNotExist)
	})

	// Its neighbours are nobody's business: instances report every few seconds. Another
	// watch has no hint of what was before it still to come.
	version = save(t, store, "three", "")
	w = watching(t, store)
	before := w.count()
	for _, key := range []string{"watched/instances/x", "watched0", "watche"} {
		if _, err := client.Put(within(t), key, "x"); err != nil {
			t.Fatal(err)
		}
	}
	save(t, store, "four", version) // etcd tells of changes in order
	w.await(t, "four", func() bool { return w.count() > before })
	if err := w.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
	if n := w.count() - before; n != 1 {
		t.Errorf("%d hints of one change", n)
	}
}

// What a watch has missed when it was cut off may be known no longer: the next revision
// arrives nevertheless.
func TestWatchAfterCompaction(t *testing.T) {
	s := newServer(t)
	way := loopback.NewLink(t, s.address())
	store := open(t, uri("etcd", "compacted", way.Address()))
	version := save(t, store, "0", "")
	w := watching(t, store)

	direct := open(t, uri("etcd", "compacted", s.address()))
	client := s.client(t)
	for round := range 3 {
		way.SetCut(true)
		for i := range 5 {
			version = save(t, direct, fmt.Sprint(round, i), version)
		}
		current, err := client.Get(within(t), "compacted")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Compact(within(t), current.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
			t.Fatal(err)
		}
		before := w.count()
		way.SetCut(false)
		w.await(t, "a hint of what was compacted", func() bool { return w.count() > before })
		if doc, now := load(t, store); now != version {
			t.Errorf("round %d: the store holds %q", round, doc)
		}
		before = w.count()
		version = save(t, direct, fmt.Sprint("after round ", round), version)
		w.await(t, "the next revision", func() bool { return w.count() > before })
	}
	if err := w.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
}

func TestWatchAfterRestart(t *testing.T) {
	s := newServer(t)
	store := open(t, uri("etcd", "restarted", s.address()))
	version := save(t, store, "old", "")
	w := watching(t, store)
	s.stop()
	s.start(t)
	before := w.count()
	save(t, store, "new", version)
	w.await(t, "the next revision", func() bool { return w.count() > before })
	if doc, _ := load(t, store); doc != "new" {
		t.Errorf("the store holds %q", doc)
	}
	if err := w.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
}

// A watch ends with its context and leaves nothing behind, also while no server is there.
func TestWatchLeavesNothingBehind(t *testing.T) {
	s := newServer(t)
	way := loopback.NewLink(t, s.address())
	store := open(t, uri("etcd", "left", way.Address()))
	save(t, store, "x", "")
	load(t, store)
	for name, prepare := range map[string]func() *watch{
		"with a server": func() *watch { return watching(t, store) },
		"cut off later": func() *watch {
			w := watching(t, store)
			way.SetCut(true)
			return w
		},
		"cut off before": func() *watch {
			way.SetCut(true)
			w := &watch{bell: newBell(), ended: make(chan error, 1)}
			var ctx context.Context
			ctx, w.cancel = context.WithCancel(t.Context())
			go func() { w.ended <- store.Watch(ctx, w.ring) }()
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer way.SetCut(false)
			if err := prepare().end(t); !errors.Is(err, context.Canceled) {
				t.Errorf("the watch ended with %v", err)
			}
			// While the connection is still open: nothing waits for it to be used again.
			eventually(t, "the end of the vendor's goroutines", func() bool {
				stacks := make([]byte, 1<<20)
				return !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("etcd/client/v3.(*watch"))
			})
		})
	}
}

// With its store everything ends.
func TestCloseLeavesNothingBehind(t *testing.T) {
	s := newServer(t)
	save(t, open(t, uri("etcd", "end", s.address())), "x", "") // the server is all there
	before := goleak.IgnoreCurrent()
	store, err := etcdstore.Open(within(t), uri("etcd", "end", s.address()))
	if err != nil {
		t.Fatal(err)
	}
	_, version := load(t, store)
	w := watching(t, store)
	save(t, store, "y", version)
	if err := w.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
}

// A client that is closed cannot watch. The caller is told, and nobody hangs.
func TestWatchOfAClosedClient(t *testing.T) {
	s := newServer(t)
	store := open(t, uri("etcd", "closed", s.address()))
	w := watching(t, store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	err := w.result(t)
	if err == nil || !strings.Contains(err.Error(), store.String()+": watch: ") {
		t.Errorf("the watch ended with %v", err)
	}
	if err := store.Watch(within(t), func() { t.Error("a hint without a client") }); err == nil {
		t.Error("a closed client watches")
	}
}

// A member that has lost the others sees no change: it must not keep the watch.
func TestWithoutALeader(t *testing.T) {
	first := prepare(t, "first")
	second := prepare(t, "second")
	cluster := fmt.Sprintf("%s,%s", first.config.InitialCluster, second.config.InitialCluster)
	first.config.InitialCluster, second.config.InitialCluster = cluster, cluster
	first.launch(t)
	second.launch(t)
	first.ready(t)
	second.ready(t)

	store := open(t, uri("etcd", "led", first.address()))
	version := save(t, store, "one", "")
	w := watching(t, store)
	second.stop()
	if err := w.result(t); !errors.Is(err, rpctypes.ErrNoLeader) || !strings.Contains(err.Error(), "majority") {
		t.Errorf("the watch ended with %v", err)
	}
	// Nor does it answer anything from what it knows, which may be old.
	registry := openRegistry(t, first, "led")
	for operation, call := range calls(t, store, registry) {
		if operation == "watch" {
			continue // it has just begun
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		err := call(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "a majority of them runs") {
			t.Errorf("%s: %v", operation, err)
		}
	}
	second.start(t)
	w = watching(t, store)
	save(t, store, "two", version)
	w.await(t, "two", seen(t, store, "two"))
}

// What a client was told about its keys holds for the watch, too.
func TestWatchInANamespace(t *testing.T) {
	s := newServer(t)
	client := s.client(t)
	client.KV = namespace.NewKV(client.KV, "team/")
	client.Watcher = namespace.NewWatcher(client.Watcher, "team/")
	client.Lease = namespace.NewLease(client.Lease, "team/")
	store, err := etcdstore.New(client, "fleet")
	if err != nil {
		t.Fatal(err)
	}
	w := watching(t, store)
	before := w.count()
	save(t, store, "one", "")
	w.await(t, "one", func() bool { return w.count() > before })
	if doc, _ := load(t, open(t, uri("etcd", "team/fleet", s.address()))); doc != "one" {
		t.Errorf("in the namespace is %q", doc)
	}
	if err := w.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
	select { // it is still good for others
	case <-client.Ctx().Done():
		t.Error("the client was closed")
	default:
		watching(t, store)
	}
}
