package cli

import (
	"os"
	"testing"

	"github.com/echoseal/echoseal/keyset"
)

// keysetIn returns the keyset in a file.
func keysetIn(t *testing.T, path string) *keyset.Document {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, text)
}

func parsed(t *testing.T, text []byte) *keyset.Document {
	t.Helper()
	doc, err := keyset.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}
