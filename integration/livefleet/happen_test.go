package livefleet

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

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

// together runs two at once. Of two that decide on one revision the second writes nothing:
// it is told so, or sees by the servers that there is a later one, and decides anew. Of two
// that wait one finishes at least.
func (w *world) together() {
	old := w.primary()
	file := w.holds()
	second := w.start(&hook{When: loaded, Hold: file}, "rotate", "--replace", old)
	eventually(w.T, "the hold", func() bool { return exists(file) })
	w.keytool(0, "rotate", "--replace", old)
	revision := w.document().Revision
	if err := os.Remove(file); err != nil {
		w.Fatal(err)
	}
	second.ends(0, 5)
	if is := w.document().Revision; is != revision {
		w.Errorf("both have written: revision %d, then %d", revision, is)
	}
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

// keysDenied takes from the servers, and not from keytool, the permission to unwrap. Those
// that run go on; the new key is not promoted before they have it.
func (w *world) keysDenied() {
	old := w.primary()
	back := w.place.deny()
	k := w.start(nil, "rotate", "--replace", old, "--wait")
	k.says("1/3 staged")
	k.says("BLOCKED")
	w.keytool(6, "status", "--exit-code")
	w.load.some()
	if w.primary() != old {
		w.Error("a key was promoted that no server has")
	}
	back()
	k.ends(0)
	w.settled(old)
}

// keysLost loses the key service, and not the store, between two steps. Servers that run
// seal with what they hold. One that is started does not get ready before the service is
// back, and keytool, which is denied or gets no answer, changes nothing until then.
func (w *world) keysLost() {
	old := w.primary()
	w.keytool(0, "rotate", "--replace", old)
	revision := w.document().Revision
	back, tries := w.place.loseKeys(), w.load.unavailable.Load()
	service, _, _ := strings.Cut(w.place.services, "?")
	for _, wait := range []bool{false, true} {
		k := w.start(nil, "rotate", "--replace", old, "--timeout", "2s", "--wait="+strconv.FormatBool(wait))
		k.says(service)
		k.ends(1)
	}
	s := w.servers[0]
	if code := s.stop(); code != 0 {
		w.Errorf("%s ends with %d", s.config.Name, code)
	}
	s.config.Start = time.Second
	if w.launch(s) {
		w.Errorf("%s gets ready without its keys", s.config.Name)
	} else if log := s.log.String(); !strings.Contains(log, service) {
		w.Errorf("%s does not say that it misses %s:\n%s", s.config.Name, service, log)
	}
	// Those that run have done without for a while.
	s.config.Start = 0
	since := time.Now()
	up := w.begin(s)
	for _, other := range w.servers[1:] {
		w.load.awaitSealed(w.T, other.config.Name, old, since)
	}
	if more := w.load.unavailable.Load() - tries; more > 0 {
		w.Errorf("without the key service no server was ready %d times", more)
	}
	if is := w.document().Revision; is != revision {
		w.Errorf("without the key service keytool has written revision %d", is)
	}
	back()
	if !<-up && (w.place.startsWait || !w.launch(s)) {
		w.Fatalf("%s does not start:\n%s", s.config.Name, s.log)
	}
	w.keytool(0, "rotate", "--replace", old, "--wait")
	w.settled(old)
	w.load.awaitSealed(w.T, s.config.Name, w.primary(), since)
}

// backAndForth interrupts a rotation, gives it up, and goes back from one that is half
// done.
func (w *world) backAndForth() {
	old := w.primary()
	k := w.start(nil, "rotate", "--replace", old, "--wait")
	k.says("1/3 staged")
	k.interrupt()
	w.keytool(0, "abort")
	k = w.start(nil, "rotate", "--replace", old, "--wait")
	k.says("promoted")
	k.interrupt()
	w.load.some()
	w.keytool(0, "rollback")
	w.load.some()
	if w.primary() != old {
		w.Error("the rollback has not brought the old key back")
	}
	w.keytool(0, "rotate", "--wait")
	if d := w.document(); d.Unfinished() || d.Primary().KID != old {
		w.Errorf("after the rollback the primary is %s, unfinished: %v", d.Primary().KID, d.Unfinished())
	}
}

// serversComeAndGo kills a server, starts it again, adds one and stops another while a
// rotation runs.
func (w *world) serversComeAndGo() {
	old := w.primary()
	k := w.start(nil, "rotate", "--replace", old, "--wait")
	k.says("1/3 staged")
	victim := w.servers[0]
	victim.kill()
	w.load.some()
	if !w.launch(victim) {
		w.Fatalf("%s does not start again:\n%s", victim.config.Name, victim.log)
	}
	w.add(goSDK)
	w.remove(w.servers[1])
	w.load.some()
	// The process that was killed left a report behind, which nobody renews.
	k.ends(0)
	w.settled(old)
}

// paused stops a server for longer than its reports are fresh: the promotion waits for it,
// and it comes back without a key missing.
func (w *world) paused() {
	old, s := w.primary(), w.servers[0]
	resume := s.pause(w.T)
	w.balancer.avoid(s.config.Name)
	k := w.start(nil, "rotate", "--replace", old, "--wait")
	k.says("1/3 staged")
	k.says(w.label(s))
	resume()
	eventually(w.T, s.config.Name+" is ready again", s.ready)
	w.balancer.add(s.config.Name, "http://"+s.public)
	k.ends(0)
	w.settled(old)
}

// revoked takes the primary away in an emergency: its tokens are refused once every server
// has obeyed, and no others ever.
func (w *world) revoked() {
	old := w.primary()
	obeyed := w.load.revoke(old)
	w.keytool(0, "revoke", old, "--reason", "leaked", "--yes")
	obeyed()
	w.load.some()
	if d := w.document(); d.Key(old).State != keyset.Revoked || d.Primary().KID == old {
		w.Error("the key is not revoked")
	}
}
