package etcd_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/echoseal/echoseal/integration/internal/loopback"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/etcdstore"
)

const (
	billing  = "echoseal/billing" // the key of the package's documentation
	password = "correct horse"
	id       = "0123456789abcdef0123456789abcdef"
)

// protect turns authentication on: the roles of the package's documentation for the
// users billing (a server) and olga (an operator), who has one password with everybody.
func protect(t *testing.T, s *server) {
	t.Helper()
	ctx, client := within(t), s.client(t)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	read, both := clientv3.PermissionType(clientv3.PermRead), clientv3.PermissionType(clientv3.PermReadWrite)
	instances := billing + "/instances/"
	must(client.RoleAdd(ctx, "billing-server"))
	must(client.RoleGrantPermission(ctx, "billing-server", billing, "", read))
	must(client.RoleGrantPermission(ctx, "billing-server", instances, clientv3.GetPrefixRangeEnd(instances), both))
	must(client.RoleAdd(ctx, "billing-operator"))
	must(client.RoleGrantPermission(ctx, "billing-operator", billing, "", both))
	must(client.RoleGrantPermission(ctx, "billing-operator", instances, clientv3.GetPrefixRangeEnd(instances), both))
	for user, role := range map[string]string{"root": "root", "billing": "billing-server", "olga": "billing-operator", "nobody": ""} {
		must(client.UserAdd(ctx, user, password))
		if role != "" {
			must(client.UserGrantRole(ctx, user, role))
		}
	}
	must(client.AuthEnable(ctx))
}

func cheapPasswords(c *embed.Config) { c.BcryptCost = 4 }

// as opens the store and the registry as a user.
func as(t *testing.T, user, address string) (*etcdstore.Store, *etcdstore.Registry) {
	t.Helper()
	t.Setenv("ETCDCTL_USER", user)
	t.Setenv("ETCDCTL_PASSWORD", password)
	store := open(t, uri("etcd", billing, address))
	registry, err := etcdstore.OpenRegistry(within(t), store.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = registry.Close() })
	return store, registry
}

// The roles are enough for what they are for, and for nothing else.
func TestRoles(t *testing.T) {
	s := newServer(t, cheapPasswords)
	protect(t, s)
	operatorStore, operatorRegistry := as(t, "olga", s.address())
	version := save(t, operatorStore, "one", "")

	store, registry := as(t, "billing", s.address())
	w := watching(t, store)
	load(t, store)
	for range 3 {
		if err := registry.Publish(within(t), id, []byte("report"), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	denied := func(what string, err error, remedy string) {
		t.Helper()
		if !errors.Is(err, rpctypes.ErrPermissionDenied) || !strings.Contains(err.Error(), remedy) || strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := store.Save(within(t), []byte("two"), version)
	denied("a server saves", err, "grant the user's role readwrite on the key")
	if !errors.Is(err, keyset.Denied) {
		t.Errorf("whoever saves is not told that the server has refused it for good: %v", err)
	}

	version = save(t, operatorStore, "two", version)
	w.await(t, "two", seen(t, store, "two"))
	if answers, err := operatorRegistry.Collect(within(t)); err != nil || len(answers) != 1 || string(answers[0].Signed) != "report" {
		t.Errorf("the operator collects %v, %v", answers, err)
	}
	if err := operatorRegistry.Forget(within(t), id); err != nil {
		t.Error(err)
	}
	save(t, operatorStore, "three", version)

	store, registry = as(t, "nobody", s.address())
	_, _, err = store.Load(within(t))
	denied("nobody loads", err, "read on the key")
	denied("nobody watches", store.Watch(within(t), func() { t.Error("nobody gets a hint") }), "read on the key")
	_, err = registry.Collect(within(t))
	denied("nobody collects", err, "read on the prefix")
	denied("nobody publishes", registry.Publish(within(t), id, []byte("report"), time.Hour), "readwrite on the prefix")
	denied("nobody forgets", registry.Forget(within(t), id), "readwrite on the prefix")
	leases, err := s.client(t, password).Leases(within(t))
	if err != nil || len(leases.Leases) > 1 { // that of the report, which was forgotten
		t.Errorf("%d leases are left, %v", len(leases.Leases), err)
	}
}

func TestLogin(t *testing.T) {
	s := newServer(t, cheapPasswords)
	t.Run("not asked for", func(t *testing.T) {
		store, _ := as(t, "billing", s.address())
		save(t, store, "open to all", "")
	})
	protect(t, s)
	t.Run("missing", func(t *testing.T) {
		store := open(t, uri("etcd", billing, s.address()))
		if _, _, err := store.Load(within(t)); !errors.Is(err, rpctypes.ErrUserEmpty) || !strings.Contains(err.Error(), "ETCDCTL_USER") {
			t.Errorf("%v", err)
		}
	})
	t.Run("wrong", func(t *testing.T) {
		t.Setenv("ETCDCTL_USER", "billing:not the password")
		_, err := etcdstore.Open(within(t), uri("etcd", billing, s.address()))
		if !errors.Is(err, rpctypes.ErrAuthFailed) || errors.Is(err, keyset.ErrConfig) || strings.Contains(err.Error(), "not the password") {
			t.Errorf("%v", err)
		}
	})
	t.Run("no server", func(t *testing.T) {
		t.Setenv("ETCDCTL_USER", "billing")
		t.Setenv("ETCDCTL_PASSWORD", password)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := etcdstore.Open(ctx, uri("etcd", billing, loopback.Free(t)))
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%v", err)
		}
	})
	t.Run("opening is over", func(t *testing.T) {
		t.Setenv("ETCDCTL_USER", "billing")
		t.Setenv("ETCDCTL_PASSWORD", password)
		ctx, cancel := context.WithCancel(t.Context())
		store, err := etcdstore.Open(ctx, uri("etcd", billing, s.address()))
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		load(t, store)
	})
}

// A token that has expired is replaced: in a call, and in a watch that was cut off.
func TestExpiredToken(t *testing.T) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "jwt")
	if err := os.WriteFile(file, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, cheapPasswords, func(c *embed.Config) {
		c.AuthToken = "jwt,sign-method=HS256,ttl=1s,priv-key=" + file
	})
	protect(t, s)
	way := loopback.NewLink(t, s.address())
	operator, _ := as(t, "olga", s.address())
	version := save(t, operator, "one", "")
	store, registry := as(t, "billing", way.Address())
	w := watching(t, store)

	// A token that is younger than all the others tells when they have expired.
	login, err := s.client(t).Authenticate(within(t), "billing", password)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("ETCDCTL_USER", "")
	t.Setenv("ETCDCTL_PASSWORD", "")
	t.Setenv("ETCDCTL_AUTH_JWT_TOKEN", login.Token)
	fixed := open(t, uri("etcd", billing, s.address()))
	load(t, fixed)
	eventually(t, "the token's end", func() bool {
		_, _, err = fixed.Load(within(t))
		return err != nil
	})
	if !errors.Is(err, rpctypes.ErrInvalidAuthToken) || !strings.Contains(err.Error(), "ETCDCTL_AUTH_JWT_TOKEN") || strings.Contains(err.Error(), login.Token) {
		t.Errorf("a token that nobody renews: %v", err)
	}
	if err := fixed.Watch(within(t), func() { t.Error("a hint with an expired token") }); !errors.Is(err, rpctypes.ErrInvalidAuthToken) {
		t.Errorf("watching with it: %v", err)
	}

	load(t, store)
	if err := registry.Publish(within(t), id, []byte("report"), time.Hour); err != nil {
		t.Error(err)
	}
	before := w.count()
	version = save(t, operator, "two", version)
	w.await(t, "a hint in the watch that goes on", func() bool { return w.count() > before })
	way.SetCut(true)
	before = w.count()
	save(t, operator, "three", version)
	way.SetCut(false)
	w.await(t, "a hint in the watch that was resumed", func() bool { return w.count() > before })
	if doc, _ := load(t, store); doc != "three" {
		t.Errorf("loaded %q", doc)
	}
}

