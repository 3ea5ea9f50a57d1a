package keyset_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/keyset"
)

var start = time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC)

func at(d time.Duration) keyset.Note { return keyset.Note{At: start.Add(d), Actor: "test"} }

func initKeyset(t testing.TB, s keyset.Services) (*keyset.Document, *keyset.AuthKey) {
	t.Helper()
	d, auth, err := keyset.Init(t.Context(), s, keyset.InitOptions{Name: "fleet", Note: at(0)})
	if err != nil {
		t.Fatal(err)
	}
	return d, auth
}

func TestWholeRotationThroughItsText(t *testing.T) {
	s := keyset.Services{memkek.New("a")}
	d, auth := initKeyset(t, s)
	old := d.Primary().KID
	save := func(move func(d *keyset.Document) error) {
		t.Helper()
		next := d.Next()
		if err := move(next); err != nil {
			t.Fatal(err)
		}
		text, err := auth.Encode(next)
		if err != nil {
			t.Fatal(err)
		}
		source := keyset.SourceFunc(func(context.Context) ([]byte, error) { return text, nil })
		var err2 error
		if d, _, _, err2 = keyset.Load(t.Context(), source, s, "fleet"); err2 != nil {
			t.Fatalf("%v\n%s", err2, text)
		}
	}
	fresh, err := d.GenerateKey(t.Context(), s, start)
	if err != nil {
		t.Fatal(err)
	}
	save(func(d *keyset.Document) error { return d.Stage(at(1), fresh) })
	save(func(d *keyset.Document) error { return d.Promote(at(2), fresh.KID) })
	save(func(d *keyset.Document) error { return d.Drain(at(3), old) })
	save(func(d *keyset.Document) error { return d.Retire(at(4), old) })
	if d.Revision != 5 || len(d.Keys) != 1 || d.Primary().KID != fresh.KID || len(d.History) != 5 {
		t.Errorf("%+v", d)
	}
	var move *keyset.MoveError
	if err := d.Revoke(at(5), fresh.KID); !errors.As(err, &move) {
		t.Errorf("the primary is revoked: %v", err)
	}
}

// A document that nobody changes is read, verified, copied and moved on from by many at
// once.
func TestManyReadOneDocument(t *testing.T) {
	auth := goldenAuthKey(t)
	d, err := keyset.Parse(golden())
	must(t, err)
	staged := ""
	for _, k := range d.Keys {
		if k.State == keyset.Staged {
			staged = k.KID
		}
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			next := d.Next()
			if err := errors.Join(auth.Verify(d), next.Promote(at(0), staged), next.SetTTL(at(1), time.Hour), next.Export(at(2), "b", time.Hour)); err != nil {
				t.Error(err)
			}
			next.Auth.Wrapped[0].Ciphertext[0]++
			if text, err := auth.Encode(next); err != nil || len(text) != next.Size() {
				t.Errorf("%d bytes, %v", len(text), err)
			}
			if d.Primary().KID == staged || d.Key(staged).State != keyset.Staged || d.Revision == next.Revision || d.HasUnknownMembers() || d.Policy.At(start).Was != nil {
				t.Error("the document has changed")
			}
		})
	}
	wg.Wait()
	if text, err := auth.Encode(d); err != nil || string(text) != goldenText {
		t.Errorf("the document has changed: %v\n%s", err, text)
	}
}
