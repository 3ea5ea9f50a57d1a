package keyring_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/echoseal/echoseal/fleet"
)

// addresses are those of any name.
type addresses []netip.Addr

func (a addresses) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return a, nil }

// Whoever collects reports is left with nothing of those who answer badly: a slow one, one
// that never ends, one that sends elsewhere, one that hangs up, and addresses of nobody.
func TestCollectingLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	mux := http.NewServeMux()
	drip := func(w http.ResponseWriter, r *http.Request, piece []byte, wait time.Duration) {
		for r.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(wait):
			}
		}
	}
	mux.HandleFunc("/drips", func(w http.ResponseWriter, r *http.Request) { drip(w, r, []byte("{"), 10*time.Millisecond) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) { drip(w, r, make([]byte, 64<<10), 0) })
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.Handle("/elsewhere", http.RedirectHandler("/silent", http.StatusTemporaryRedirect))
	mux.HandleFunc("/aborts", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/html", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	server := httptest.NewServer(mux)
	defer server.Close()
	secure := httptest.NewTLSServer(mux) // which answers plain HTTP with an error of its own
	defer secure.Close()

	key, err := fleet.NewKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	var sources fleet.Sources
	for path, want := range map[string]error{
		"/drips": fleet.ErrUnreachable, "/endless": fleet.ErrMalformed, "/silent": fleet.ErrUnreachable, "/elsewhere": fleet.ErrUnreachable,
		"/aborts": fleet.ErrUnreachable, "/html": fleet.ErrMalformed,
	} {
		source, err := fleet.HTTP(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, expecting{source, want})
	}
	source, err := fleet.HTTP("http://" + secure.Listener.Addr().String() + "/html")
	if err != nil {
		t.Fatal(err)
	}
	sources = append(sources, expecting{source, fleet.ErrUnreachable})
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	many := addresses{netip.MustParseAddr("::1"), netip.MustParseAddr("::ffff:127.0.0.1")}
	for n := range 200 {
		many = append(many, netip.AddrFrom4([4]byte{127, 0, 1, byte(n)}))
	}
	named, err := fleet.DNS("dns+http://mcp.test:"+port+"/silent", many)
	if err != nil {
		t.Fatal(err)
	}
	sources = append(sources, expecting{named, fleet.ErrUnreachable})

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	o := fleet.Collect(ctx, key, nil, sources...)
	if want := len(sources) - 1 + len(many); len(o.Instances) != want || len(o.Failures) != 0 {
		t.Errorf("%d instances and %d failures, want %d and none", len(o.Instances), len(o.Failures), want)
	}
	for _, i := range o.Instances {
		for _, s := range sources {
			if e, ok := s.(expecting); ok && e.String() == i.Source && (!errors.Is(i.Err, e.err) || !i.Live()) {
				t.Errorf("%s at %s: %v", i.Source, i.Address, i.Err)
			}
		}
	}
}

// expecting is a source all of whose answers have one error.
type expecting struct {
	fleet.Source

	err error
}
