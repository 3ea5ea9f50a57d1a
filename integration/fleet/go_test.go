package fleet

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/integration/internal/mixed"
	"github.com/echoseal/echoseal/middleware/gosdk"
	"github.com/echoseal/echoseal/middleware/mcpgo"
)

const (
	goSDK = "go-sdk"
	mcpGo = "mcp-go"
)

func startGoSDK(t *testing.T, c mixed.Config) *instance {
	t.Helper()
	var watch watch
	handler := mixed.GoSDK(goSDK, policy(t, c), &gosdk.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), OnRefuse: watch.add})
	return &instance{name: goSDK, url: serve(t, c, handler), refusals: watch.begin}
}

func startMCPGo(t *testing.T, c mixed.Config) *instance {
	t.Helper()
	var watch watch
	handler := mixed.MCPGo(mcpGo, policy(t, c), mcpgo.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), OnRefuse: watch.add})
	return &instance{name: mcpGo, url: serve(t, c, handler), refusals: watch.begin}
}

func policy(t *testing.T, c mixed.Config) *binding.Policy {
	t.Helper()
	ring, err := local.New([]byte(c.Secret))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := binding.New(ring, binding.Options{Audience: c.Audience, NoAudience: c.Audience == ""})
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// serve serves a handler on loopback to users with a bearer token, and returns the URL.
func serve(t *testing.T, c mixed.Config, handler http.Handler) string {
	t.Helper()
	loopback := httptest.NewServer(c.Users.Authenticate(handler))
	t.Cleanup(loopback.Close)
	return loopback.URL
}

// A watch keeps the refusals of a server.
type watch struct {
	mu      sync.Mutex
	refused []binding.Refusal
}

func (w *watch) add(_ context.Context, r binding.Refusal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = append(w.refused, r)
}

// begin is that of instance.refusals.
func (w *watch) begin() func(string, codec.Reason) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = nil
	return func(method string, reason codec.Reason) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.refused) == 1 && w.refused[0].Method == method && w.refused[0].Reason == reason
	}
}
