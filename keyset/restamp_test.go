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

// Former values count from a change of the policy, so it is dated anew as a key's move is.
func TestRestampPolicy(t *testing.T) {
	s := keyset.Services{memkek.New("a")}
	d, _ := initKeyset(t, s)
	if err := d.Restamp(at(time.Minute), ""); err == nil {
		t.Error("a policy that was never changed was dated anew")
	}
	p := d.Policy
	old := p.Settle + p.MaxStale + p.MaxSkew
	p.Settle = time.Second
	must(t, d.SetPolicy(at(time.Hour), p))
	before := d.Clone()
	for _, step := range []struct{ at, from time.Duration }{
		{time.Hour + 90*time.Second, time.Hour + 90*time.Second},
		{time.Hour + 30*time.Second, time.Hour + 90*time.Second}, // an earlier stamp changes nothing
	} {
		must(t, d.Restamp(at(step.at), ""))
		if got, want := d.Policy.Was.Until, start.Add(step.from+old); !got.Equal(want) {
			t.Errorf("restamped at %v the former values count until %v, want %v", step.at, got, want)
		}
	}
	if got, want := before.Policy.Was.Until, start.Add(time.Hour+old); !got.Equal(want) {
		t.Errorf("a copy has changed: %v", got)
	}
	// Raised again: nothing former is left to count, and the stamp is none of a key's.
	must(t, d.SetPolicy(at(9*time.Hour), keyset.DefaultPolicy()), d.Restamp(at(10*time.Hour), ""))
	if d.Policy.Was != nil {
		t.Errorf("%+v", d.Policy.Was)
	}
}
