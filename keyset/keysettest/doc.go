// Package keysettest is the test suite for implementations of [keyset.KeyService] and of
// [keyset.Store]. One that passes can be configured wherever one is called for.
//
//	func TestKeyService(t *testing.T) {
//		fake := startFake(t)
//		keysettest.KeyService(t, keysettest.KeyServiceHarness{
//			New: func(t testing.TB, keys ...int) keyset.KeyService { return mykms.New(fake.Client(), …) },
//			…
//		})
//	}
//
// It looks for what a caller relies on and what an attacker would try. Of a key
// service: the context of a data key, damaged and exchanged ciphertexts, keys that are
// not configured; silence, throttling and refusals of the back end; what an error says,
// and what it must not. Of a store: writers that overtake each other or die, readers in
// between, documents that come back as others, silence and restarts of the back end.
package keysettest
