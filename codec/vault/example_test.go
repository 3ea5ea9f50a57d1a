package vault_test

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/echoseal/echoseal/codec/vault"
	"github.com/echoseal/echoseal/keyset"
)

// An operator makes a data key. A server, which may only unwrap, gets it back.
func Example() {
	server := exampleServer()
	defer server.Close()
	config := api.DefaultConfig()
	config.Address = server.URL
	client, err := api.NewClient(config)
	if err != nil {
		panic(err)
	}
	client.SetToken(rootToken)

	service, err := vault.New(client, "orders?mount=transit")
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	purpose := keyset.EncryptionContext("fleet", "5c1d7e1e-9e0b-4a55-8a3b-c0ffee15900d", keyset.Data)
	dataKey, wrapped, err := keyset.Services{service}.Generate(ctx, purpose)
	if err != nil {
		panic(err)
	}
	clear(dataKey)
	fmt.Println(wrapped.Service, "version", wrapped.Version)

	dataKey, err = keyset.Services{service}.Unwrap(ctx, []keyset.WrappedKey{wrapped}, purpose)
	if err != nil {
		panic(err)
	}
	defer clear(dataKey)
	fmt.Println(len(dataKey), "bytes")
	// Output:
	// hashivault://orders?mount=transit version 1
	// 32 bytes
}

// A keyset in KV: whoever has read an older version cannot write over the newer one.
func ExampleStore() {
	server := exampleServer()
	defer server.Close()
	config := api.DefaultConfig()
	config.Address = server.URL
	client, err := api.NewClient(config)
	if err != nil {
		panic(err)
	}
	client.SetToken(rootToken)

	store, err := vault.NewStore(client, "echoseal/orders?mount=secret")
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	version, err := store.Save(ctx, []byte(`{"revision":1}`), "") // only creates
	fmt.Println(version, err)
	version, err = store.Save(ctx, []byte(`{"revision":2}`), version)
	fmt.Println(version, err)
	_, err = store.Save(ctx, []byte(`{"revision":2}`), "1@2026-12-02T03:00:00.123456789Z")
	fmt.Println(err)
	// Output:
	// 1@2026-12-02T03:00:00.123456789Z <nil>
	// 2@2026-12-02T03:00:00.123456789Z <nil>
	// hashivault-kv:///echoseal/orders?mount=secret: another writer was first
}

// exampleServer starts what stands in for a server of your own.
func exampleServer() *fake {
	f := newFake()
	f.keys["transit/keys/orders"] = newFakeKey()
	return f
}
