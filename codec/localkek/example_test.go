package localkek_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/keyset"
)

// The server has a wrapped data key in its environment, and no keyset. It unwraps once,
// when it starts. With another key service only the Openers and the URI are different.
func Example() {
	kek := operator()
	ring, err := ringFromEnvironment(context.Background(), "localkek://"+kek)
	if err != nil {
		log.Fatal(err)
	}
	_ = os.RemoveAll(filepath.Dir(kek)) // it is not read again

	token, _ := ring.Seal([]byte("state"))
	state, _ := ring.Unseal(token)
	fmt.Printf("%s\n", state)
	// Output: state
}

// ringFromEnvironment is all that the server needs.
func ringFromEnvironment(ctx context.Context, kek string) (*local.Ring, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // a start that waits for ever tells nobody why
	defer cancel()
	services, err := keyset.Openers{localkek.Opener()}.Open(ctx, kek)
	if err != nil {
		return nil, err
	}
	var wrapped []keyset.WrappedKey
	if err := json.Unmarshal([]byte(os.Getenv("ECHOSEAL_KEY")), &wrapped); err != nil {
		return nil, fmt.Errorf("ECHOSEAL_KEY: %w", err)
	}
	secret, err := services.Unwrap(ctx, wrapped, keyset.EncryptionContext("billing", "1", keyset.Data))
	if err != nil {
		return nil, err
	}
	defer clear(secret)
	return local.New(secret)
}

// operator makes a key file, and a data key that is wrapped under it.
func operator() (kek string) {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	kek = filepath.Join(folder, "kek")
	if _, err := localkek.NewKeyFile(kek); err != nil {
		log.Fatal(err)
	}
	service, err := localkek.Open(context.Background(), "localkek://"+kek)
	if err != nil {
		log.Fatal(err)
	}
	dataKey, w, err := keyset.Services{service}.Generate(context.Background(), keyset.EncryptionContext("billing", "1", keyset.Data))
	if err != nil {
		log.Fatal(err)
	}
	clear(dataKey)
	// Before it is stored: would a server be able to open it?
	again, err := keyset.Services{service}.Unwrap(context.Background(), []keyset.WrappedKey{w}, keyset.EncryptionContext("billing", "1", keyset.Data))
	if err != nil {
		log.Fatal(err)
	}
	clear(again)
	text, err := json.Marshal([]keyset.WrappedKey{w})
	if err != nil {
		log.Fatal(err)
	}
	_ = os.Setenv("ECHOSEAL_KEY", string(text))
	return kek
}
