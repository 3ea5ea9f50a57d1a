package fleet_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/fleet"
)

const (
	lineage = "5c1d7e1e-9e0b-4a55-8a3b-c0ffee15900d"
	awsKey  = "awskms:///arn:aws:kms:eu-west-1:111122223333:key/1234abcd"
)

var noon = time.Date(2026, time.December, 2, 12, 0, 0, 0, time.UTC)

// auth is the authentication key of keyset n.
func auth(n byte) []byte {
	key := make([]byte, 32)
	for i := range key {
		key[i] = byte(i) + 32*n
	}
	return key
}

func mustKey(t testing.TB, n byte) *fleet.Key {
	t.Helper()
	key, err := fleet.NewKey(auth(n))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// report is that of instance n, made at noon, with something in every member.
func report(n int) fleet.Report {
	return fleet.Report{
		ID: id(n), Host: fmt.Sprintf("mcp-%d", n), Started: noon.Add(-time.Hour), Now: noon, Every: 15 * time.Second,
		Keyset: "fleet", Lineage: lineage, Revision: 7, Tag: base64.StdEncoding.EncodeToString(make([]byte, 32)),
		Loaded: noon.Add(-time.Minute), Primary: "4c11d0e2", Verifies: []string{"4c11d0e2", "9f2c61ab"}, TTL: 10 * time.Minute,
		Ready: true, Reason: "77aa0b1c is missing", Services: []string{awsKey},
		Opened:   []fleet.Opened{{KID: "4c11d0e2", Service: awsKey}, {KID: fleet.AuthKey, Service: "gcpkms://projects/p", Version: "3"}},
		Failed:   []fleet.Failure{{KID: "77aa0b1c", Service: awsKey, Kind: "denied", Operation: "kms:Decrypt"}},
		Keys:     []fleet.KeyUse{{KID: "4c11d0e2", Seals: 9_100_000, Since: noon.Add(-time.Hour), LiveUntil: noon.Add(10 * time.Minute)}, {KID: "9f2c61ab", Since: noon}},
		Software: "0.1.0",
	}
}

func id(n int) string { return fmt.Sprintf("%032x", n) }

func sign(t testing.TB, key *fleet.Key, r fleet.Report) []byte {
	t.Helper()
	signed, err := key.Sign(r)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// wantErr checks that err is of the class want, on one line, and says each of words.
func wantErr(t testing.TB, what string, err, want error, words ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %q does not say %q", what, err, word)
		}
	}
	if strings.ContainsAny(err.Error(), "\r\n") {
		t.Errorf("%s: the error %q is not one line", what, err)
	}
}
