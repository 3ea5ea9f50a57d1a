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

// Whoever drained a key by a stamp that was too early has to do it again.
func TestRestampTakesADrainBack(t *testing.T) {
	d, kids, _ := everyState(t)
	old, drained := kids["primary"], kids["drained"]
	before := *d.Key(drained)
	must(t, d.Promote(at(time.Hour), kids["staged"]), d.Drain(at(2*time.Hour), old))
	must(t, d.Restamp(at(time.Minute), kids["staged"])) // which changes nothing
	if k := d.Key(old); !k.Drained.Equal(start.Add(2*time.Hour)) || !k.Demoted.Equal(start.Add(time.Hour)) {
		t.Errorf("by an earlier stamp: %+v", k)
	}
	must(t, d.Restamp(at(3*time.Hour), kids["staged"]))
	if k := d.Key(old); !k.Drained.IsZero() || !k.Demoted.Equal(start.Add(3*time.Hour)) {
		t.Errorf("%+v", k)
	}
	if k := d.Key(drained); !k.Drained.Equal(before.Drained) || !k.Demoted.Equal(before.Demoted) {
		t.Errorf("a key that stepped down at another time: %+v", k)
	}
}
