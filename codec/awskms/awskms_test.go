package awskms_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/smithy-go/middleware"

	"github.com/echoseal/echoseal/codec/awskms"
	"github.com/echoseal/echoseal/codec/awskms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
)

// home is the region of the tests.
const home = "eu-west-1"

// secretContext has a value that no error may tell.
var secretContext = keyset.EncryptionContext("canary-in-the-context", "7b0c7a2e-0000-4000-8000-000000000000", keyset.Data)

// newClient returns a client of the fake: over HTTP, or in the process if the fake has
// no server, so that the time can be testing/synctest's.
func newClient(fake *kmsfake.Service, change ...func(*kms.Options)) *kms.Client {
	o := kms.Options{
		Region:      home,
		Credentials: credentials.NewStaticCredentialsProvider(kmsfake.AccessKey, "canary-secret-access-key", ""),
	}
	if fake.URL != "" {
		o.BaseEndpoint = aws.String(fake.URL)
	} else {
		o.HTTPClient = fake
	}
	return kms.New(o, change...)
}

func newService(t testing.TB, client *kms.Client, keys ...string) *awskms.Service {
	t.Helper()
	s, err := awskms.New(client, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wrap(t *testing.T, s *awskms.Service, dataKey []byte) keyset.WrappedKey {
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
	if e.Key != "awskms:///"+key || e.Operation != operation || e.Remedy == "" ||
		!strings.Contains(text, key) || !strings.Contains(text, operation) || !strings.Contains(text, e.Remedy) {
		t.Errorf("%q has to name the key %s, the operation %s and the remedy %q", text, key, operation, e.Remedy)
	}
	if strings.ContainsAny(text, "{}\n") || strings.Contains(text, "canary") {
		t.Errorf("%q holds a placeholder, a line end or a secret", text)
	}
}

// A spy keeps the buffers in which the SDK hands plaintexts over.
type spy struct {
	mu      sync.Mutex
	buffers [][]byte
}

func (s *spy) watch(o *kms.Options) {
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("spy", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			out, metadata, err := next.HandleInitialize(ctx, in)
			s.mu.Lock()
			defer s.mu.Unlock()
			switch result := out.Result.(type) {
			case *kms.DecryptOutput:
				s.buffers = append(s.buffers, result.Plaintext)
			case *kms.GenerateDataKeyOutput:
				s.buffers = append(s.buffers, result.Plaintext)
			}
			return out, metadata, err
		}), middleware.Before)
	})
}

// wantZeroed checks that n plaintexts were handed over, and are gone.
func (s *spy) wantZeroed(t *testing.T, n int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buffers) != n {
		t.Errorf("%d plaintexts were handed over, want %d", len(s.buffers), n)
	}
	for _, b := range s.buffers {
		if len(b) == 0 || !bytes.Equal(b, make([]byte, len(b))) {
			t.Errorf("a plaintext of %d bytes is not zeroed", len(b))
		}
	}
}

func isKind(err error, kind keyset.Kind) bool { return errors.Is(err, kind) }
