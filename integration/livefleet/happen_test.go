package livefleet

import (
	"os"
	"slices"

	"github.com/echoseal/echoseal/keyset"
)

// killed kills keytool at each write of a rotation: before it, while it is made, and after
// it. Run again and again, it finishes.
func (w *world) killed() {
	old := w.primary()
	for _, action := range []string{"stage", "promote", "drain", "retire"} {
		for _, when := range []string{before, during, after} {
			if taken(w.document(), old, action) {
				continue // while it was killed
			}
			w.start(&hook{When: when, Action: action}, "rotate", "--replace", old, "--wait").ends(-1)
			if is := taken(w.document(), old, action); is && when == before || !is && when == after {
				w.Errorf("killed %s the write: %s was done: %v", when, action, is)
			}
		}
	}
	w.keytool(0, "rotate", "--replace", old, "--wait")
	w.settled(old)
}

// taken reports whether a step of the rotation away from a key is in the document.
func taken(d *keyset.Document, old, action string) bool {
	k := d.Key(old)
	switch action {
	case "stage":
		return d.Primary().KID != old || slices.ContainsFunc(d.Keys, func(k keyset.Key) bool { return k.State == keyset.Staged })
	case "promote":
		return d.Primary().KID != old
	case "drain":
		return k == nil || !k.Drained.IsZero()
	default:
		return k == nil
	}
}

// together runs two at once: of two that decide on one revision one is told that it was
// not the first, and of two that wait one finishes at least.
func (w *world) together() {
	old := w.primary()
	file := w.holds()
	second := w.start(&hook{When: loaded, Hold: file}, "rotate", "--replace", old)
	eventually(w.T, "the hold", func() bool { return exists(file) })
	w.keytool(0, "rotate", "--replace", old)
	if err := os.Remove(file); err != nil {
		w.Fatal(err)
	}
	second.ends(5)
	both := []*tool{w.start(nil, "rotate", "--replace", old, "--wait"), w.start(nil, "rotate", "--replace", old, "--wait")}
	both[0].ends(0, 5)
	both[1].ends(0, 5)
	if both[0].code() == 5 && both[1].code() == 5 {
		w.Error("both were second")
	}
	w.settled(old)
}

// storeLost loses the store between two steps. Whoever runs goes on.
func (w *world) storeLost() {
	old := w.primary()
	k := w.start(nil, "rotate", "--replace", old, "--wait")
	k.says("1/3 staged")
	back := w.place.loseStore()
	k.says("trying again")
	w.keytool(1, "status", "--timeout", "1s")
	w.load.some()
	back()
	k.ends(0)
	w.settled(old)
}
