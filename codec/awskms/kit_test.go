package awskms_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/echoseal/echoseal/codec/awskms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/keysettest"
)

func TestKeyService(t *testing.T) {
	fake := kmsfake.Start(t)
	keys := []string{fake.AddKey(kmsfake.Key{}), fake.AddKey(kmsfake.Key{})}
	faults := map[keyset.Kind]kmsfake.Fault{
		keyset.NotFound:        {Code: "NotFoundException"},
		keyset.Disabled:        {Code: "DisabledException"},
		keyset.PendingDeletion: {Code: "KMSInvalidStateException", Message: keys[0] + " is pending deletion."},
		keyset.Destroyed:       {Code: "KMSInvalidStateException", Message: keys[0] + " is pending import."},
		keyset.Denied:          {Code: "AccessDeniedException"},
		keyset.Throttled:       {Code: "ThrottlingException"},
		keyset.Unavailable:     {Code: "KMSInternalException", Status: 500},
		keyset.ContextMismatch: {Code: "InvalidCiphertextException"},
		keyset.WrongKey:        {Code: "IncorrectKeyException"},
		keyset.Corrupt:         {Code: "ValidationException"},
	}
	failAll := func(t testing.TB, f kmsfake.Fault, calls int) {
		fake.FailAll(f, calls)
		t.Cleanup(func() { fake.FailAll(kmsfake.Fault{}, 0) })
	}
	keysettest.KeyService(t, keysettest.KeyServiceHarness{
		New: func(t testing.TB, which ...int) keyset.KeyService {
			var arns []string
			for _, i := range which {
				arns = append(arns, keys[i])
			}
			return newService(t, newClient(fake), arns...)
		},
		Calls:   func() int { return len(fake.Seen()) },
		Silence: func(t testing.TB) { failAll(t, kmsfake.Fault{Hang: true}, -1) },
		Fail:    func(t testing.TB, kind keyset.Kind, calls int) { failAll(t, faults[kind], calls) },
		Kinds:   slices.Sorted(maps.Keys(faults)),
	})
}
