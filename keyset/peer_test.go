package keyset_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

func TestExportAndConfirm(t *testing.T) {
	d, kids, _ := everyState(t)
	must(t, d.Export(at(time.Hour), "python-a", 30*time.Minute))
	want := []string{kids["drained"], kids["retiring"], kids["primary"], kids["staged"]}
	p := d.Peers[0]
	slices.Sort(want)
	got := slices.Sorted(slices.Values(p.KIDs))
	if p.Name != "python-a" || !slices.Equal(got, want) || p.Primary != kids["primary"] || p.Confirmed || p.TTL != 30*time.Minute {
		t.Errorf("%+v", p)
	}
	for _, state := range []string{"drained", "retiring", "primary", "staged"} {
		if ttl := d.Key(kids[state]).MaxTTL; ttl != 30*time.Minute {
			t.Errorf("the %s key: %v", state, ttl)
		}
	}
	must(t, d.Confirm(at(2*time.Hour), "python-a"))
	if !d.Peers[0].Confirmed {
		t.Error("it is not confirmed")
	}

	// What is exported later has to be confirmed anew; the longer life counts on.
	must(t, d.Promote(at(3*time.Hour), kids["staged"]), d.Export(at(3*time.Hour), "python-a", time.Minute))
	if p := d.Peers[0]; len(d.Peers) != 1 || p.Confirmed || p.Primary != kids["staged"] || p.TTL != 30*time.Minute {
		t.Errorf("%+v", d.Peers)
	}
	// What a peer holds counts for a key that comes later, too, until it is forgotten.
	keys := newKeys(t, d, 2)
	must(t, d.Stage(at(4*time.Hour), keys[0]))
	if ttl := d.Key(keys[0].KID).MaxTTL; ttl != 30*time.Minute {
		t.Errorf("a new key: %v", ttl)
	}
	must(t, d.ForgetPeer(at(5*time.Hour), "python-a"), d.Abort(at(5*time.Hour), keys[0].KID), d.Stage(at(5*time.Hour), keys[1]))
	if ttl := d.Key(keys[1].KID).MaxTTL; ttl != 10*time.Minute || len(d.Peers) != 0 {
		t.Errorf("a new key after the peer: %v", ttl)
	}
	if ttl := d.Primary().MaxTTL; ttl != 30*time.Minute {
		t.Errorf("a key that the peer had: %v", ttl)
	}
	var actions []string
	for _, e := range d.History[len(d.History)-8:] {
		actions = append(actions, e.Action)
	}
	if got := strings.Join(actions, " "); got != "export confirm promote export stage forget abort stage" {
		t.Error(got)
	}
}

func TestPeersRefuse(t *testing.T) {
	d, _, _ := everyState(t)
	must(t, d.Export(at(0), "a", time.Minute))
	before := d.Clone()
	for what, move := range map[string]func() error{
		"a name that is none":      func() error { return d.Export(at(0), "Python A", time.Minute) },
		"no name":                  func() error { return d.Export(at(0), "", time.Minute) },
		"no time to live":          func() error { return d.Export(at(0), "b", 0) },
		"too long a time to live":  func() error { return d.Export(at(0), "b", 100_000*time.Hour) },
		"no time":                  func() error { return d.Export(keyset.Note{}, "b", time.Minute) },
		"confirming nobody":        func() error { return d.Confirm(at(0), "b") },
		"confirming a strange one": func() error { return d.Confirm(at(0), "\x1b[2J"+strings.Repeat("x", 1000)) },
		"forgetting nobody":        func() error { return d.ForgetPeer(at(0), "b") },
	} {
		if err := move(); err == nil || !reflect.DeepEqual(d, before) || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 300 {
			t.Errorf("%s: %v", what, err)
		}
	}
}