// What a server knew of log-ins by itself is lost when it is started anew: the client logs
// in again, in calls and in a watch.
func TestRestartWithPasswords(t *testing.T) {
	s := newServer(t, cheapPasswords)
	protect(t, s)
	operator, _ := as(t, "olga", s.address())
	version := save(t, operator, "one", "")
	store, registry := as(t, "billing", s.address())
	w := watching(t, store)
	s.stop()
	s.start(t)
	before := w.count()
	save(t, operator, "two", version)
	w.await(t, "two", func() bool { return w.count() > before })
	if doc, _ := load(t, store); doc != "two" {
		t.Errorf("loaded %q", doc)
	}
	publish(t, registry, id, "report", time.Hour)
}

// A user who may no longer log in is told so by whatever comes next, and does not wait.
func TestPasswordChanged(t *testing.T) {
	s := newServer(t, cheapPasswords)
	protect(t, s)
	store, registry := as(t, "olga", s.address())
	save(t, store, "one", "")
	if _, err := s.client(t, password).UserChangePassword(within(t), "olga", "another"); err != nil {
		t.Fatal(err)
	}
	for operation, call := range calls(t, store, registry) {
		err := call(within(t))
		if !errors.Is(err, rpctypes.ErrAuthFailed) || !strings.Contains(err.Error(), "ETCDCTL_PASSWORD") || strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "may have succeeded") {
			t.Errorf("%s: %v", operation, err)
		}
	}
}

// A certificate is enough to log in: its common name is the user.
func TestCertificateAsUser(t *testing.T) {
	files := newAuthority(t)
	s := newServer(t, cheapPasswords, func(c *embed.Config) {
		c.ListenClientUrls[0].Scheme = "https"
		c.ClientTLSInfo = transport.TLSInfo{CertFile: files.serverCert, KeyFile: files.serverKey, TrustedCAFile: files.ca, ClientCertAuth: true}
	})
	security, err := transport.TLSInfo{CertFile: files.clientCert, KeyFile: files.clientKey, TrustedCAFile: files.ca}.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + s.address()}, TLS: security, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	ctx := within(t)
	for _, err := range []error{
		second(client.Put(ctx, billing, "sealed")),
		second(client.RoleAdd(ctx, "root")),
		second(client.UserAdd(ctx, "root", password)),
		second(client.UserGrantRole(ctx, "root", "root")),
		second(client.RoleAdd(ctx, "reader")),
		second(client.RoleGrantPermission(ctx, "reader", billing, "", clientv3.PermissionType(clientv3.PermRead))),
		second(client.UserAddWithOptions(ctx, "billing", "", &clientv3.UserAddOptions{NoPassword: true})),
		second(client.UserGrantRole(ctx, "billing", "reader")),
		second(client.AuthEnable(ctx)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("ETCDCTL_CACERT", files.ca)
	t.Setenv("ETCDCTL_CERT", files.clientCert)
	t.Setenv("ETCDCTL_KEY", files.clientKey)
	store := open(t, uri("etcds", billing, s.address()))
	doc, version := load(t, store)
	if doc != "sealed" {
		t.Errorf("loaded %q", doc)
	}
	if _, err := store.Save(within(t), []byte("x"), version); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("the user of the certificate saves: %v", err)
	}
	w := watching(t, store)
	if err := w.end(t); !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
}

func second[T any](_ T, err error) error { return err }
