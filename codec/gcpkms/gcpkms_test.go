package gcpkms_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	kms "cloud.google.com/go/kms/apiv1"
	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/grpc"

	"github.com/echoseal/echoseal/codec/gcpkms"
	"github.com/echoseal/echoseal/keyset"
)

// secretContext has a value that no error may tell.
var secretContext = keyset.EncryptionContext("canary-in-the-context", "7b0c7a2e-0000-4000-8000-000000000000", keyset.Data)

const (
	opDecrypt    = "cloudkms.cryptoKeyVersions.useToDecrypt"
	opEncrypt    = "cloudkms.cryptoKeyVersions.useToEncrypt"
	opGet        = "cloudkms.cryptoKeys.get"
	opGetVersion = "cloudkms.cryptoKeyVersions.get"
	opList       = "cloudkms.cryptoKeyVersions.list"
)

func newService(t testing.TB, client *kms.KeyManagementClient, keys ...string) *gcpkms.Service {
	t.Helper()
	s, err := gcpkms.New(client, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wrap(t *testing.T, s *gcpkms.Service, dataKey []byte) keyset.WrappedKey {
	t.Helper()
	w, err := s.Wrap(t.Context(), dataKey, secretContext)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// wantError checks an error: its kind, and that it names key, operation and remedy, and
// no value of the encryption context.
func wantError(t *testing.T, err error, kind keyset.Kind, key, operation string) {
	t.Helper()
	var e *keyset.KeyError
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want a KeyError", err)
	}
	if !errors.Is(err, kind) || e.Kind != kind {
		t.Errorf("kind %s, want %s: %v", e.Kind, kind, err)
	}
	text := err.Error()
	if e.Key != "gcpkms://"+key || e.Operation != operation || e.Remedy == "" ||
		!strings.Contains(text, key) || !strings.Contains(text, operation) || !strings.Contains(text, e.Remedy) {
		t.Errorf("%q has to name the key %s, the operation %s and the remedy %q", text, key, operation, e.Remedy)
	}
	if strings.ContainsAny(text, "{}\n") || strings.Contains(text, "canary") {
		t.Errorf("%q holds a placeholder, a line end or a secret", text)
	}
}

// A spy keeps the buffers in which plaintexts go through the client.
type spy struct {
	mu       sync.Mutex
	received [][]byte
	sent     [][]byte
}

func (s *spy) watch() grpc.DialOption {
	return grpc.WithUnaryInterceptor(func(ctx context.Context, method string, request, answer any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		err := invoke(ctx, method, request, answer, connection, options...)
		s.mu.Lock()
		defer s.mu.Unlock()
		if r, ok := request.(*kmspb.EncryptRequest); ok {
			s.sent = append(s.sent, r.GetPlaintext())
		}
		if a, ok := answer.(*kmspb.DecryptResponse); ok && err == nil {
			s.received = append(s.received, a.GetPlaintext())
		}
		return err
	})
}

// wantZeroed checks that so many plaintexts were sent and received, and are gone.
func (s *spy) wantZeroed(t *testing.T, sent, received int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sent) != sent || len(s.received) != received {
		t.Errorf("%d plaintexts were sent and %d received, want %d and %d", len(s.sent), len(s.received), sent, received)
	}
	for _, b := range append(s.sent, s.received...) {
		if len(b) == 0 || !bytes.Equal(b, make([]byte, len(b))) {
			t.Errorf("a plaintext of %d bytes is not zeroed", len(b))
		}
	}
}
