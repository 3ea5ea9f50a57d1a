package keyset_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/echoseal/echoseal/keyset"
)

// Two writers have read the same document: the first to save wins, and the other is told.
func ExampleFile_Save() {
	folder, err := os.MkdirTemp("", "keyset")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file, err := keyset.NewFile(filepath.Join(folder, "keyset.json"))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_, _, err = file.Load(ctx)
	fmt.Println(errors.Is(err, keyset.ErrNotExist))

	version, err := file.Save(ctx, []byte(`{"revision":1}`), "") // only creates
	fmt.Println(err)
	_, err = file.Save(ctx, []byte(`{"revision":2,"actor":"alice"}`), version)
	fmt.Println(err)
	_, err = file.Save(ctx, []byte(`{"revision":2,"actor":"bob"}`), version)
	fmt.Println(errors.Is(err, keyset.ErrConflict))

	doc, _, err := file.Load(ctx)
	fmt.Println(string(doc), err)
	// Output:
	// true
	// <nil>
	// <nil>
	// true
	// {"revision":2,"actor":"alice"} <nil>
}

// A program lists what it can open, and the operator says where the keyset is.
func ExampleSourceOpeners_Open() {
	openers := keyset.SourceOpeners{keyset.FileOpener(), keyset.EnvOpener()} // etcdstore.Opener(), …
	for _, uri := range []string{"/etc/echoseal/keyset.json", "env://KEYSET", "s3://bucket/keyset.json"} {
		source, err := openers.Open(context.Background(), uri)
		if err != nil {
			fmt.Println(err)
			continue
		}
		_, writable := source.(keyset.Store)
		fmt.Println(source, writable)
	}
	// Output:
	// file:///etc/echoseal/keyset.json true
	// env://KEYSET false
	// invalid configuration: no store has the scheme "s3"; the schemes are file, env
}

// One function is enough for a secret manager.
func ExampleSourceFunc() {
	source := keyset.SourceFunc(func(context.Context) ([]byte, error) {
		return []byte(`{"revision":7}`), nil // secretmanager.AccessSecretVersion, …
	})
	doc, _, err := source.Load(context.Background())
	fmt.Println(string(doc), err)
	// Output: {"revision":7} <nil>
}
