package openbao_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/echoseal/echoseal/integration/internal/bao"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/keysettest"
)

func TestKeyService(t *testing.T) {
	server := start(t, "orders", "billing")
	front := newFront(t, server)
	proxied := *server
	proxied.Address = front.URL
	keys := []string{"orders", "billing"}
	keysettest.KeyService(t, keysettest.KeyServiceHarness{
		New: func(t testing.TB, which ...int) keyset.KeyService {
			var names []string
			for _, i := range which {
				names = append(names, keys[i])
			}
			s, _ := open(t, &proxied, names...)
			return s
		},
		Calls: front.count,
		Silence: func(t testing.TB) {
			front.disturb(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, -1)
		},
		Fail: func(t testing.TB, kind keyset.Kind, calls int) {
			front.disturb(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(disturbances[kind].status)
				_, _ = io.WriteString(w, `{"errors":["`+disturbances[kind].text+`"]}`)
			}, calls)
		},
		Kinds: slices.Sorted(maps.Keys(disturbances)),
	})
}

// disturbances are what OpenBao says, as TestKinds sees it say.
var disturbances = map[keyset.Kind]struct {
	status int
	text   string
}{
	keyset.Denied:      {http.StatusForbidden, "permission denied"},
	keyset.Throttled:   {http.StatusTooManyRequests, "rate limit quota exceeded"},
	keyset.Unavailable: {http.StatusInternalServerError, "internal error"},
	keyset.Sealed:      {http.StatusServiceUnavailable, "Vault is sealed"},
}

// A front stands between the service and the server. It counts the calls, and can keep
// them from the server.
type front struct {
	*httptest.Server

	mu     sync.Mutex
	calls  int
	left   int
	answer http.HandlerFunc
}

func newFront(t *testing.T, server *bao.Server) *front {
	t.Helper()
	to, err := url.Parse(server.Address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	f := &front{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.calls++
		answer := f.answer
		if f.left == 0 {
			answer = nil
		} else {
			f.left--
		}
		f.mu.Unlock()
		if answer == nil {
			proxy.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // or the end of the connection is not seen
		answer(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *front) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// disturb has the next calls answered in another way, until t ends.
func (f *front) disturb(t testing.TB, answer http.HandlerFunc, calls int) {
	set := func(answer http.HandlerFunc, calls int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.answer, f.left = answer, calls
	}
	set(answer, calls)
	t.Cleanup(func() { set(nil, 0) })
}
