package gcpkms_test

import (
	"maps"
	"slices"
	"testing"

	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/grpc/codes"

	"github.com/echoseal/echoseal/codec/gcpkms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/keysettest"
)

// The kinds context_mismatch and wrong_key are not among those on demand: the first is
// of Decrypt alone, the second of Encrypt. The kit has other ways to them.
func TestKeyService(t *testing.T) {
	fake := kmsfake.Start(t)
	keys := []string{fake.AddKey(), fake.AddKey()}
	version := keys[0] + "/cryptoKeyVersions/1"
	faults := map[keyset.Kind]kmsfake.Fault{
		keyset.NotFound:        {Code: codes.NotFound},
		keyset.Disabled:        kmsfake.Disabled(version, kmspb.CryptoKeyVersion_DISABLED),
		keyset.PendingDeletion: kmsfake.Disabled(version, kmspb.CryptoKeyVersion_DESTROY_SCHEDULED),
		keyset.Destroyed:       kmsfake.Disabled(version, kmspb.CryptoKeyVersion_DESTROYED),
		keyset.Denied:          {Code: codes.PermissionDenied},
		keyset.Throttled:       {Code: codes.ResourceExhausted},
		keyset.Unavailable:     {Code: codes.Unavailable},
		keyset.Corrupt:         {Answer: corruptAnswer},
	}
	failAll := func(t testing.TB, f kmsfake.Fault, calls int) {
		fake.FailAll(f, calls)
		t.Cleanup(func() { fake.FailAll(kmsfake.Fault{}, 0) })
	}
	client := fake.Client(t)
	keysettest.KeyService(t, keysettest.KeyServiceHarness{
		New: func(t testing.TB, which ...int) keyset.KeyService {
			var names []string
			for _, i := range which {
				names = append(names, keys[i])
			}
			return newService(t, client, names...)
		},
		Calls:   func() int { return len(fake.Seen()) },
		Silence: func(t testing.TB) { failAll(t, kmsfake.Fault{Hang: true}, -1) },
		Fail:    func(t testing.TB, kind keyset.Kind, calls int) { failAll(t, faults[kind], calls) },
		Kinds:   slices.Sorted(maps.Keys(faults)),
	})
}

// corruptAnswer flips a bit on the way back.
func corruptAnswer(answer any) {
	switch a := answer.(type) {
	case *kmspb.EncryptResponse:
		a.Ciphertext[0] ^= 1
	case *kmspb.DecryptResponse:
		a.Plaintext[0] ^= 1
	}
}
