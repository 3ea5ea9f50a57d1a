package main

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// plainClaims are the same claims as Echoseal's.
type plainClaims struct {
	Version   int     `json:"v"`
	IssuedAt  float64 `json:"iat"`
	Expires   float64 `json:"exp"`
	Method    string  `json:"m"`
	Target    string  `json:"t"`
	Digest    string  `json:"a"`
	State     string  `json:"s"`
	Audience  string  `json:"aud"`
	Principal []byte  `json:"p"`
}

// openPlain does the whole job as one would write it in an afternoon, with nothing but the
// standard library. Its tokens are not those of the Python SDK: encoding/json writes
// numbers and characters in its own way.
func openPlain(w work, _ []byte) (seal, unseal runner, err error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, err
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, nil, err
	}
	token, err := plainSeal(gcm, w.state)
	if err != nil {
		return nil, nil, err
	}
	open := func() error {
		state, err := plainUnseal(gcm, token)
		if err == nil && state != w.state {
			return errDiffers
		}
		return err
	}
	seal = each(func() error {
		_, err := plainSeal(gcm, w.state)
		return err
	})
	return seal, each(open), open()
}

func plainSeal(gcm cipher.AEAD, state string) (string, error) {
	digest, err := plainDigest()
	if err != nil {
		return "", err
	}
	salt := make([]byte, 8)
	_, _ = rand.Read(salt)
	now := float64(time.Now().UnixMicro()) / 1e6
	payload, err := json.Marshal(plainClaims{
		Version: 1, IssuedAt: now, Expires: now + ttl.Seconds(),
		Method: request.Method, Target: tool, Digest: digest, State: state, Audience: audience,
		Principal: slices.Concat(salt, plainTag(salt)),
	})
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(gcm.Seal(nil, nil, payload, []byte("v1."))), nil
}

func plainUnseal(gcm cipher.AEAD, token string) (string, error) {
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", err
	}
	payload, err := gcm.Open(nil, nil, sealed, []byte("v1."))
	if err != nil {
		return "", err
	}
	var c plainClaims
	if err := json.Unmarshal(payload, &c); err != nil {
		return "", err
	}
	digest, err := plainDigest()
	if err != nil {
		return "", err
	}
	now := float64(time.Now().UnixMicro()) / 1e6
	if c.Version != 1 || c.IssuedAt > now+60 || c.Expires <= now || c.Method != request.Method || c.Target != tool ||
		c.Digest != digest || c.Audience != audience || len(c.Principal) != 24 ||
		subtle.ConstantTimeCompare(c.Principal[8:], plainTag(c.Principal[:8])) != 1 {
		return "", errors.New("the token is not for this request")
	}
	return c.State, nil
}

// plainDigest has the arguments' members sorted by encoding/json.
func plainDigest() (string, error) {
	decoder := json.NewDecoder(bytes.NewReader(request.Arguments))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return "", err
	}
	canonical, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return base64.RawURLEncoding.EncodeToString(sum[:16]), nil
}

func plainTag(salt []byte) []byte {
	h := sha256.New()
	_, _ = h.Write(salt)
	_, _ = h.Write([]byte(principal))
	return h.Sum(nil)[:16]
}
