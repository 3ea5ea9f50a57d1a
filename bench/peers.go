package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"time"

	"aidanwoods.dev/go-paseto"
	"github.com/fernet/fernet-go"
	"github.com/go-jose/go-jose/v4"
	"github.com/gorilla/securecookie"
	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
	"golang.org/x/crypto/nacl/secretbox"
)

const ttl = 10 * time.Minute

// peers are other ways to seal a token. Each is used as its documentation has it, with a key that
// is ready, and gives text that can be sent as it is.
func peers() []subject {
	return []subject{
		{"encoding/json and crypto/cipher, plainly", true, openPlain},
		{"tink-go, AES256-GCM", false, tokens(newTink(aead.AES256GCMKeyTemplate()))},
		{"tink-go, XChaCha20-Poly1305", false, tokens(newTink(aead.XChaCha20Poly1305KeyTemplate()))},
		{"nacl/secretbox", false, tokens(newSecretbox)},
		{"fernet-go", false, tokens(newFernet)},
		{"go-jose, JWE dir with A256GCM", false, tokens(newJWE)},
		{"gorilla/securecookie, AES-256", false, tokens(newCookie)},
		{"go-paseto, v4.local", false, openPaseto},
	}
}

// A sealer makes tokens of payloads, and payloads of tokens.
type sealer struct {
	seal   func(payload []byte) (string, error)
	unseal func(token string) ([]byte, error)
}

// tokens opens a subject that is given claims.
func tokens(newSealer func() (sealer, error)) func(work, []byte) (runner, runner, error) {
	return func(_ work, payload []byte) (seal, unseal runner, err error) {
		s, err := newSealer()
		if err != nil {
			return nil, nil, err
		}
		token, err := s.seal(payload)
		if err != nil {
			return nil, nil, err
		}
		out, err := s.unseal(token)
		if err != nil {
			return nil, nil, err
		}
		if !bytes.Equal(out, payload) {
			return nil, nil, errDiffers
		}
		seal = each(func() error {
			_, err := s.seal(payload)
			return err
		})
		unseal = each(func() error {
			_, err := s.unseal(token)
			return err
		})
		return seal, unseal, nil
	}
}

func newTink(template *tinkpb.KeyTemplate) func() (sealer, error) {
	return func() (sealer, error) {
		handle, err := keyset.NewHandle(template)
		if err != nil {
			return sealer{}, err
		}
		primitive, err := aead.New(handle)
		if err != nil {
			return sealer{}, err
		}
		aad := []byte("v1.")
		return sealer{
			func(payload []byte) (string, error) {
				sealed, err := primitive.Encrypt(payload, aad)
				return base64.RawURLEncoding.EncodeToString(sealed), err
			},
			func(token string) ([]byte, error) {
				sealed, err := base64.RawURLEncoding.DecodeString(token)
				if err != nil {
					return nil, err
				}
				return primitive.Decrypt(sealed, aad)
			},
		}, nil
	}
}

func newSecretbox() (sealer, error) {
	var key [32]byte
	_, _ = rand.Read(key[:])
	return sealer{
		func(payload []byte) (string, error) {
			var nonce [24]byte
			_, _ = rand.Read(nonce[:])
			return base64.RawURLEncoding.EncodeToString(secretbox.Seal(nonce[:], payload, &nonce, &key)), nil
		},
		func(token string) ([]byte, error) {
			sealed, err := base64.RawURLEncoding.DecodeString(token)
			if err != nil || len(sealed) < 24 {
				return nil, errDiffers
			}
			out, ok := secretbox.Open(nil, sealed[24:], (*[24]byte)(sealed), &key)
			if !ok {
				return nil, errDiffers
			}
			return out, nil
		},
	}, nil
}

func newFernet() (sealer, error) {
	var key fernet.Key
	if err := key.Generate(); err != nil {
		return sealer{}, err
	}
	keys := []*fernet.Key{&key}
	return sealer{
		func(payload []byte) (string, error) {
			token, err := fernet.EncryptAndSign(payload, &key)
			return string(token), err
		},
		func(token string) ([]byte, error) {
			out := fernet.VerifyAndDecrypt([]byte(token), ttl, keys)
			if out == nil {
				return nil, errDiffers
			}
			return out, nil
		},
	}, nil
}

func newJWE() (sealer, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	encrypter, err := jose.NewEncrypter(jose.A256GCM, jose.Recipient{Algorithm: jose.DIRECT, Key: key}, nil)
	if err != nil {
		return sealer{}, err
	}
	algorithms, encryptions := []jose.KeyAlgorithm{jose.DIRECT}, []jose.ContentEncryption{jose.A256GCM}
	return sealer{
		func(payload []byte) (string, error) {
			object, err := encrypter.Encrypt(payload)
			if err != nil {
				return "", err
			}
			return object.CompactSerialize()
		},
		func(token string) ([]byte, error) {
			object, err := jose.ParseEncryptedCompact(token, algorithms, encryptions)
			if err != nil {
				return nil, err
			}
			return object.Decrypt(key)
		},
	}, nil
}

func newCookie() (sealer, error) {
	hashKey, blockKey := make([]byte, 32), make([]byte, 32)
	_, _ = rand.Read(hashKey)
	_, _ = rand.Read(blockKey)
	cookies := securecookie.New(hashKey, blockKey).SetSerializer(securecookie.NopEncoder{}).MaxLength(0).MaxAge(int(ttl.Seconds()))
	return sealer{
		func(payload []byte) (string, error) {
			return cookies.Encode("state", bytes.Clone(payload)) // it encrypts what it is given in place
		},
		func(token string) (out []byte, err error) {
			err = cookies.Decode("state", token, &out)
			return out, err
		},
	}, nil
}

// openPaseto gives PASETO the claims one by one, since its tokens are made of claims. It
// checks the expiry, and the rest is read but not compared.
func openPaseto(w work, _ []byte) (seal, unseal runner, err error) {
	key := paseto.NewV4SymmetricKey()
	write := func() string {
		now := time.Now()
		token := paseto.NewToken()
		token.SetIssuedAt(now)
		token.SetExpiration(now.Add(ttl))
		token.SetAudience(audience)
		token.SetString("m", request.Method)
		token.SetString("t", tool)
		token.SetString("a", "kLmR0d5yFoUs5r4qXn3y7w")
		token.SetString("p", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX")
		token.SetString("s", w.state)
		return token.V4Encrypt(key, nil)
	}
	parser := paseto.NewParser()
	read := func(text string) error {
		token, err := parser.ParseV4Local(key, text, nil)
		if err != nil {
			return err
		}
		state, err := token.GetString("s")
		if err == nil && state != w.state {
			return errDiffers
		}
		return err
	}
	token := write()
	seal = each(func() error {
		if write() == "" {
			return errors.New("there is no token")
		}
		return nil
	})
	unseal = each(func() error { return read(token) })
	return seal, unseal, read(token)
}
