package fleet_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/echoseal/echoseal/fleet"
)

// serve serves on a loopback address, and returns HOST:PORT.
func serve(t testing.TB, address string, handler http.Handler) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return listener.Addr().String()
}

// reporting is the handler of an instance that reports r.
func reporting(t testing.TB, key *fleet.Key, r fleet.Report) http.Handler {
	signed := sign(t, key, r)
	return fleet.Handler(func(context.Context) ([]byte, error) { return signed, nil })
}

func answering(f http.HandlerFunc) http.Handler { return f }

func mustHTTP(t testing.TB, uri string) fleet.Source {
	t.Helper()
	source, err := fleet.HTTP(uri)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// ask returns the only answer of a source.
func ask(ctx context.Context, t testing.TB, source fleet.Source) fleet.Answer {
	t.Helper()
	answers, err := source.Collect(ctx)
	if err != nil || len(answers) != 1 {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	return answers[0]
}

func TestHTTP(t *testing.T) {
	// No variable of the environment sends it elsewhere.
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	address := serve(t, "127.0.0.1:0", answering(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.RequestURI() != "/report" || r.Header.Get("Accept-Encoding") != "" || !r.Close {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		_, _ = w.Write([]byte(golden))
	}))
	source := mustHTTP(t, "http://"+address+"/report")
	if source.String() != "http://"+address+"/report" {
		t.Errorf("String gives %s", source)
	}
	for range 2 {
		if a := ask(t.Context(), t, source); a.Err != nil || a.Registered || a.Address != address || string(a.Signed) != golden {
			t.Errorf("%+v", a)
		}
	}
}

func TestHTTPWithoutAReport(t *testing.T) {
	var strayed atomic.Int32
	elsewhere := serve(t, "127.0.0.1:0", answering(func(w http.ResponseWriter, _ *http.Request) {
		strayed.Add(1)
		_, _ = w.Write([]byte(golden))
	}))
	closed := serve(t, "127.0.0.1:0", nil)
	raw := func(text string) http.Handler {
		return answering(func(w http.ResponseWriter, _ *http.Request) {
			connection, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = connection.Write([]byte(text)) // as much as is wanted
			_ = connection.Close()
		})
	}
	for name, c := range map[string]struct {
		handler http.Handler
		want    error
		word    string
	}{
		"redirect":   {http.RedirectHandler("http://"+elsewhere, http.StatusFound), fleet.ErrMalformed, "302"},
		"not found":  {http.NotFoundHandler(), fleet.ErrMalformed, "404"},
		"no content": {answering(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), fleet.ErrMalformed, "204"},
		"other one":  {answering(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) }), fleet.ErrMalformed, "405"},
		"broken":     {answering(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }), fleet.ErrMalformed, "500"},
		"nobody":     {answering(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }), fleet.ErrUnreachable, "502"},
		"too slow":   {answering(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGatewayTimeout) }), fleet.ErrUnreachable, "504"},
		"no report":  {fleet.Handler(func(context.Context) ([]byte, error) { return nil, errors.New("no") }), fleet.ErrUnreachable, "503"},
		"huge":       {answering(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 10<<20)) }), fleet.ErrMalformed, "longer than 262144 bytes"},
		"endless": {answering(func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 64<<10))
			}
		}), fleet.ErrMalformed, "longer than 262144 bytes"},
		"huge header":  {raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"), fleet.ErrMalformed, ""},
		"garbage":      {raw("\x00\x01canary\r\n\r\n"), fleet.ErrMalformed, "not answer in HTTP"},
		"hangs up":     {raw(""), fleet.ErrUnreachable, ""},
		"torn":         {raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), fleet.ErrUnreachable, "ended within"},
		"torn, chunks": {raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"rep"), fleet.ErrUnreachable, "ended within"},
	} {
		t.Run(name, func(t *testing.T) {
			a := ask(t.Context(), t, mustHTTP(t, "http://"+serve(t, "127.0.0.1:0", c.handler)))
			wantErr(t, name, a.Err, c.want, c.word)
			if a.Signed != nil || strings.Contains(a.Err.Error(), "canary") {
				t.Errorf("%+v", a)
			}
		})
	}
	t.Run("closed", func(t *testing.T) {
		host, _, _ := net.SplitHostPort(closed)
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		_ = listener.Close()
		a := ask(t.Context(), t, mustHTTP(t, "http://"+listener.Addr().String()))
		wantErr(t, "closed", a.Err, fleet.ErrUnreachable, "refused")
	})
	if n := strayed.Load(); n != 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
}

