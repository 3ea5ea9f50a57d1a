package livefleet

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	// lastServer is the header in which an answer says which server gave it, and a
	// request which one it comes from.
	lastServer = "X-Last-Server"

	// balancerTimeout is how long a server may take before another one is asked, and how
	// long it is not asked then.
	balancerTimeout = 3 * time.Second
)

// A balancer sends each request to another server than the one that it comes from, as long
// as there is another, and asks the next one if a server is not ready, does not answer or
// breaks the connection: with the same token.
type balancer struct {
	*httptest.Server

	client *http.Client

	mu      sync.Mutex
	targets []target
	avoided map[string]time.Time // until when
}

type target struct{ name, url string }

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	b := &balancer{avoided: make(map[string]time.Time), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}}
	b.Server = httptest.NewServer(b)
	t.Cleanup(func() {
		b.Close()
		b.client.CloseIdleConnections()
	})
	return b
}

func (b *balancer) add(name, url string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = append(b.targets, target{name, url})
	delete(b.avoided, name)
}

func (b *balancer) remove(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets = slices.DeleteFunc(b.targets, func(t target) bool { return t.name == name })
}

func (b *balancer) avoid(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.avoided[name] = time.Now().Add(balancerTimeout)
}

// order returns the servers in the order in which they are to be asked.
func (b *balancer) order(last string) []target {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	rank := func(t target) int {
		switch {
		case b.avoided[t.name].After(now):
			return 2
		case t.name == last:
			return 1
		}
		return 0
	}
	all := slices.Clone(b.targets)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortStableFunc(all, func(x, y target) int { return rank(x) - rank(y) })
	return all
}

// ServeHTTP implements http.Handler.
func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	for _, t := range b.order(r.Header.Get(lastServer)) {
		status, answer, err := b.forward(r, t, body)
		switch {
		case r.Context().Err() != nil:
			return
		case err != nil:
			b.avoid(t.name)
			continue
		case status == http.StatusServiceUnavailable:
			continue
		}
		w.Header().Set(lastServer, t.name)
		w.WriteHeader(status)
		_, _ = w.Write(answer)
		return
	}
	http.Error(w, "no server is ready", http.StatusServiceUnavailable)
}

func (b *balancer) forward(r *http.Request, t target, body []byte) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), balancerTimeout)
	defer cancel()
	forwarded, err := http.NewRequestWithContext(ctx, r.Method, t.url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	forwarded.Header = r.Header.Clone()
	response, err := b.client.Do(forwarded)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}
