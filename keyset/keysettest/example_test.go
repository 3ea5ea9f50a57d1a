package keysettest_test

import (
	"testing"

	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/internal/memstore"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/keysettest"
)

// This is the whole test of a key service. (An example cannot run a test, so go test
// runs it as one.) A service whose keys are in this process has nothing behind it that
// could fail; what is therefore not tested is declared, with the reason.
func TestKeyService(t *testing.T) {
	const local = "the key is in this process: there is no back end"
	keysettest.KeyService(t, keysettest.KeyServiceHarness{
		New: func(_ testing.TB, keys ...int) keyset.KeyService {
			var names []string
			for _, key := range keys {
				names = append(names, []string{"first", "second"}[key])
			}
			return memkek.New(names...)
		},
		Without: map[string]string{"no stray call": local, "silence": local, "retries": local, "refusals": local},
	})
}

// This is the whole test of a store. What cannot be disturbed is declared, too.
func TestStore(t *testing.T) {
	const local = "the store is in this process: there is no back end"
	var server memstore.Server
	keysettest.Store(t, keysettest.StoreHarness{
		New:     func(_ testing.TB, place string) keyset.Store { return server.Open(place) },
		Without: map[string]string{"silence": local, "killed writer": local, "restart": local},
	})
}
