package local

import (
	"bytes"
	"testing"
	"time"
)

var noExpiry time.Time

func secret(n byte) []byte { return bytes.Repeat([]byte{n}, minSecret) }

func mustKey(t testing.TB, secret []byte) *Key {
	t.Helper()
	k, err := NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func mustRing(t testing.TB, secrets ...[]byte) *Ring {
	t.Helper()
	ring, err := New(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func mustSeal(t testing.TB, ring *Ring) string {
	t.Helper()
	token, err := ring.Seal([]byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	return token
}
