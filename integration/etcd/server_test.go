package etcd_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/echoseal/echoseal/integration/internal/loopback"
)

// Members of a cluster keep connections to each other a while after they are stopped.
// They speak HTTP, which nothing else does here.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*conn).serve"),
		goleak.IgnoreAnyFunction("net/http.(*connReader).backgroundRead"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// patience is for what happens soon on a machine that is busy.
const patience = 30 * time.Second

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A server is a real etcd in this process, which can be stopped and started again with
// its data and its address.
type server struct {
	config embed.Config
	etcd   *embed.Etcd
}

func newServer(t *testing.T, set ...func(*embed.Config)) *server {
	t.Helper()
	s := prepare(t, "default", set...)
	s.start(t)
	return s
}

func prepare(t *testing.T, name string, set ...func(*embed.Config)) *server {
	t.Helper()
	config := embed.NewConfig()
	config.Name, config.Dir = name, t.TempDir()
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	config.UnsafeNoFsync = true
	config.TickMs, config.ElectionMs = 20, 200
	config.ListenClientUrls = []url.URL{{Scheme: "http", Host: loopback.Free(t)}}
	config.ListenPeerUrls = []url.URL{{Scheme: "http", Host: loopback.Free(t)}}
	for _, f := range set {
		f(config)
	}
	config.AdvertiseClientUrls, config.AdvertisePeerUrls = config.ListenClientUrls, config.ListenPeerUrls
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	s := &server{config: *config}
	t.Cleanup(s.stop)
	return s
}

// launch starts the server, which is ready when its cluster has a leader.
func (s *server) launch(t testing.TB) {
	t.Helper()
	config := s.config // which StartEtcd changes
	etcd, err := embed.StartEtcd(&config)
	if err != nil {
		t.Fatal(err)
	}
	s.etcd = etcd
}

func (s *server) ready(t testing.TB) {
	t.Helper()
	select {
	case <-s.etcd.Server.ReadyNotify():
	case err := <-s.etcd.Err():
		t.Fatal(err)
	case <-time.After(patience):
		t.Fatal("the server is not ready")
	}
}

func (s *server) start(t testing.TB) {
	t.Helper()
	s.launch(t)
	s.ready(t)
}

func (s *server) stop() {
	if s.etcd != nil {
		s.etcd.Close()
		s.etcd = nil
	}
}

// address is where clients reach it: HOST:PORT.
func (s *server) address() string { return s.config.ListenClientUrls[0].Host }

// client returns the vendor's own client, as root if a password is given.
func (s *server) client(t *testing.T, password ...string) *clientv3.Client {
	t.Helper()
	config := clientv3.Config{Endpoints: []string{s.address()}, Logger: zap.NewNop(), DialTimeout: patience}
	if len(password) > 0 {
		config.Username, config.Password = "root", password[0]
	}
	client, err := clientv3.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// through returns a client of which every attempt of a unary call goes through f.
func (s *server) through(t *testing.T, f grpc.UnaryClientInterceptor) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.address()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(f)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// A bell counts how often it was rung, and can be waited for.
type bell struct {
	mu    sync.Mutex
	rings int
	rung  chan struct{}
}

func newBell() *bell { return &bell{rung: make(chan struct{}, 1)} }

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rings++
	select {
	case b.rung <- struct{}{}:
	default:
	}
}

func (b *bell) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rings
}

// await returns when done reports true, which is asked again at each ring.
func (b *bell) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	timeout := time.After(patience)
	for !done() {
		select {
		case <-b.rung:
		case <-timeout:
			t.Fatalf("%s did not come, after %d hints", what, b.count())
		}
	}
}

// eventually asks again and again, for what tells nobody when it happens.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

// uri returns that of a key at one or more addresses.
func uri(scheme, key string, addresses ...string) string {
	return fmt.Sprintf("%s://%s/%s", scheme, strings.Join(addresses, ","), key)
}
