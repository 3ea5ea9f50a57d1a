package keyset_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/keyset"
)

// An operator makes a keyset, once, and stages the next key a month later. The key service
// stands for that of package awskms, gcpkms, vault or localkek.
func Example() {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	err = operate(context.Background(), filepath.Join(folder, "keyset.json"))
	_ = os.RemoveAll(folder)
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// once more: true
	// revision 2
	// primary 10m0s
	// staged 10m0s
}

func operate(ctx context.Context, path string) error {
	store, err := keyset.NewFile(path)
	if err != nil {
		return err
	}
	services := keyset.Services{memkek.New("kek")}
	if err := create(ctx, store, services); err != nil {
		return err
	}
	err = create(ctx, store, services)
	fmt.Println("once more:", errors.Is(err, keyset.ErrConflict))
	if err := stage(ctx, store, services); err != nil {
		return err
	}

	doc, _, _, err := keyset.Load(ctx, store, services, "billing")
	if err != nil {
		return err
	}
	fmt.Println("revision", doc.Revision)
	for _, k := range doc.Keys {
		fmt.Println(k.State, k.MaxTTL)
	}
	return nil
}

func create(ctx context.Context, store keyset.Store, services keyset.Services) error {
	doc, auth, err := keyset.Init(ctx, services, keyset.InitOptions{
		Name: "billing",
		Note: keyset.Note{At: time.Now(), Actor: "ops@bastion"},
	})
	if err != nil {
		return err
	}
	text, err := auth.Encode(doc)
	if err != nil {
		return err
	}
	_, err = store.Save(ctx, text, "") // creates, and never replaces
	return err
}

func stage(ctx context.Context, store keyset.Store, services keyset.Services) error {
	doc, auth, version, err := keyset.Load(ctx, store, services, "billing")
	if err != nil {
		return err
	}
	key, err := doc.GenerateKey(ctx, services, time.Now())
	if err != nil {
		return err
	}
	next := doc.Next()
	if err := next.Stage(keyset.Note{At: time.Now(), Actor: "ops@bastion"}, key); err != nil {
		return err
	}
	text, err := auth.Encode(next)
	if err != nil {
		return err
	}
	// After keyset.ErrConflict: load again, and decide again.
	_, err = store.Save(ctx, text, version)
	return err
}

// A move that there is not is refused, with both states.
func ExampleDocument_Promote() {
	ctx, services := context.Background(), keyset.Services{memkek.New("kek")}
	note := keyset.Note{At: time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC), Actor: "ops@bastion"}
	// 32 bytes each, for an example that prints the same every time.
	secrets := [][]byte{[]byte("0123456789abcdef0123456789abcdef"), []byte("an older secret of this service.")}
	doc, _, err := keyset.Init(ctx, services, keyset.InitOptions{Name: "billing", Secrets: secrets, Note: note})
	if err != nil {
		log.Fatal(err)
	}
	primary, older := doc.Keys[0].KID, doc.Keys[1].KID
	fmt.Println(doc.Promote(note, older))
	fmt.Println(doc.Revoke(note, primary))
	fmt.Println(doc.Rollback(note, older), doc.Key(primary).State, doc.Key(older).State)
	// Output:
	// key a457e7fb cannot become primary: it is retiring
	// key a014f40b cannot become revoked: it is primary; make another key primary first
	// <nil> retiring primary
}
