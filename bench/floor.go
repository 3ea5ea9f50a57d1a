package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// floor is the least that sealing and unsealing a payload can cost; see the package's
// comment. Each result goes to keep, if that is not nil.
func floor(payload []byte, keep func(result []byte)) (seal, unseal runner, err error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, nil, err
	}
	const head, nonce = 4, 12 // a key id and a nonce stand before what is sealed
	var aad [7]byte
	raw := []byte(arguments)
	body := make([]byte, head+nonce, head+nonce+len(payload)+aead.Overhead())
	text := make([]byte, base64.RawURLEncoding.EncodedLen(cap(body)))
	if keep == nil {
		keep = func([]byte) {}
	}
	seal = each(func() error {
		sha256.Sum256(raw)
		_, _ = rand.Read(body[head:]) // never fails: it ends the process instead
		base64.RawURLEncoding.Encode(text, aead.Seal(body, body[head:], payload, aad[:]))
		keep(text)
		return nil
	})
	if _, err := seal(1); err != nil { // writes text
		return nil, nil, err
	}
	token := string(text)
	in, out, decoded := []byte(token), make([]byte, 0, len(payload)), make([]byte, cap(body))
	unseal = each(func() error {
		sha256.Sum256(raw)
		if _, err := base64.RawURLEncoding.Decode(decoded, in); err != nil {
			return err
		}
		opened, err := aead.Open(out, decoded[head:head+nonce], decoded[head+nonce:], aad[:])
		keep(opened)
		return err
	})
	return seal, unseal, nil
}
