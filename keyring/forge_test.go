package keyring

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"testing"

	"github.com/echoseal/echoseal/internal/strict"
	"github.com/echoseal/echoseal/keyset"
)

// object is what a document is made of.
type object = map[string]strict.Value

func parse(t testing.TB, text []byte) object {
	t.Helper()
	v, err := strict.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return v.(object)
}

// edited returns a text with something changed by somebody who has no key: its tag stays
// as it was.
func edited(t testing.TB, text []byte, edit func(object)) []byte {
	t.Helper()
	doc := parse(t, text)
	edit(doc)
	return strict.Append(nil, doc)
}

// tagged returns a text with something changed by somebody who has the auth key of that
// secret: its tag fits.
func tagged(t testing.TB, text, secret []byte, edit func(object)) []byte {
	t.Helper()
	doc := parse(t, text)
	edit(doc)
	return retag(t, doc, secret)
}

// retag gives a document the tag that fits, and returns its text.
func retag(t testing.TB, doc object, secret []byte) []byte {
	t.Helper()
	delete(doc, "tag")
	key, err := hkdf.Key(sha256.New, secret, nil, "echoseal/keyset/v1/tag", 32)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(strict.Append(nil, doc))
	doc["tag"] = base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return strict.Append(nil, doc)
}

// authSecret returns the secret of the world's auth key, as only keytool and the servers
// can have it.
func (w *world) authSecret() []byte {
	w.t.Helper()
	secret, err := keyset.Services{w.kek}.OpenAuth(w.t.Context(), w.doc)
	if err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// retagged returns the world's document, changed and with a tag that fits.
func (w *world) retagged(edit func(object)) []byte {
	w.t.Helper()
	return tagged(w.t, w.encode(w.doc), w.authSecret(), edit)
}

// entryOf returns the entry of a key in a document.
func entryOf(doc object, kid string) object {
	for _, k := range doc["keys"].([]strict.Value) {
		if k := k.(object); k["kid"] == kid {
			return k
		}
	}
	return nil
}

// wrappedBy returns wrapped members as a document has them.
func wrappedBy(wrapped ...keyset.WrappedKey) []strict.Value {
	var all []strict.Value
	for _, w := range wrapped {
		all = append(all, object{"service": w.Service, "ciphertext": base64.StdEncoding.EncodeToString(w.Ciphertext)})
	}
	return all
}
