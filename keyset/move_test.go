package keyset_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/keyset"
)

// newKeys returns keys for Stage. They are made before a test that needs many, since each
// one is wrapped and unwrapped.
func newKeys(t testing.TB, d *keyset.Document, n int) []keyset.Key {
	t.Helper()
	s := keyset.Services{memkek.New("a")}
	keys := make([]keyset.Key, n)
	for i := range keys {
		var err error
		if keys[i], err = d.GenerateKey(t.Context(), s, start); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// must is for moves that a test only needs to get where it begins.
func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// everyState returns a keyset with a key in each state, and their key ids by its name. The
// key "new" is not in it.
func everyState(t testing.TB) (d *keyset.Document, kids map[string]string, fresh keyset.Key) {
	t.Helper()
	d, _ = initKeyset(t, keyset.Services{memkek.New("a")})
	keys := newKeys(t, d, 6)
	kids = map[string]string{"drained": d.Primary().KID, "retiring": keys[0].KID, "primary": keys[1].KID, "staged": keys[2].KID, "revoked": keys[3].KID, "gone": keys[4].KID, "new": keys[5].KID}
	must(t,
		d.Stage(at(1*time.Minute), keys[0]), d.Promote(at(2*time.Minute), keys[0].KID), d.Drain(at(3*time.Minute), kids["drained"]),
		d.Stage(at(4*time.Minute), keys[1]), d.Promote(at(5*time.Minute), keys[1].KID),
		d.Stage(at(6*time.Minute), keys[3]), d.Revoke(at(7*time.Minute), keys[3].KID),
		d.Stage(at(8*time.Minute), keys[4]), d.Abort(at(9*time.Minute), keys[4].KID),
		d.Stage(at(10*time.Minute), keys[2]))
	return d, kids, keys[5]
}

// Each move from each state: those that there are, and no other.
func TestMovesFromEachState(t *testing.T) {
	moves := map[string]struct {
		move func(*keyset.Document, keyset.Note, string) error
		from map[string]string // to which state
		to   string            // as the error has it
	}{
		"promote":  {(*keyset.Document).Promote, map[string]string{"staged": "primary"}, "primary"},
		"rollback": {(*keyset.Document).Rollback, map[string]string{"retiring": "primary", "drained": "primary"}, "primary"},
		"drain":    {(*keyset.Document).Drain, map[string]string{"retiring": "retiring"}, "drained"},
		"retire":   {(*keyset.Document).Retire, map[string]string{"retiring": "", "drained": ""}, "gone"},
		"abort":    {(*keyset.Document).Abort, map[string]string{"staged": ""}, "gone"},
		"revoke":   {(*keyset.Document).Revoke, map[string]string{"staged": "revoked", "retiring": "revoked", "drained": "revoked"}, "revoked"},
		"stage": {func(d *keyset.Document, n keyset.Note, kid string) error {
			k := d.Key(kid)
			if k == nil {
				k = &keyset.Key{KID: kid, State: "lost"}
			}
			return d.Stage(n, *k)
		}, nil, "staged"},
	}
	for name, m := range moves {
		for _, state := range []string{"staged", "primary", "retiring", "drained", "revoked", "gone", "new"} {
			d, kids, _ := everyState(t)
			before := d.Clone()
			kid := kids[state]
			err := m.move(d, at(time.Hour), kid)
			want, may := m.from[state]
			if !may {
				var move *keyset.MoveError
				if !errors.As(err, &move) || move.KID != kid || move.To != m.to {
					t.Errorf("%s a %s key: %v", name, state, err)
					continue
				}
				// Both states are named, where there are two.
				from := strings.NewReplacer("drained", "retiring", "gone", "no such key", "new", "no such key").Replace(state)
				if name == "drain" && state == "drained" {
					from = "drained"
				}
				if text := err.Error(); name != "stage" && (!strings.Contains(text, from) || !strings.Contains(text, m.to)) || !strings.Contains(text, kid) {
					t.Errorf("%s a %s key: %s", name, state, text)
				}
				if !reflect.DeepEqual(d, before) {
					t.Errorf("%s a %s key is refused and changes the keyset", name, state)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s a %s key: %v", name, state, err)
				continue
			}
			got := ""
			if k := d.Key(kid); k != nil {
				got = string(k.State)
			}
			if last := d.History[len(d.History)-1]; got != want || last.Action != name || last.KID != kid || !last.At.Equal(start.Add(time.Hour)) || last.Actor != "test" {
				t.Errorf("%s a %s key: it is %q, noted as %+v", name, state, got, last)
			}
			if len(d.History) != len(before.History)+1 || d.Revision != before.Revision {
				t.Errorf("%s: %d lines of history, revision %d", name, len(d.History), d.Revision)
			}
			// The other keys are as they were, but for the primary when another steps up.
			for _, k := range before.Keys {
				stepsDown := k.State == keyset.Primary && want == "primary"
				if k.KID != kid && !stepsDown && !reflect.DeepEqual(*d.Key(k.KID), k) {
					t.Errorf("%s a %s key changes key %s", name, state, k.KID)
				}
			}
		}
	}
}

// Promote and Rollback set and clear the stamps of both keys.
func TestStepUpStamps(t *testing.T) {
	for name, c := range map[string]struct {
		move func(*keyset.Document, keyset.Note, string) error
		from string
	}{
		"promote":                   {(*keyset.Document).Promote, "staged"},
		"rollback":                  {(*keyset.Document).Rollback, "retiring"},
		"rollback to a drained key": {(*keyset.Document).Rollback, "drained"},
	} {
		d, kids, _ := everyState(t)
		staged := d.Key(kids[c.from]).Staged
		must(t, c.move(d, at(time.Hour+time.Nanosecond), kids[c.from]))
		when := start.Add(time.Hour + time.Millisecond)
		up, down := d.Primary(), d.Key(kids["primary"])
		if up.KID != kids[c.from] || !up.Promoted.Equal(when) || !up.Demoted.IsZero() || !up.Drained.IsZero() || !up.Staged.Equal(staged) {
			t.Errorf("%s: up %+v", name, up)
		}
		if down.State != keyset.Retiring || !down.Demoted.Equal(when) || !down.Drained.IsZero() || !down.Promoted.Equal(start.Add(5*time.Minute)) {
			t.Errorf("%s: down %+v", name, down)
		}
	}
	// There and back: what was drained then has to be drained anew.
	d, kids, _ := everyState(t)
	must(t, d.Rollback(at(time.Hour), kids["drained"]), d.Rollback(at(2*time.Hour), kids["primary"]))
	if k := d.Key(kids["drained"]); k.State != keyset.Retiring || !k.Drained.IsZero() || !k.Demoted.Equal(start.Add(2*time.Hour)) {
		t.Errorf("%+v", k)
	}
}

// A drain is dated as every stamp is, rounded up: a key that goes by it goes no sooner.
func TestDrainStamp(t *testing.T) {
	d, kids, _ := everyState(t)
	must(t, d.Drain(at(time.Hour+time.Nanosecond), kids["retiring"]))
	if k := d.Key(kids["retiring"]); !k.Drained.Equal(start.Add(time.Hour+time.Millisecond)) || !k.Demoted.Equal(start.Add(5*time.Minute)) {
		t.Errorf("%+v", k)
	}
}

func TestStage(t *testing.T) {
	d, kids, fresh := everyState(t)
	var move *keyset.MoveError
	if err := d.Stage(at(time.Hour), fresh); !errors.As(err, &move) || !strings.Contains(err.Error(), "key "+kids["staged"]+" is staged: promote or abort it first") {
		t.Errorf("a second staged key: %v", err)
	}
	must(t, d.Abort(at(time.Hour), kids["staged"]))
	for _, state := range []string{"primary", "retiring", "drained", "revoked", "gone", "staged"} {
		k := fresh
		k.KID = kids[state]
		if err := d.Stage(at(time.Hour), k); !errors.As(err, &move) || !strings.Contains(err.Error(), "of that id before") {
			t.Errorf("the key id of a %s key: %v", state, err)
		}
	}
	// A key is known by the keyset, too, when the history has forgotten it.
	old := d.Clone()
	for i := range 60 {
		must(t, old.Record(at(time.Hour+time.Duration(i)), "look"))
	}
	for _, state := range []string{"primary", "retiring", "drained", "revoked"} {
		k := fresh
		k.KID = kids[state]
		if err := old.Stage(at(2*time.Hour), k); !errors.As(err, &move) || !strings.Contains(err.Error(), "of that id before") {
			t.Errorf("the key id of a %s key that the history has forgotten: %v", state, err)
		}
	}
	for name, spoil := range map[string]func(*keyset.Key){
		"no wrapping":            func(k *keyset.Key) { k.Wrapped = nil },
		"no format":              func(k *keyset.Key) { k.Format = "" },
		"no creation":            func(k *keyset.Key) { k.Created = time.Time{} },
		"the id of auth":         func(k *keyset.Key) { k.ID = d.Auth.ID },
		"the id of another":      func(k *keyset.Key) { k.ID = d.Primary().ID },
		"an id of another form":  func(k *keyset.Key) { k.ID = "7" },
		"a kid of another form":  func(k *keyset.Key) { k.KID = "ABCDEF01" },
		"it was primary already": func(k *keyset.Key) { k.State = keyset.Primary },
	} {
		k, before := fresh, d.Clone()
		spoil(&k)
		if err := d.Stage(at(time.Hour), k); err == nil || !reflect.DeepEqual(d, before) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What Stage does not take from the key.
	k := fresh
	k.MaxTTL, k.Promoted, k.Drained, k.Reason, k.Created = 1000*time.Hour, start, start, "x", start.Add(1)
	must(t, d.Stage(at(time.Hour+1), k))
	got := d.Key(k.KID)
	if got.State != keyset.Staged || got.MaxTTL != d.TTL || !got.Staged.Equal(start.Add(time.Hour+time.Millisecond)) || !got.Created.Equal(start.Add(time.Millisecond)) ||
		!got.Promoted.IsZero() || !got.Drained.IsZero() || got.Reason != "" {
		t.Errorf("%+v", got)
	}
	k.Wrapped[0].Ciphertext[0] ^= 1
	if bytes.Equal(got.Wrapped[0].Ciphertext, k.Wrapped[0].Ciphertext) {
		t.Error("the keyset holds the caller's slice")
	}
}

func TestRevokeLeavesATombstone(t *testing.T) {
	d, kids, _ := everyState(t)
	before := *d.Key(kids["retiring"])
	note := at(time.Hour)
	note.Reason = "seen in a log"
	must(t, d.Revoke(note, kids["retiring"]))
	k := d.Key(kids["retiring"])
	if k.Unseals() || k.ID != before.ID || !k.Created.Equal(before.Created) || !k.Promoted.Equal(before.Promoted) || k.Wrapped != nil || k.Reason != "seen in a log" || !k.Revoked.Equal(start.Add(time.Hour)) {
		t.Errorf("%+v", k)
	}
	err := d.Revoke(at(time.Hour), kids["primary"])
	if err == nil || !strings.Contains(err.Error(), "cannot become revoked: it is primary; make another key primary first") {
		t.Errorf("the primary: %v", err)
	}
	// In one revision: another key first.
	must(t, d.Promote(at(2*time.Hour), kids["staged"]), d.Revoke(at(2*time.Hour), kids["primary"]))
	if d.Primary().KID != kids["staged"] || d.Key(kids["primary"]).Unseals() {
		t.Errorf("%+v", d.Keys)
	}
}

// The newest 64 tombstones stay, and of the others those that are not older than 90 days.
func TestTombstones(t *testing.T) {
	const day = 24 * time.Hour
	d, _ := initKeyset(t, keyset.Services{memkek.New("a")})
	keys := newKeys(t, d, 72)
	revoke := func(i int, after time.Duration) {
		t.Helper()
		must(t, d.Stage(at(after), keys[i]), d.Revoke(at(after), keys[i].KID))
	}
	for i := range 70 {
		revoke(i, time.Duration(i)*time.Hour)
	}
	if n := len(d.Keys); n != 71 {
		t.Fatalf("%d keys, and none is older than 90 days", n)
	}
	// 71 of them, of which 7 are not among the newest 64. Two of those are older than 90
	// days then; the third is exactly that old.
	revoke(70, 90*day+2*time.Hour)
	for i, k := range keys[:71] {
		if there := d.Key(k.KID) != nil; there != (i >= 2) {
			t.Errorf("tombstone %d: %v", i, there)
		}
	}
	revoke(71, 1000*day)
	if n := len(d.Keys); n != 65 || d.Key(keys[71].KID) == nil || d.Key(keys[8].KID) == nil || d.Key(keys[7].KID) != nil {
		t.Errorf("%d keys", n)
	}
}

func TestHistoryKeepsTheNewest(t *testing.T) {
	d, _ := initKeyset(t, keyset.Services{memkek.New("a")})
	for i := range 60 {
		must(t, d.Record(at(time.Duration(i+1)*time.Second), "look"))
	}
	if n := len(d.History); n != 50 || !d.History[49].At.Equal(start.Add(60*time.Second)) || !d.History[0].At.Equal(start.Add(11*time.Second)) {
		t.Errorf("%d lines from %v", n, d.History[0].At)
	}
}

func TestNotesAreChecked(t *testing.T) {
	d, _ := initKeyset(t, keyset.Services{memkek.New("a")})
	before := d.Clone()
	for _, c := range []struct {
		note keyset.Note
		says string
	}{
		{keyset.Note{}, "the time at which it is made"},
		{keyset.Note{At: start, Actor: strings.Repeat("x", 201)}, "actor: it is longer than 200 bytes"},
		{keyset.Note{At: start, Actor: "a\nb"}, "actor: it is longer than 200 bytes or has a control character"},
		{keyset.Note{At: start, Reason: "\xff"}, "reason: "},
		{keyset.Note{At: start, Reason: "\u202e"}, "reason: "},
	} {
		if err := d.SetTTL(c.note, time.Hour); err == nil || !strings.Contains(err.Error(), c.says) || !reflect.DeepEqual(d, before) {
			t.Errorf("%+v: %v", c.note, err)
		}
	}
	if err := d.Record(at(0), strings.Repeat("x", 33)); err == nil {
		t.Error("an action of 33 bytes is recorded")
	}
	if err := d.Record(at(0), ""); err == nil {
		t.Error("an action without a name is recorded")
	}
}

func TestRewrap(t *testing.T) {
	d, kids, _ := everyState(t)
	more := []keyset.WrappedKey{{Service: "other://x", Version: "2", Ciphertext: []byte("abc")}}
	must(t, d.Rewrap(at(time.Hour), map[string][]keyset.WrappedKey{"": more, kids["primary"]: more, kids["staged"]: more}))
	for _, got := range [][]keyset.WrappedKey{d.Auth.Wrapped, d.Primary().Wrapped, d.Key(kids["staged"]).Wrapped} {
		if !reflect.DeepEqual(got, more) || &got[0] == &more[0] {
			t.Errorf("%+v", got)
		}
	}
	if last := d.History[len(d.History)-1]; last.Action != "rewrap" || last.KID != "" {
		t.Errorf("%+v", last)
	}
	before := d.Clone()
	for kid, wrapped := range map[string][]keyset.WrappedKey{
		kids["revoked"]: more, kids["gone"]: more, kids["retiring"]: nil, "": {}, kids["primary"]: slices.Repeat(more, 17), kids["staged"]: {{Service: "x"}},
	} {
		if err := d.Rewrap(at(time.Hour), map[string][]keyset.WrappedKey{kid: wrapped, kids["drained"]: more}); err == nil || !reflect.DeepEqual(d, before) {
			t.Errorf("%q, %d wrappings: %v", kid, len(wrapped), err)
		}
	}
}

func TestMoveErrorOfAStrangeName(t *testing.T) {
	d, _ := initKeyset(t, keyset.Services{memkek.New("a")})
	err := d.Promote(at(0), "\x1b[2J"+strings.Repeat("x", 500))
	if err == nil || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 200 {
		t.Errorf("%v", err)
	}
}

func TestCloneSharesNothing(t *testing.T) {
	d, err := keyset.Parse(golden())
	if err != nil {
		t.Fatal(err)
	}
	before, _ := keyset.Parse(golden())
	c := d.Clone()
	if !reflect.DeepEqual(c, d) {
		t.Fatal("a clone differs")
	}
	c.Policy.Was.Settle++
	c.Auth.Wrapped[0].Ciphertext[0]++
	c.Keys[0].KID, c.Keys[0].Wrapped[0].Ciphertext[0] = "x", 0
	c.Keys[2].Wrapped[1].Service = "x"
	c.Peers[0].KIDs[0], c.Peers[0].Name = "x", "x"
	c.History[0].Actor, c.Tag[0] = "x", c.Tag[0]+1
	if !reflect.DeepEqual(d, before) {
		t.Error("a change of the clone changes the document")
	}
	if n := d.Next(); n.Revision != d.Revision+1 {
		t.Errorf("revision %d after %d", n.Revision, d.Revision)
	}
}

// Whatever is done in whatever order, what must hold of a keyset holds, a refusal changes
// nothing, and the text tells all.
func TestRandomWalkKeepsInvariants(t *testing.T) {
	const walks, steps = 30, 120
	first, auth := initKeyset(t, keyset.Services{memkek.New("a")})
	keys := newKeys(t, first, 60)
	done := make(map[string]int)
	for walk := range walks {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, uint64(walk)))
		w := &walker{Rand: r, t: t, seed: seed, keys: slices.Clone(keys), d: first.Clone(), now: start, maxTTL: make(map[string]time.Duration), sealed: map[string]bool{first.Primary().KID: true}, revoked: make(map[string]bool)}
		for range steps {
			name, err := w.step()
			if err == nil {
				done[name]++
			} else {
				done["no "+name]++
			}
			w.check(name)
		}
		text, err := auth.Encode(w.d.Next())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if again, err := keyset.Parse(text); err != nil || !reflect.DeepEqual(again.Keys, w.d.Keys) || !reflect.DeepEqual(again.History, w.d.History) || !reflect.DeepEqual(again.Policy, w.d.Policy) || !samePeers(again.Peers, w.d.Peers) {
			t.Fatalf("seed %d: what is read is not what was written: %v\n%s", seed, err, text)
		}
	}
	// A walk that never gets anywhere shows nothing.
	for _, name := range []string{"stage", "promote", "rollback", "drain", "retire", "abort", "revoke", "export", "confirm", "forget", "ttl", "policy", "restamp"} {
		if done[name] == 0 {
			t.Errorf("%s never succeeded: %v", name, done)
		}
	}
}

func samePeers(a, b []keyset.Peer) bool { return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b) }

type walker struct {
	*rand.Rand
	t       *testing.T
	seed    uint64
	keys    []keyset.Key // not used yet
	d       *keyset.Document
	now     time.Time
	maxTTL  map[string]time.Duration // of each live key, at least
	sealed  map[string]bool          // key ids of all that were ever primary
	revoked map[string]bool
}

// step tries one move on a key, or with a peer, that may or may not be the right one.
func (w *walker) step() (name string, err error) {
	w.now = w.now.Add(time.Duration(w.Int64N(int64(3 * time.Hour))))
	n := keyset.Note{At: w.now, Actor: "walk"}
	// One of the newest keys most of the time: revoked ones stay and get many.
	kid := w.d.Keys[max(0, len(w.d.Keys)-1-w.IntN(4))].KID
	if w.IntN(4) == 0 {
		kid = w.d.Keys[w.IntN(len(w.d.Keys))].KID
	}
	peer := string(rune('a' + w.IntN(3)))
	ttl := time.Duration(1+w.IntN(100)) * time.Minute
	before := w.d.Clone()
	switch w.IntN(13) {
	case 0:
		name = "stage"
		if err = w.d.Stage(n, w.keys[0]); err == nil {
			w.keys = w.keys[1:]
			if len(w.keys) == 0 {
				w.t.Fatal("a walk has used up its keys")
			}
		}
	case 1:
		name, err = "promote", w.d.Promote(n, kid)
	case 2:
		name, err = "rollback", w.d.Rollback(n, kid)
	case 3:
		name, err = "drain", w.d.Drain(n, kid)
	case 4:
		name, err = "retire", w.d.Retire(n, kid)
	case 5:
		name, err = "abort", w.d.Abort(n, kid)
	case 6:
		name = "revoke"
		if err = errors.New("not this time"); w.IntN(4) == 0 {
			err = w.d.Revoke(n, kid)
		}
	case 7:
		name, err = "export", w.d.Export(n, peer, ttl)
	case 8:
		name, err = "confirm", w.d.Confirm(n, peer)
	case 9:
		name, err = "forget", w.d.ForgetPeer(n, peer)
	case 10:
		name, err = "ttl", w.d.SetTTL(n, ttl)
	case 11:
		p := w.d.Policy
		p.Settle, p.MaxStale = ttl, time.Duration(w.IntN(3))*time.Hour
		name, err = "policy", w.d.SetPolicy(n, p)
	case 12:
		name, err = "restamp", w.d.Restamp(n, kid)
	}
	if err != nil && !reflect.DeepEqual(before, w.d) {
		w.t.Fatalf("seed %d: %s is refused and changes the keyset: %v", w.seed, name, err)
	}
	return name, err
}

func (w *walker) check(name string) {
	fail := func(format string, args ...any) {
		w.t.Helper()
		w.t.Fatalf("seed %d, after %s: %s\n%+v", w.seed, name, fmt.Sprintf(format, args...), w.d.Keys)
	}
	ceiling := w.d.TTL
	for _, p := range w.d.Peers {
		ceiling = max(ceiling, p.TTL)
	}
	primaries, staged := 0, 0
	live := make(map[string]time.Duration)
	for _, k := range w.d.Keys {
		switch k.State {
		case keyset.Primary:
			primaries++
			w.sealed[k.KID] = true
		case keyset.Staged:
			staged++
			if w.sealed[k.KID] {
				fail("key %s was primary and is staged", k.KID)
			}
		case keyset.Revoked:
			w.revoked[k.KID] = true
			continue
		}
		if w.revoked[k.KID] {
			fail("key %s was revoked and is %s", k.KID, k.State)
		}
		if k.MaxTTL < max(w.maxTTL[k.KID], ceiling) {
			fail("key %s: max_ttl has fallen to %v", k.KID, k.MaxTTL)
		}
		if (k.State == keyset.Retiring) == k.Demoted.IsZero() || k.State != keyset.Retiring && !k.Drained.IsZero() || k.Drained.Before(k.Demoted) && !k.Drained.IsZero() {
			fail("key %s: stamps", k.KID)
		}
		live[k.KID] = k.MaxTTL
	}
	if primaries != 1 || staged > 1 || len(w.d.History) > 50 {
		fail("%d primary, %d staged, %d lines of history", primaries, staged, len(w.d.History))
	}
	w.maxTTL = live
}
