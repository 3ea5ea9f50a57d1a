package gcpkms_test

import (
	"strings"
	"testing"

	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/echoseal/echoseal/codec/gcpkms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
)

// Whatever is changed on the way, in either direction: a second try is made, and if
// that does no better nothing is used, and the plaintext is gone.
func TestDamageOnTheWay(t *testing.T) {
	encrypt, decrypt := "Encrypt", "Decrypt"
	for name, c := range map[string]struct {
		method string
		fault  kmsfake.Fault
		says   string
	}{
		"Encrypt: the plaintext sent": {encrypt, kmsfake.Fault{Arrival: func(r any) { r.(*kmspb.EncryptRequest).Plaintext[3] ^= 8 }}, "request (plaintext_crc32c)"},
		"Encrypt: the AAD sent": {encrypt, kmsfake.Fault{Arrival: func(r any) { r.(*kmspb.EncryptRequest).AdditionalAuthenticatedData[3] ^= 8 }},
			"request (additional_authenticated_data_crc32c)"},
		"Encrypt: the ciphertext received": {encrypt, kmsfake.Fault{Answer: func(a any) { a.(*kmspb.EncryptResponse).Ciphertext[3] ^= 8 }}, "response (ciphertext)"},
		"Encrypt: no ciphertext":           {encrypt, kmsfake.Fault{Answer: func(a any) { a.(*kmspb.EncryptResponse).Ciphertext = nil }}, "empty"},
		"Encrypt: another checksum":        {encrypt, kmsfake.Fault{Answer: func(a any) { a.(*kmspb.EncryptResponse).CiphertextCrc32C.Value++ }}, "response (ciphertext)"},
		"Encrypt: a checksum too long":     {encrypt, kmsfake.Fault{Answer: func(a any) { a.(*kmspb.EncryptResponse).CiphertextCrc32C.Value += 1 << 32 }}, "response (ciphertext)"},
		"Encrypt: no checksum":             {encrypt, kmsfake.Fault{Answer: func(a any) { a.(*kmspb.EncryptResponse).CiphertextCrc32C = nil }}, "response (ciphertext)"},
		"Encrypt: the plaintext is not verified": {encrypt, kmsfake.Fault{Answer: func(a any) { a.(*kmspb.EncryptResponse).VerifiedPlaintextCrc32C = false }},
			"request (plaintext), which Cloud KMS did not confirm"},
		"Encrypt: the AAD is not verified": {encrypt, kmsfake.Fault{Answer: func(a any) { a.(*kmspb.EncryptResponse).VerifiedAdditionalAuthenticatedDataCrc32C = false }},
			"request (additional authenticated data), which Cloud KMS did not confirm"},
		"Encrypt: the checksum is lost": {encrypt, kmsfake.Fault{Arrival: func(r any) { r.(*kmspb.EncryptRequest).PlaintextCrc32C = nil }},
			"request (plaintext), which Cloud KMS did not confirm"},

		"Decrypt: the ciphertext sent":    {decrypt, kmsfake.Fault{Arrival: func(r any) { r.(*kmspb.DecryptRequest).Ciphertext[30] ^= 8 }}, "request (ciphertext_crc32c)"},
		"Decrypt: the AAD sent":           {decrypt, kmsfake.Fault{Arrival: func(r any) { r.(*kmspb.DecryptRequest).AdditionalAuthenticatedData[3] ^= 8 }}, "request (additional_authenticated_data_crc32c)"},
		"Decrypt: the plaintext received": {decrypt, kmsfake.Fault{Answer: func(a any) { a.(*kmspb.DecryptResponse).Plaintext[3] ^= 8 }}, "response (plaintext)"},
		"Decrypt: cut short":              {decrypt, kmsfake.Fault{Answer: func(a any) { r := a.(*kmspb.DecryptResponse); r.Plaintext = r.Plaintext[:4] }}, "response (plaintext)"},
		"Decrypt: another checksum":       {decrypt, kmsfake.Fault{Answer: func(a any) { a.(*kmspb.DecryptResponse).PlaintextCrc32C.Value++ }}, "response (plaintext)"},
		"Decrypt: no checksum":            {decrypt, kmsfake.Fault{Answer: func(a any) { a.(*kmspb.DecryptResponse).PlaintextCrc32C = nil }}, "response (plaintext)"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := kmsfake.Start(t)
			key := fake.AddKey()
			var seen spy
			s := newService(t, fake.Client(t, seen.watch()), key)
			w := wrap(t, s, []byte("data key"))
			call := func() error {
				if c.method == encrypt {
					w, err := s.Wrap(t.Context(), []byte("data key"), secretContext)
					if err != nil && (w.Ciphertext != nil || w.Service != "") {
						t.Error("refused, but something came back")
					}
					return err
				}
				dataKey, err := s.Unwrap(t.Context(), w, secretContext)
				if err != nil && dataKey != nil {
					t.Error("refused, but something came back")
				}
				clear(dataKey)
				return err
			}

			before := fake.Calls(c.method)
			fake.Fail(c.method, c.fault)
			if err := call(); err != nil {
				t.Errorf("damaged once: %v", err)
			}
			if n := fake.Calls(c.method) - before; n != 2 {
				t.Errorf("damaged once: %d calls, want 2", n)
			}

			before = fake.Calls(c.method)
			fake.Fail(c.method, c.fault, c.fault, kmsfake.Fault{Code: codes.Internal, Message: "not to be reached"})
			err := call()
			wantError(t, err, keyset.Corrupt, key, map[string]string{encrypt: opEncrypt, decrypt: opDecrypt}[c.method])
			if n := fake.Calls(c.method) - before; n != 2 || !strings.Contains(err.Error(), c.says) {
				t.Errorf("damaged twice: %d calls, want 2; %v has to say %q", n, err, c.says)
			}
			if c.method == encrypt {
				seen.wantZeroed(t, 5, 0)
			} else {
				seen.wantZeroed(t, 1, len(seen.received))
			}
		})
	}
}

// Only a wrong checksum is worth a second try, not whatever else is wrong with a
// request; and an empty plaintext with the right checksum is no data key.
func TestNoSecondTry(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey()
	s := newService(t, fake.Client(t), key)
	w := wrap(t, s, []byte("data key"))

	fake.Fail("Decrypt", kmsfake.Fault{Code: codes.InvalidArgument, Message: "The checksum is no number."})
	_, err := s.Unwrap(t.Context(), w, secretContext)
	wantError(t, err, keyset.ContextMismatch, key, opDecrypt)

	fake.Fail("Decrypt", kmsfake.Fault{Answer: func(a any) {
		r := a.(*kmspb.DecryptResponse)
		r.Plaintext, r.PlaintextCrc32C = nil, wrapperspb.Int64(0)
	}})
	_, err = s.Unwrap(t.Context(), w, secretContext)
	wantError(t, err, keyset.Corrupt, key, opDecrypt)
	if n := fake.Calls("Decrypt"); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
}
