package etcdstore

import (
	"context"
	"errors"
	"reflect"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var errEnded = errors.New("the watch has ended")

// Watch implements [keyset.Watcher]. It calls changed once when it begins to see every
// change, and once for each change or several.
func (s *Store) Watch(ctx context.Context, changed func()) error {
	inner, end := s.begin(ctx)
	defer end()
	watcher, leave := s.watcher()
	defer leave()
	for {
		err := s.follow(inner, watcher, changed)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case inner.Err() != nil:
			return s.fail(inner, "watch", "", inner.Err())
		case errors.Is(err, rpctypes.ErrCompacted):
			// The changes since it was last connected are no longer known. From now on,
			// then; that something may have changed is told when it begins.
		default:
			return s.fail(inner, "watch", "read on the key", err)
		}
	}
}

// watcher returns what to watch with, and what ends it. A watcher that is shared is not
// ended with a context while no server can be reached: only Close ends all its
// goroutines. So one is made, unless the client has one that is not the vendor's plain
// one: that of the vendor's package namespace watches keys that have a prefix.
func (s *Store) watcher() (watcher clientv3.Watcher, leave func()) {
	own := clientv3.NewWatcher(s.client)
	if reflect.TypeOf(s.client.Watcher) != reflect.TypeOf(own) {
		return s.client.Watcher, func() {}
	}
	return own, func() { _ = own.Close() }
}

// follow watches from now on until that ends, and returns why.
func (s *Store) follow(ctx context.Context, watcher clientv3.Watcher, changed func()) error {
	// A member without a leader sees no change: it gives up the watch.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for answer := range watcher.Watch(ctx, s.key, clientv3.WithCreatedNotify()) {
		if err := answer.Err(); err != nil {
			return refusal(err)
		}
		changed()
	}
	return errEnded
}

// refusal returns the error that the server means. It tells a watch that it refuses why
// as the text of an error in a text, which the vendor's client does not take apart.
func refusal(err error) error {
	if _, text, ok := strings.Cut(err.Error(), " desc = "); ok {
		if known := (rpctypes.EtcdError{}); errors.As(rpctypes.Error(errors.New(text)), &known) {
			return known
		}
	}
	return err
}
