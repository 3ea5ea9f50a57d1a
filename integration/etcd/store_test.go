package etcd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/echoseal/echoseal/integration/internal/loopback"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/etcdstore"
)

func open(t *testing.T, uri string) *etcdstore.Store {
	t.Helper()
	store, err := etcdstore.Open(within(t), uri)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(store.Close(), store.Close()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return store
}

func save(t *testing.T, store keyset.Store, doc, version string) (newVersion string) {
	t.Helper()
	newVersion, err := store.Save(within(t), []byte(doc), version)
	if err != nil {
		t.Fatal(err)
	}
	return newVersion
}

func load(t *testing.T, store keyset.Source) (doc, version string) {
	t.Helper()
	content, version, err := store.Load(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return string(content), version
}

// Many writers, each of whom counts one further: every count that was acknowledged is
// there in the end.
func TestNoWriteIsLost(t *testing.T) {
	s := newServer(t)
	const writers, each = 4, 25
	first := open(t, uri("etcd", "count", s.address()))
	save(t, first, "0", "")
	var wait sync.WaitGroup
	for range writers {
		store := open(t, uri("etcd", "count", s.address()))
		wait.Go(func() {
			ctx := within(t)
			for done := 0; done < each; {
				doc, version, err := store.Load(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				var n int
				if _, err := fmt.Sscan(string(doc), &n); err != nil {
					t.Error(err)
					return
				}
				switch _, err := store.Save(ctx, fmt.Append(nil, n+1), version); {
				case err == nil:
					done++
				case !errors.Is(err, keyset.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	if doc, _ := load(t, first); doc != fmt.Sprint(writers*each) {
		t.Errorf("%d writes, and the count is %s", writers*each, doc)
	}
}

func TestVersions(t *testing.T) {
	s := newServer(t)
	store := open(t, uri("etcd", "a/b", s.address()))
	if _, _, err := store.Load(within(t)); !errors.Is(err, keyset.ErrNotExist) || !strings.Contains(err.Error(), store.String()) {
		t.Errorf("an empty store: %v", err)
	}
	conflict := func(version string) {
		t.Helper()
		if _, err := store.Save(within(t), []byte("x"), version); !errors.Is(err, keyset.ErrConflict) {
			t.Errorf("version %q: %v", version, err)
		}
	}
	conflict("1")
	one := save(t, store, "one", "")
	conflict("")
	two := save(t, store, "two", one)
	conflict(one)
	for _, version := range []string{"0", "-1", "0" + two, "+" + two, " " + two, two + "0", "x", "18446744073709551617"} {
		conflict(version)
	}
	if doc, version := load(t, store); doc != "two" || version != two {
		t.Errorf("%s at version %s, saved as %s", doc, version, two)
	}
	// A key that is deleted and made anew has another version, never one that was.
	if _, err := s.client(t).Delete(within(t), "a/b"); err != nil {
		t.Fatal(err)
	}
	conflict(two)
	three := save(t, store, "", "")
	if doc, version := load(t, store); doc != "" || version != three || three == two || three == one {
		t.Errorf("%q at version %s", doc, version)
	}
}

// Of two writers with a lease in the way, one takes it off.
func TestNeverOnALease(t *testing.T) {
	s := newServer(t)
	client := s.client(t)
	store, err := etcdstore.New(client, "leased")
	if err != nil {
		t.Fatal(err)
	}
	lease, err := client.Grant(within(t), 3600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(within(t), "leased", "old", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	_, version := load(t, store)
	save(t, store, "new", version)
	if _, err := client.Revoke(within(t), lease.ID); err != nil {
		t.Fatal(err)
	}
	if doc, _ := load(t, store); doc != "new" {
		t.Errorf("the store holds %q", doc)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	load(t, store) // the client is still open
}

func TestTooLarge(t *testing.T) {
	refused := func(store *etcdstore.Store, size int, says string) {
		t.Helper()
		before, version := load(t, store)
		_, err := store.Save(within(t), make([]byte, size), version)
		if err == nil || errors.Is(err, keyset.ErrConflict) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "may have succeeded") {
			t.Errorf("%d bytes: %v", size, err)
		}
		if doc, now := load(t, store); doc != before || now != version {
			t.Errorf("%d bytes, version %s", len(doc), now)
		}
	}
	s := newServer(t)
	store := open(t, uri("etcd", "large", s.address()))
	save(t, store, string(bytes.Repeat([]byte{'x'}, keyset.MaxBytes)), "")
	// The last one is more than the vendor's client sends.
	for _, size := range []int{keyset.MaxBytes + 1, 1700 << 10, 3 << 20} {
		refused(store, size, "it is no keyset")
	}
	s = newServer(t, func(c *embed.Config) { c.MaxRequestBytes = 100 << 10 })
	store = open(t, uri("etcd", "large", s.address()))
	save(t, store, "small", "")
	refused(store, 200<<10, "raise --max-request-bytes")
}

// However the servers cannot be reached, a call ends with its context, and says why.
func TestUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	s := newServer(t)
	for name, test := range map[string]struct{ uri, says string }{
		"silent":      {uri("etcd", "key", silent.Addr().String()), "no answer in time"},
		"refused":     {uri("etcd", "key", loopback.Free(t)), "connection refused"},
		"TLS to none": {uri("etcds", "key", s.address()), "TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			store := open(t, test.uri)
			for operation, call := range map[string]func(context.Context) error{
				"load": func(ctx context.Context) error { _, _, err := store.Load(ctx); return err },
				"save": func(ctx context.Context) error { _, err := store.Save(ctx, []byte("x"), ""); return err },
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				err := call(ctx)
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), test.uri+": "+operation) {
					t.Errorf("%s: %v", operation, err)
				}
				canceled, cancel := context.WithCancel(t.Context())
				cancel()
				if err := call(canceled); !errors.Is(err, context.Canceled) {
					t.Errorf("%s, canceled: %v", operation, err)
				}
			}
		})
	}
	t.Run("one of two", func(t *testing.T) {
		store := open(t, uri("etcd", "half", silent.Addr().String(), s.address()))
		save(t, store, "there", "")
		if doc, _ := load(t, store); doc != "there" {
			t.Errorf("loaded %q", doc)
		}
	})
}

func TestTLS(t *testing.T) {
	files := newAuthority(t)
	s := newServer(t, func(c *embed.Config) {
		c.ListenClientUrls[0].Scheme = "https"
		c.ClientTLSInfo = transport.TLSInfo{CertFile: files.serverCert, KeyFile: files.serverKey, TrustedCAFile: files.ca, ClientCertAuth: true}
	})
	for _, scheme := range []string{"etcd", "etcds"} { // as with etcdctl, the files ask for TLS
		t.Run(scheme, func(t *testing.T) {
			t.Setenv("ETCDCTL_CACERT", files.ca)
			t.Setenv("ETCDCTL_CERT", files.clientCert)
			t.Setenv("ETCDCTL_KEY", files.clientKey)
			store := open(t, uri(scheme, "tls/"+scheme, s.address()))
			version := save(t, store, "sealed", "")
			if doc, now := load(t, store); doc != "sealed" || now != version || store.String() != uri("etcds", "tls/"+scheme, s.address()) {
				t.Errorf("%s: %q", store, doc)
			}
		})
	}
	refused := func(t *testing.T, says string) {
		t.Helper()
		store := open(t, uri("etcds", "tls", s.address()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := store.Load(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), says) {
			t.Errorf("the error does not say %q: %v", says, err)
		}
	}
	t.Run("a CA that is not trusted", func(t *testing.T) {
		t.Setenv("ETCDCTL_CACERT", newAuthority(t).ca)
		t.Setenv("ETCDCTL_CERT", files.clientCert)
		t.Setenv("ETCDCTL_KEY", files.clientKey)
		refused(t, "certificate signed by unknown authority")
	})
	t.Run("no certificate of the client", func(t *testing.T) {
		t.Setenv("ETCDCTL_CACERT", files.ca)
		// In TLS 1.3 the server refuses after the handshake, so that the client may find the
		// connection closed before it reads why: the hint has to do.
		refused(t, "whether the servers expect TLS and a certificate of the client")
	})
	t.Run("a certificate that is renewed", func(t *testing.T) {
		other := newAuthority(t)
		t.Setenv("ETCDCTL_CACERT", files.ca)
		t.Setenv("ETCDCTL_CERT", other.clientCert)
		t.Setenv("ETCDCTL_KEY", other.clientKey)
		store := open(t, uri("etcds", "tls/etcd", s.address()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := store.Load(ctx); err == nil {
			t.Fatal("a certificate of another CA is accepted")
		}
		for from, to := range map[string]string{files.clientCert: other.clientCert, files.clientKey: other.clientKey} {
			text, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if doc, _ := load(t, store); doc != "sealed" {
			t.Errorf("loaded %q", doc)
		}
	})
}