// Whoever is silent, or stops in the middle, is not waited for beyond the context.
func TestHTTPWithoutAnEnd(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter){
		"silent": func(http.ResponseWriter) {},
		"stuck": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte("{"))
			_ = http.NewResponseController(w).Flush()
		},
	} {
		asked := make(chan struct{}, 2)
		source := mustHTTP(t, "http://"+serve(t, "127.0.0.1:0", answering(func(w http.ResponseWriter, r *http.Request) {
			begin(w)
			asked <- struct{}{}
			<-r.Context().Done()
		})))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-asked
			cancel()
		}()
		wantErr(t, name, ask(ctx, t, source).Err, fleet.ErrUnreachable, "not waited for any longer")

		ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
		wantErr(t, name, ask(ctx, t, source).Err, fleet.ErrUnreachable, "in time")
		cancel()
	}
}

func TestSourceURIs(t *testing.T) {
	dns := func(uri string) (fleet.Source, error) { return fleet.DNS(uri, nil) }
	for _, uri := range []string{
		"", "http", "http://", "http://:80/", "http://host/path", "http://host:/", "http://host:0/", "http://host:65536/", "http://host:-1/", "http://host:http/",
		"https://host:443/", "ftp://host:21", "host:80", "http://user@host:80/", "http://user:canary@host:80/", "http://user:canary@host:80x/", "http://host:80/#x", "http://host:80/r?token=canary", "http://host:80?canary", "http://host:80/r?", "http://[::1/", "http://h\x00:80",
	} {
		for _, open := range []func(string) (fleet.Source, error){fleet.HTTP, dns} {
			source, err := open(uri)
			wantErr(t, uri, err, fleet.ErrConfig, "HOST:PORT/PATH")
			if source != nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("%q: %v, %v", uri, source, err)
			}
			_, err = open("dns+" + uri)
			if err == nil {
				t.Errorf("dns+%s is accepted", uri)
			}
		}
	}
	for _, uri := range []string{"http://127.0.0.1:80", "http://[::1]:8080/a/b", "http://mcp-0.mcp.svc:9090/fleet"} {
		if source, err := fleet.HTTP(uri); err != nil || source.String() != uri {
			t.Errorf("%v, %v", source, err)
		}
		if source, err := dns("dns+" + uri); err != nil || source.String() != "dns+"+uri {
			t.Errorf("%v, %v", source, err)
		}
	}
}

// A resolver knows the addresses of one name.
type resolver struct {
	name      string
	addresses []netip.Addr
	err       error
}

func (r *resolver) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	if network != "ip" || host != r.name {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return r.addresses, r.err
}

func mustDNS(t testing.TB, uri string, r fleet.Resolver) fleet.Source {
	t.Helper()
	source, err := fleet.DNS(uri, r)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func TestDNS(t *testing.T) {
	var host atomic.Value
	handler := answering(func(w http.ResponseWriter, r *http.Request) {
		host.Store(r.Host)
		_, _ = w.Write([]byte(golden))
	})
	first := serve(t, "127.0.0.1:0", handler)
	_, port, _ := net.SplitHostPort(first)
	second := serve(t, "127.0.0.2:"+port, notYet)
	known := []netip.Addr{
		netip.MustParseAddr("127.0.0.3"), // nobody is there
		netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1"),
		netip.MustParseAddr("::ffff:127.0.0.1"), netip.MustParseAddr("127.0.0.2"),
	}
	r := &resolver{name: "mcp.test", addresses: known}
	answers, err := mustDNS(t, "dns+http://mcp.test:"+port+"/fleet", r).Collect(t.Context())
	if err != nil || len(answers) != 3 {
		t.Fatalf("%+v, %v", answers, err)
	}
	if a := answers[0]; a.Address != first || a.Err != nil || string(a.Signed) != golden {
		t.Errorf("%+v", a)
	}
	if a := answers[1]; a.Address != second || !errors.Is(a.Err, fleet.ErrUnreachable) {
		t.Errorf("%+v", a)
	}
	if a := answers[2]; a.Address != "127.0.0.3:"+port || !errors.Is(a.Err, fleet.ErrUnreachable) {
		t.Errorf("%+v", a)
	}
	if got := host.Load(); got != "mcp.test:"+port {
		t.Errorf("the instance is asked as %v", got)
	}
	if known[3] != netip.MustParseAddr("::ffff:127.0.0.1") {
		t.Error("what the resolver returned was changed")
	}
}

// A name without an address is no empty fleet.
func TestDNSWithoutAnAddress(t *testing.T) {
	for name, r := range map[string]*resolver{
		"empty":   {name: "mcp.test"},
		"failed":  {name: "mcp.test", err: errors.New("no server")},
		"unknown": {name: "other.test"},
	} {
		answers, err := mustDNS(t, "dns+http://mcp.test:80/", r).Collect(t.Context())
		wantErr(t, name, err, fleet.ErrUnreachable)
		if len(answers) != 0 {
			t.Errorf("%s: %+v", name, answers)
		}
	}
}
