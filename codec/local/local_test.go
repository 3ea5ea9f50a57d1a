package local

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/fips140"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/codectest"
	"github.com/echoseal/echoseal/internal/vectors"
)

func TestRingConforms(t *testing.T) {
	codectest.Run(t, func(testing.TB) codec.Codec { return Ephemeral() })
}

func TestKeysAreThoseOfPython(t *testing.T) {
	v := vectors.Read[vectors.Tokens](t)
	for _, want := range v.Keys {
		secret := v.Secrets[want.Secret].Bytes()
		k, err := NewKey(secret)
		if err != nil {
			t.Fatal(err)
		}
		if k.KID() != hex.EncodeToString(want.KID) {
			t.Errorf("secret %d: key id %s, want %x", want.Secret, k.KID(), want.KID)
		}
		derived, err := hkdf.Key(sha256.New, secret, nil, keyInfo, 32)
		if err != nil || !bytes.Equal(derived, want.Key) {
			t.Errorf("secret %d: another key is derived (%v)", want.Secret, err)
		}
	}
}

// Sealing under the nonce of a vector gives the very token. The ring's own AEAD draws
// its nonce, so the ciphertext is made beside it, from the ring's key, key id and
// additional data.
func TestSealsWhatPythonSeals(t *testing.T) {
	v := vectors.Read[vectors.Tokens](t)
	seal := func(secret int, nonce, payload []byte) (token string) {
		k, err := NewKey(v.Secrets[secret].Bytes())
		if err != nil {
			t.Fatal(err)
		}
		fips140.WithoutEnforcement(func() {
			block, err := aes.NewCipher(v.Keys[secret].Key)
			if err != nil {
				t.Fatal(err)
			}
			aead, err := cipher.NewGCM(block)
			if err != nil {
				t.Fatal(err)
			}
			body := append(bytes.Clone(k.kid[:]), nonce...)
			token = prefix + base64.RawURLEncoding.EncodeToString(aead.Seal(body, nonce, payload, k.aad))
		})
		return token
	}
	for i, want := range v.Seal {
		if got := seal(want.Secret, want.Nonce, want.Payload); got != want.Token {
			t.Errorf("seal %d = %s, want %s", i, got, want.Token)
		}
		ring := mustRing(t, v.Secrets[want.Secret].Bytes())
		if got, err := ring.Unseal(want.Token); err != nil || !bytes.Equal(got, want.Payload) {
			t.Errorf("seal %d comes back as %q, %v", i, got, err)
		}
	}
	for i, want := range vectors.Read[vectors.Claims](t).Mint {
		if got := seal(want.Policy.Ring[0], want.Nonce, []byte(want.Payload)); got != string(want.Token) {
			t.Errorf("mint %d = %s, want %s", i, got, want.Token)
		}
	}
}

func TestUnsealsWhatPythonUnseals(t *testing.T) {
	v := vectors.Read[vectors.Tokens](t)
	reasons := map[string]codec.Reason{"malformed": codec.Malformed, "unknown key": codec.UnknownKey, "seal": codec.BadSeal}
	for _, want := range v.Unseal {
		got, err := mustRing(t, v.Ring(want.Ring)...).Unseal(string(want.Token))
		if want.Reason == "" {
			if err != nil || !bytes.Equal(got, want.Payload) {
				t.Errorf("%s: %q, %v; want %q", want.Name, got, err, want.Payload)
			}
			continue
		}
		if !errors.Is(err, reasons[want.Reason]) || !errors.Is(err, codec.ErrInvalid) || got != nil {
			t.Errorf("%s: %q, %v; want %s", want.Name, got, err, want.Reason)
		}
	}
}

// The behaviours of the Python SDK's ring, by their names.

func TestFirstKeySealsTheOthersOnlyVerify(t *testing.T) {
	older, newer := secret(1), secret(2)
	first := mustRing(t, older)
	both := mustRing(t, newer, older)
	token := mustSeal(t, both)
	if kid := mustRing(t, newer).first.KID(); both.KID(token) != kid {
		t.Errorf("sealed under %s, want the first key %s", both.KID(token), kid)
	}
	if _, err := first.Unseal(token); !errors.Is(err, codec.UnknownKey) {
		t.Errorf("the older ring opens a token under the newer key: %v", err)
	}
	for _, ring := range []*Ring{mustRing(t, newer, older), mustRing(t, older, newer)} {
		if _, err := ring.Unseal(mustSeal(t, first)); err != nil {
			t.Errorf("a token under the older key: %v", err)
		}
	}
}

