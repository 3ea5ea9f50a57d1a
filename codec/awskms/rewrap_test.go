package awskms_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/echoseal/echoseal/codec/awskms"
	"github.com/echoseal/echoseal/codec/awskms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
)

func TestRewrap(t *testing.T) {
	fake := kmsfake.Start(t)
	key, target := fake.AddKey(kmsfake.Key{}), fake.AddKey(kmsfake.Key{})
	w := wrap(t, newService(t, newClient(fake), key), []byte("data key"))
	s := newService(t, newClient(fake), target, key)

	for name, source := range map[string]keyset.WrappedKey{"from another key": w, "from the same": wrap(t, s, []byte("data key"))} {
		decrypts := fake.Calls("Decrypt")
		moved, err := s.Rewrap(t.Context(), source, secretContext)
		if err != nil {
			t.Fatal(err)
		}
		if moved.Service != "awskms:///"+target || bytes.Equal(moved.Ciphertext, source.Ciphertext) || fake.Calls("Decrypt") != decrypts {
			t.Errorf("%s: wrapped by %s, and the data key must not leave KMS", name, moved.Service)
		}
		if got, err := s.Unwrap(t.Context(), moved, secretContext); err != nil || string(got) != "data key" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		_, err = s.Unwrap(t.Context(), moved, nil)
		wantError(t, err, keyset.ContextMismatch, target, "kms:Decrypt")
		if _, err := s.Rewrap(t.Context(), source, map[string]string{"other": "context"}); !isKind(err, keyset.ContextMismatch) {
			t.Errorf("%s, another context: %v", name, err)
		}
	}
}

// A data key that another region wrapped is unwrapped there and wrapped here.
func TestRewrapAcrossRegions(t *testing.T) {
	login(t)
	fake := kmsfake.Start(t)
	old, target := fake.AddKey(kmsfake.Key{Region: "us-east-1"}), fake.AddKey(kmsfake.Key{})
	var uris []string
	for _, key := range []string{target, old} {
		uris = append(uris, "awskms:///"+key+"?endpoint="+fake.URL)
	}
	s, err := awskms.Open(t.Context(), uris...)
	if err != nil {
		t.Fatal(err)
	}
	w := wrap(t, newService(t, newClient(fake, func(o *kms.Options) { o.Region = "us-east-1" }), old), []byte("data key"))
	moved, err := s.Rewrap(t.Context(), w, secretContext)
	if err != nil || moved.Service != "awskms:///"+target || fake.Calls("ReEncrypt") != 0 {
		t.Fatalf("wrapped by %s, %v", moved.Service, err)
	}
	if got, err := s.Unwrap(t.Context(), moved, secretContext); err != nil || string(got) != "data key" {
		t.Errorf("%q, %v", got, err)
	}
}

// A listed replica opens what any replica wrapped; one that is not listed is never
// called.
func TestReplicas(t *testing.T) {
	login(t)
	fake := kmsfake.Start(t)
	key := fake.AddKey(kmsfake.Key{MultiRegion: true, Region: "us-east-1"})
	replica := fake.Replicate(key, home)
	w := wrap(t, newService(t, newClient(fake, func(o *kms.Options) { o.Region = "us-east-1" }), key), []byte("data key"))

	s := newService(t, newClient(fake), replica)
	before := len(fake.Seen())
	if got, err := s.Unwrap(t.Context(), w, secretContext); err != nil || !bytes.Equal(got, []byte("data key")) {
		t.Errorf("%q, %v", got, err)
	}
	if moved, err := s.Rewrap(t.Context(), w, secretContext); err != nil || moved.Service != "awskms:///"+replica {
		t.Errorf("rewrapped by %s, %v", moved.Service, err)
	}
	for _, call := range fake.Seen()[before:] {
		if call.Region != home || call.KeyID != replica {
			t.Errorf("call %+v, want the listed replica only", call)
		}
	}

	// With both listed, one stands in for the other, but not against its verdict.
	both, err := awskms.Open(t.Context(), "awskms:///"+replica+"?endpoint="+fake.URL, "awskms:///"+key+"?endpoint="+fake.URL)
	if err != nil {
		t.Fatal(err)
	}
	fake.SetState(key, "Disabled")
	if _, err := both.Unwrap(t.Context(), w, secretContext); err != nil {
		t.Errorf("with one replica disabled: %v", err)
	}
	fake.SetState(replica, "PendingDeletion")
	_, err = both.Unwrap(t.Context(), w, secretContext)
	wantError(t, err, keyset.Disabled, key, "kms:Decrypt") // the first that was tried
	fake.SetState(key, "Enabled")
	fake.SetState(replica, "Enabled")
	calls := fake.Calls("Decrypt")
	_, err = both.Unwrap(t.Context(), w, nil)
	wantError(t, err, keyset.ContextMismatch, key, "kms:Decrypt")
	if n := fake.Calls("Decrypt") - calls; n != 1 {
		t.Errorf("%d calls for a context that no replica can accept, want 1", n)
	}
}

// A replica that hangs leaves time for the next one.
func TestHangingReplica(t *testing.T) {
	login(t)
	fake := kmsfake.Start(t)
	key := fake.AddKey(kmsfake.Key{MultiRegion: true})
	replica := fake.Replicate(key, "us-east-1")
	s, err := awskms.Open(t.Context(), "awskms:///"+key+"?endpoint="+fake.URL, "awskms:///"+replica+"?endpoint="+fake.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := wrap(t, s, []byte("data key"))
	fake.Fail("Decrypt", kmsfake.Fault{Hang: true})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if got, err := s.Unwrap(ctx, w, secretContext); err != nil || string(got) != "data key" {
		t.Errorf("%q, %v", got, err)
	}
}
