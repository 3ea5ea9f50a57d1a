package keyset_test

import (
	"errors"
	"testing"
	"time"

	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/keyset"
)

func TestRestamp(t *testing.T) {
	s := keyset.Services{memkek.New("a")}
	d, _ := initKeyset(t, s)
	old := d.Primary().KID
	fresh, err := d.GenerateKey(t.Context(), s, start)
	if err != nil {
		t.Fatal(err)
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(d.Stage(at(time.Minute), fresh))
	do(d.Restamp(at(2*time.Minute), fresh.KID))
	do(d.Restamp(at(time.Second), fresh.KID))
	if got := d.Key(fresh.KID).Staged; !got.Equal(start.Add(2 * time.Minute)) {
		t.Errorf("staged %v", got)
	}
	do(d.Promote(at(3*time.Minute), fresh.KID))
	do(d.Restamp(at(4*time.Minute), fresh.KID))
	want := start.Add(4 * time.Minute)
	if up, down := d.Key(fresh.KID), d.Key(old); !up.Promoted.Equal(want) || !down.Demoted.Equal(want) || !down.Drained.IsZero() {
		t.Errorf("%+v %+v", up, down)
	}
	var move *keyset.MoveError
	if err := d.Restamp(at(time.Hour), old); !errors.As(err, &move) || move.From != keyset.Retiring {
		t.Errorf("a retiring key: %v", err)
	}
	if err := d.Restamp(at(time.Hour), "00000000"); !errors.As(err, &move) || move.From != "" {
		t.Errorf("no such key: %v", err)
	}
	if last := d.History[len(d.History)-1]; last.Action != "restamp" || last.KID != fresh.KID {
		t.Errorf("%+v", last)
	}
}