func TestTokenUnderRetiredKeyIsRefused(t *testing.T) {
	token := mustSeal(t, mustRing(t, secret(1)))
	_, err := mustRing(t, secret(2)).Unseal(token)
	var invalid *codec.InvalidError
	if !errors.As(err, &invalid) || invalid.Reason != codec.UnknownKey || invalid.KID != mustRing(t, secret(1)).first.KID() {
		t.Errorf("%v", err)
	}
}

func TestKeyIDMovedOntoAnotherBodyIsRefused(t *testing.T) {
	ring := mustRing(t, secret(1), secret(2))
	a, b := mustSeal(t, ring), mustSeal(t, mustRing(t, secret(2)))
	x, _ := base64.RawURLEncoding.DecodeString(a[len(prefix):])
	y, _ := base64.RawURLEncoding.DecodeString(b[len(prefix):])
	moved := prefix + base64.RawURLEncoding.EncodeToString(append(y[:kidSize:kidSize], x[kidSize:]...))
	if _, err := ring.Unseal(moved); !errors.Is(err, codec.BadSeal) {
		t.Errorf("%v", err)
	}
}

func TestConstructorErrors(t *testing.T) {
	clash := func() error {
		a, b := mustKey(t, secret(1)), mustKey(t, secret(2))
		b.kid, b.text = a.kid, a.text
		_, err := NewRing(mustKey(t, secret(3)), a, b)
		return err
	}
	ring := func(secrets ...[]byte) error { _, err := New(secrets...); return err }
	keys := func(keys ...*Key) error { _, err := NewRing(keys...); return err }
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"no secret":        {ring(), []string{"at least one secret"}},
		"no key":           {keys(), []string{"at least one key"}},
		"too short":        {ring(secret(1), make([]byte, 31)), []string{"secret 1", "31 bytes", "openssl rand -hex 32"}},
		"empty":            {ring(nil), []string{"secret 0", "0 bytes"}},
		"twice":            {ring(secret(1), secret(2), secret(1)), []string{"secret 2 is the same as secret 0"}},
		"key twice":        {keys(mustKey(t, secret(1)), mustKey(t, secret(1))), []string{"key 1 is the same as key 0"}},
		"same key id":      {clash(), []string{"key 2 and key 1 differ", "same key id", mustKey(t, secret(1)).KID()}},
		"no key, but nil":  {keys(mustKey(t, secret(1)), nil), []string{"key 1", "NewKey"}},
		"no key, but zero": {keys(new(Key)), []string{"key 0", "NewKey"}},
	} {
		if !errors.Is(c.err, codec.ErrConfig) {
			t.Errorf("%s: %v is not ErrConfig", name, c.err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(c.err.Error(), want) {
				t.Errorf("%s: %v; want %q in it", name, c.err, want)
			}
		}
	}
}

func TestSecretIsCopied(t *testing.T) {
	s := secret(1)
	ring := mustRing(t, s)
	token := mustSeal(t, ring)
	clear(s)
	if _, err := ring.Unseal(token); err != nil {
		t.Error(err)
	}
	if _, err := mustRing(t, secret(1)).Unseal(mustSeal(t, ring)); err != nil {
		t.Error(err)
	}
}

func TestEphemeralRingsDoNotUnderstandEachOther(t *testing.T) {
	if _, err := Ephemeral().Unseal(mustSeal(t, Ephemeral())); !errors.Is(err, codec.UnknownKey) {
		t.Error(err)
	}
}

func TestTokenHasTheDocumentedSize(t *testing.T) {
	ring := Ephemeral()
	for _, n := range []int{0, 1, 2, 3, 100, 65536} {
		token, err := ring.Seal(make([]byte, n))
		if err != nil {
			t.Fatal(err)
		}
		body, err := base64.RawURLEncoding.DecodeString(token[len(prefix):])
		if err != nil || len(body) != kidSize+nonceSize+n+tagSize || !strings.HasPrefix(token, prefix) || strings.Contains(token, "=") {
			t.Errorf("a payload of %d bytes: %d bytes, %v", n, len(body), err)
		}
	}
}

