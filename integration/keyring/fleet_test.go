package keyring_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
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
	at := func(uri string) fleet.Source {
		source, err := fleet.HTTP(uri)
		if err != nil {
			t.Fatal(err)
		}
		return source
	}
	answering := map[fleet.Source]error{at("http://" + secure.Listener.Addr().String() + "/html"): fleet.ErrMalformed}
	for path, want := range map[string]error{
		"/endless": fleet.ErrMalformed, "/elsewhere": fleet.ErrMalformed, "/aborts": fleet.ErrUnreachable, "/html": fleet.ErrMalformed,
	} {
		answering[at(server.URL+path)] = want
	}
	o := fleet.Collect(t.Context(), key, nil, slices.Collect(maps.Keys(answering))...)
	if len(o.Instances) != len(answering) || len(o.Failures) != 0 {
		t.Errorf("%d instances and %d failures, want %d and none", len(o.Instances), len(o.Failures), len(answering))
	}
	for _, i := range o.Instances {
		for source, want := range answering {
			if source.String() == i.Source && (!errors.Is(i.Err, want) || !i.Live()) {
				t.Errorf("%s: %v", i.Source, i.Err)
			}
		}
	}

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
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	o = fleet.Collect(ctx, key, nil, named, at(server.URL+"/silent"), at(server.URL+"/drips"))
	if want := len(many) + 2; len(o.Instances) != want || len(o.Failures) != 0 {
		t.Errorf("%d instances and %d failures, want %d and none", len(o.Instances), len(o.Failures), want)
	}
	for _, i := range o.Instances {
		if !errors.Is(i.Err, fleet.ErrUnreachable) || !i.Live() {
			t.Errorf("%s at %s: %v", i.Source, i.Address, i.Err)
		}
	}
}
