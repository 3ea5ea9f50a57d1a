package openbao_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/integration/internal/bao"
	"github.com/echoseal/echoseal/keyset"
)

// The life of a token: its end is told before and after, a new one in the file is used
// at once, and keys that are loaded go on working meanwhile.
func TestTokens(t *testing.T) {
	root := start(t, "orders")
	rootService, _ := open(t, root, "orders")
	w := wrap(t, rootService)
	warns(t, rootService, "root token")

	for what, parameters := range map[string]map[string]any{
		"service": {"ttl": "1h"},
		"batch":   {"ttl": "1h", "type": "batch"},
	} {
		t.Run(what, func(t *testing.T) {
			s, _ := open(t, root.As(root.NewToken(t, operatorPolicy, parameters)), "orders")
			opens(t, s, w)
			described, err := s.Describe(t.Context())
			if err != nil || described[0].Err != nil || len(described[0].Warnings) > 0 {
				t.Fatalf("%+v, %v", described, err)
			}
			if left := time.Until(described[0].CredentialExpires); left < 55*time.Minute || left > 65*time.Minute {
				t.Errorf("it expires in %v", left)
			}
		})
	}
	t.Run("expiring", func(t *testing.T) {
		token := root.NewToken(t, operatorPolicy, map[string]any{"ttl": "3s", "explicit_max_ttl": "3s"})
		s, path := open(t, root.As(token), "orders")
		dataKey, err := s.Unwrap(t.Context(), w, testContext)
		if err != nil {
			t.Fatal(err)
		}
		ring, err := local.New(dataKey)
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := ring.Seal([]byte("state"))
		if err != nil {
			t.Fatal(err)
		}
		described, err := s.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		expires := described[0].CredentialExpires
		if left := time.Until(expires); left <= 0 || left > 3*time.Second {
			t.Errorf("it expires in %v", left)
		}
		told := false
		for ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second); ; {
			if described, err = s.Describe(ctx); err != nil {
				t.Fatal(err)
			}
			told = told || strings.Contains(strings.Join(described[0].Warnings, "\n"), "look after what renews or replaces it")
			if described[0].Err != nil || ctx.Err() != nil {
				cancel()
				break
			}
			pause(ctx, 100*time.Millisecond)
		}
		if !told {
			t.Error("nothing warned of the end")
		}
		if time.Now().Before(expires) {
			t.Error("it ended too soon")
		}
		fails(t, described[0].Err, keyset.Denied, "expired, revoked", path)
		unwrapFails(t, s, w, keyset.Denied, "expired, revoked", path)
		if state, err := ring.Unseal(sealed); err != nil || string(state) != "state" {
			t.Errorf("the ring: %q, %v", state, err)
		}
		writeToken(t, path, root.NewToken(t, operatorPolicy, map[string]any{"ttl": "1h"}))
		opens(t, s, w)
	})
	t.Run("revoked", func(t *testing.T) {
		token := root.NewToken(t, operatorPolicy, map[string]any{"ttl": "1h"})
		s, path := open(t, root.As(token), "orders")
		opens(t, s, w)
		root.Do(t, http.MethodPost, "auth/token/revoke", map[string]any{"token": token})
		unwrapFails(t, s, w, keyset.Denied, "expired, revoked", path)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		unwrapFails(t, s, w, keyset.Denied, "no token can be read", path)
		writeToken(t, path, root.NewToken(t, operatorPolicy, nil))
		opens(t, s, w)
	})
}

// pause waits between two looks at something that is about to change.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// The fake of the module's own tests says what a server says.
func TestFakeContract(t *testing.T) {
	server := bao.Start(t, false)
	enable(t, server)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-run=Contract$", "-v", "github.com/echoseal/echoseal/codec/vault")
	cmd.Env = append(os.Environ(), "ECHOSEAL_VAULT_ADDR="+server.Address, "ECHOSEAL_VAULT_TOKEN="+server.Token, "ECHOSEAL_VAULT_NAMESPACE=")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestContract ") || !strings.Contains(string(out), "--- PASS: TestKVContract ") {
		t.Errorf("%v\n%s", err, strings.ReplaceAll(string(out), server.Token, "ROOT"))
	}
}