func TestPayloadIsNotInTheToken(t *testing.T) {
	payload := []byte("this is the payload that nobody may read")
	token, err := Ephemeral().Seal(payload)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := base64.RawURLEncoding.DecodeString(token[len(prefix):])
	for _, form := range []string{string(payload), hex.EncodeToString(payload), base64.RawURLEncoding.EncodeToString(payload)} {
		if strings.Contains(token, form) || strings.Contains(string(body), form) {
			t.Errorf("%q is in the token", form)
		}
	}
}

func TestKeyIDIsReadFromTheText(t *testing.T) {
	ring := Ephemeral()
	token := mustSeal(t, ring)
	kid := ring.first.KID()
	for text, want := range map[string]string{
		token:                                 kid,
		token + "A":                           kid, // not a token, but the key id is there
		mustSeal(t, mustRing(t, secret(9))):   mustKey(t, secret(9)).KID(),
		"":                                    "",
		"v1.":                                 "",
		token[:20]:                            "",
		"v2." + token[len(prefix):]:           "",
		"v1.\n" + token[len(prefix):]:         "",
		"v1.!" + token[len(prefix)+1:]:        "",
		"v1.{\"a\":1}." + token[len(prefix):]: "",
	} {
		if got := ring.KID(text); got != want {
			t.Errorf("KID(%.20q) = %q, want %q", text, got, want)
		}
	}
}

func TestRingStopsAtTheSealLimit(t *testing.T) {
	ring := Ephemeral()
	ring.seals.Store(maxSeals - 1)
	token := mustSeal(t, ring)
	for range 3 {
		if _, err := ring.Seal(nil); err == nil || errors.Is(err, codec.ErrInvalid) || !strings.Contains(err.Error(), "2^32") {
			t.Errorf("seal beyond the limit: %v", err)
		}
	}
	if _, err := ring.Unseal(token); err != nil {
		t.Errorf("it still unseals: %v", err)
	}
}

func TestWhatIsNoRingSaysSo(t *testing.T) {
	for _, ring := range []*Ring{nil, {}} {
		if token, err := ring.Seal(nil); token != "" || !errors.Is(err, codec.ErrConfig) {
			t.Errorf("Seal = %q, %v", token, err)
		}
		if payload, err := ring.Unseal(mustSeal(t, Ephemeral())); payload != nil || !errors.Is(err, codec.ErrConfig) || errors.Is(err, codec.ErrInvalid) {
			t.Errorf("Unseal = %q, %v", payload, err)
		}
	}
}

func TestNothingPrintsAKey(t *testing.T) {
	ring := mustRing(t, secret(1))
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "ring", ring, "key", ring.first, "value", *ring.first)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "ring", ring, "key", ring.first, "value", *ring.first)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		fmt.Fprintf(&log, verb+verb+verb+verb, ring, *ring.first, ring.first, struct{ K Key }{*ring.first})
	}
	derived, _ := hkdf.Key(sha256.New, secret(1), nil, keyInfo, 32)
	for _, canary := range []string{string(derived), hex.EncodeToString(derived), fmt.Sprint(derived)[1:60], fmt.Sprintf("%#v", derived)[7:60], hex.EncodeToString(ring.first.mark[:])} {
		if strings.Contains(log.String(), canary) {
			t.Errorf("a key is in %s", log.String())
		}
	}
	if !strings.Contains(log.String(), ring.first.KID()) {
		t.Errorf("the key id is not in %s", log.String())
	}
}

func FuzzUnseal(f *testing.F) {
	// Fuzzing runs in several processes, so the one good token is a fixed one.
	v := vectors.Read[vectors.Tokens](f)
	ring := mustRing(f, v.Secrets[v.Seal[2].Secret].Bytes())
	token := v.Seal[2].Token
	if _, err := ring.Unseal(token); err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{token, "", "v1.", token + "\n", token[:40], "v1." + strings.Repeat("A", 43), "v1.\r\n" + token[3:]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ring.KID(s)
		payload, err := ring.Unseal(s)
		if err != nil {
			if !errors.Is(err, codec.ErrInvalid) || payload != nil {
				t.Fatalf("%q: %q, %v", s, payload, err)
			}
			return
		}
		if s != token {
			t.Fatalf("%q opens, which this ring never sealed", s)
		}
	})
}
