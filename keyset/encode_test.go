package keyset_test

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/internal/strict"
	"github.com/echoseal/echoseal/keyset"
)

// Encode, Parse and Encode again give one text, and every member comes back.
func TestEncodeIsStable(t *testing.T) {
	d, _, _ := everyState(t)
	s := keyset.Services{memkek.New("a")}
	secret, err := s.OpenAuth(t.Context(), d)
	must(t, err)
	auth, err := keyset.NewAuthKey(d.Auth.ID, secret)
	must(t, err, d.Export(at(time.Hour), "b", time.Minute), d.SetPolicy(at(time.Hour), policy(5*time.Minute, 2*time.Hour, time.Minute)))
	text, err := auth.Encode(d)
	must(t, err)
	read, err := keyset.Parse(text)
	must(t, err, auth.Verify(read))
	again, err := auth.Encode(read)
	if err != nil || !bytes.Equal(text, again) || !bytes.Equal(d.Tag, read.Tag) || d.Size() != len(text) || read.Size() != len(text) {
		t.Errorf("%v\n%s\n%s", err, text, again)
	}
	if third, err := auth.Encode(d); err != nil || !bytes.Equal(text, third) {
		t.Errorf("an unchanged document is not written as before: %v", err)
	}
}

func TestEncodeRefuses(t *testing.T) {
	auth := goldenAuthKey(t)
	other, err := keyset.NewAuthKey("c8a5f8a3-aaa8-46f2-9685-163fdc8eb010", upFrom(0x21))
	must(t, err)
	third, err := keyset.NewAuthKey("11111111-1111-4111-8111-111111111111", goldenAuth)
	must(t, err)
	for name, c := range map[string]struct {
		auth   *keyset.AuthKey
		change func(*keyset.Document)
		says   string
		is     error
	}{
		"nothing is wrong":          {auth, func(*keyset.Document) {}, "", nil},
		"the key of another secret": {other, func(*keyset.Document) {}, "", keyset.ErrTag},
		"the key of another id":     {third, func(*keyset.Document) {}, "has the auth key c8a5f8a3", nil},
		"no key":                    {&keyset.AuthKey{}, func(*keyset.Document) {}, "has the auth key c8a5f8a3", nil},
		"another tag":               {auth, func(d *keyset.Document) { d.Tag[0] ^= 1 }, "", keyset.ErrTag},
		"no tag":                    {auth, func(d *keyset.Document) { d.Tag = nil }, "", keyset.ErrTag},
		"another name":              {auth, func(d *keyset.Document) { d.Name = "sales" }, "was read as billing: the name and the lineage of a keyset never change", nil},
		"another lineage":           {auth, func(d *keyset.Document) { d.Lineage = d.Keys[0].ID }, "never change", nil},
		"a lower revision":          {auth, func(d *keyset.Document) { d.Revision-- }, "a revision only grows", nil},
		"changed at one revision":   {auth, func(d *keyset.Document) { must(t, d.Record(at(0), "x")) }, "was changed and still has revision 11: change what Next returns", nil},
		"no primary":                {auth, func(d *keyset.Document) { d.Keys = d.Keys[:2] }, "keys: 0 are primary", keyset.ErrDocument},
		"not UTF-8":                 {auth, func(d *keyset.Document) { d.Primary().Wrapped[0].Service = "a\xff" }, "wrapped[0].service", keyset.ErrDocument},
		"a version of a terminal":   {auth, func(d *keyset.Document) { d.Primary().Wrapped[0].Version = "\x1b" }, "wrapped[0].version", keyset.ErrDocument},
		"a year of five digits": {auth, func(d *keyset.Document) {
			d.Revision++
			d.Primary().Promoted = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
		}, "keys[2].promoted: it is not a time", keyset.ErrDocument},
		"a year before 1970": {auth, func(d *keyset.Document) {
			d.Revision++
			d.Primary().Created = time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)
		}, "keys[2].created: it is not a time", keyset.ErrDocument},
		"a revision too high": {auth, func(d *keyset.Document) { d.Revision = 1 << 53 }, "revision: it is not in [1, 2^53)", keyset.ErrDocument},
		"too large": {auth, func(d *keyset.Document) {
			d.Revision++
			d.Primary().Wrapped[0].Ciphertext = make([]byte, keyset.MaxBytes)
		}, "larger than 1048576 bytes", keyset.ErrDocument},
	} {
		d, err := keyset.Parse(golden())
		must(t, err)
		c.change(d)
		tag := bytes.Clone(d.Tag)
		text, err := c.auth.Encode(d)
		if name == "nothing is wrong" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || text != nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || !bytes.Equal(tag, d.Tag) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two changes of one document cannot be told apart by their revision, but by their tag;
// and one after the other needs two revisions.
func TestEncodeAfterEncode(t *testing.T) {
	d, auth := initKeyset(t, keyset.Services{memkek.New("a")})
	_, err := auth.Encode(d)
	must(t, err)
	a, b := d.Next(), d.Next()
	must(t, a.Record(at(1), "a"), b.Record(at(1), "b"))
	_, errA := auth.Encode(a)
	_, errB := auth.Encode(b)
	must(t, errA, errB)
	if a.Revision != 2 || b.Revision != 2 || bytes.Equal(a.Tag, b.Tag) {
		t.Errorf("revisions %d and %d, tags %x and %x", a.Revision, b.Revision, a.Tag, b.Tag)
	}
	must(t, a.Record(at(2), "c"))
	if _, err := auth.Encode(a); err == nil {
		t.Error("a change after it was written is written at the same revision")
	}
	if _, err := auth.Encode(a.Next()); err != nil {
		t.Error(err)
	}
}

func TestAuthKey(t *testing.T) {
	auth := goldenAuthKey(t)
	for _, n := range []int{0, 16, 31, 33, 64} {
		if k, err := keyset.NewAuthKey("x", make([]byte, n)); k != nil || err == nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	same, err := keyset.NewAuthKey(auth.ID(), slices.Clone(goldenAuth))
	must(t, err)
	other, err := keyset.NewAuthKey(auth.ID(), upFrom(0))
	must(t, err)
	third, err := keyset.NewAuthKey("x", goldenAuth)
	must(t, err)
	if !auth.Equal(same) || auth.Equal(other) || auth.Equal(third) || auth.ID() != "c8a5f8a3-aaa8-46f2-9685-163fdc8eb010" {
		t.Error("Equal")
	}
	// It keeps nothing of the secret that it is made of.
	secret := slices.Clone(goldenAuth)
	k, err := keyset.NewAuthKey(auth.ID(), secret)
	must(t, err)
	clear(secret)
	if !k.Equal(auth) {
		t.Error("the key changes with the secret")
	}
}

// Whatever a key is printed with, only its id shows.
func TestAuthKeyPrintsItsIDOnly(t *testing.T) {
	auth := goldenAuthKey(t)
	const want = "keyset.AuthKey(c8a5f8a3-aaa8-46f2-9685-163fdc8eb010)"
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		for _, k := range []any{auth, *auth} {
			if got := fmt.Sprintf(verb, k); got != want {
				t.Errorf("%s: %s", verb, got)
			}
		}
	}
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("x", "key", auth, "value", *auth)
	}
	key, err := hkdf.Key(sha256.New, goldenAuth, nil, "echoseal/keyset/v1/tag", 32)
	must(t, err)
	for _, form := range []string{fmt.Sprint(key), fmt.Sprintf("%x", key), fmt.Sprintf("%X", key), base64.StdEncoding.EncodeToString(key), string(key)} {
		if strings.Contains(log.String(), form) {
			t.Errorf("the key is in the log: %s", log.String())
		}
	}
}

func TestVerify(t *testing.T) {
	auth := goldenAuthKey(t)
	d, err := keyset.Parse(golden())
	must(t, err, auth.Verify(d), auth.Verify(d.Clone()))
	other, err := keyset.NewAuthKey(auth.ID(), upFrom(1))
	must(t, err)
	third, err := keyset.NewAuthKey("x", goldenAuth)
	must(t, err)
	for _, k := range []*keyset.AuthKey{other, third, {}} {
		if err := k.Verify(d); !errors.Is(err, keyset.ErrTag) {
			t.Errorf("%v: %v", k, err)
		}
	}
	for _, d := range []*keyset.Document{{}, {Tag: d.Tag}, {Auth: d.Auth, Tag: d.Tag}} {
		if err := auth.Verify(d); !errors.Is(err, keyset.ErrTag) {
			t.Errorf("a document that was never read: %v", err)
		}
	}
	// Space and the order of members are not under the tag; escapes and letters are one text.
	v, err := strict.Parse(golden())
	must(t, err)
	dense, err := keyset.Parse(strict.Append(nil, v))
	must(t, err, auth.Verify(dense))
	if !bytes.Equal(dense.Tag, d.Tag) {
		t.Error("another tag")
	}
}
