package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/cmd/keytool/cli"
	"github.com/echoseal/echoseal/cmd/keytool/internal/testfleet"
	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// A crowd is a keyset and instances of it, all at one address.
type crowd struct {
	env map[string]string
	now time.Time
}

func newCrowd(tb testing.TB, instances int) *crowd {
	tb.Helper()
	dir := tb.TempDir()
	kek := "localkek://" + filepath.Join(dir, "kek.key")
	c := &crowd{now: time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC), env: map[string]string{
		"ECHOSEAL_STORE":        filepath.Join(dir, "keyset.json"),
		"ECHOSEAL_NAME":         "fleet",
		"ECHOSEAL_KEY_SERVICES": kek,
	}}
	c.keytool(tb, "kek", "new", filepath.Join(dir, "kek.key"))
	c.keytool(tb, "init")

	services, err := keyset.Openers{localkek.Opener()}.Open(tb.Context(), kek)
	if err != nil {
		tb.Fatal(err)
	}
	source, err := keyset.NewFile(c.env["ECHOSEAL_STORE"])
	if err != nil {
		tb.Fatal(err)
	}
	f := &testfleet.Fleet{Source: source, Now: func() time.Time { return c.now }}
	f.Configure(services)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var mux http.ServeMux
	var uris []string
	for i := range instances {
		// Each is asked once for its report: its own work is not keytool's.
		signed, err := f.Start(fmt.Sprintf("mcp-%d", i)).Signed(tb.Context())
		if err != nil {
			tb.Fatal(err)
		}
		path := fmt.Sprintf("/%d", i)
		mux.Handle(path, fleet.Handler(func(context.Context) ([]byte, error) { return signed, nil }))
		uris = append(uris, "http://"+listener.Addr().String()+path)
	}
	c.env["ECHOSEAL_FLEET"] = strings.Join(uris, " ")
	server := &http.Server{Handler: &mux, ErrorLog: discard()}
	go func() { _ = server.Serve(listener) }()
	tb.Cleanup(func() { _ = server.Close() })
	return c
}

// keytool runs it and returns what it prints.
func (c *crowd) keytool(tb testing.TB, args ...string) string {
	tb.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Run(tb.Context(), cli.System{
		Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		Getenv: func(name string) string { return c.env[name] },
		Now:    func() time.Time { return c.now },
	}, args...)
	if code != 0 {
		tb.Fatalf("keytool %s exits %d: %s", strings.Join(args, " "), code, &stderr)
	}
	return stdout.String()
}

// Every instance of a large fleet is told of, and the work for each does not grow with
// their number.
func TestStatusOfManyInstances(t *testing.T) {
	allocated := make(map[int]uint64)
	for _, n := range []int{100, 1000} {
		c := newCrowd(t, n)
		c.keytool(t, "status") // what is allocated once
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out := c.keytool(t, "status")
		runtime.ReadMemStats(&after)
		allocated[n] = after.TotalAlloc - before.TotalAlloc
		if told := strings.Count(out, "\nmcp-"); told != n {
			t.Errorf("%d of %d instances are told of:\n%.1000s", told, n, out)
		}
	}
	if allocated[1000] > 20*allocated[100] {
		t.Errorf("%d bytes are allocated for 1000 instances, %d for 100", allocated[1000], allocated[100])
	}
}

// BenchmarkStatus is keytool status over so many instances, with the servers that answer.
// The bytes for each instance do not grow with their number.
func BenchmarkStatus(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := newCrowd(b, n)
			b.ReportAllocs()
			for b.Loop() {
				c.keytool(b, "status")
			}
		})
	}
}
