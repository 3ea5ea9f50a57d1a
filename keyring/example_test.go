package keyring_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/keyring"
	"github.com/echoseal/echoseal/keyset"
)

// A ring follows a keyset that somebody else changes. Here one process does both; the key
// service is in memory, where yours is awskms, gcpkms, vault or localkek.
func Example() {
	ctx := context.Background()
	services := keyset.Services{memkek.New("example")}
	doc, auth, err := keyset.Init(ctx, services, keyset.InitOptions{Name: "billing", Note: keyset.Note{At: time.Now()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	source := keyset.SourceFunc(func(context.Context) ([]byte, error) { return auth.Encode(doc) })

	ring, err := keyring.Open(ctx, keyring.Config{Name: "billing", Source: source, Services: services, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = ring.Close() }()
	token, err := ring.Seal([]byte("state"))
	if err != nil {
		fmt.Println(err)
		return
	}
	payload, err := ring.Unseal(token)
	fmt.Printf("%s %v\n", payload, err)
	status := ring.Status()
	fmt.Println(status.Ready(), status.Revision, status.Ceiling, len(status.Keys))
	// Output:
	// state <nil>
	// true 1 10m0s 1
}
