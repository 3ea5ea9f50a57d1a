package keyring

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// A state is what a ring knows; its lock guards it. What sealing and unsealing need of it
// is copied into each snapshot.
type state struct {
	doc     *keyset.Document // verified, never changed; nil before there is one
	text    []byte           // that doc was read from
	loaded  time.Time        // when doc became the ring's; zero: not yet
	auth    *keyset.AuthKey
	reports *fleet.Key

	authEntry *entry
	entries   []*entry // the keys of doc that are not revoked, in its order
	sealing   *entry   // nil: there is none to seal with
	uses      map[kid]*use
	revoked   map[kid]struct{} // all that were ever seen as revoked; copied before it is changed

	contact  contact
	epoch    int  // counts how often the registry began to reckon with this instance
	wasReady bool // once at least

	readErr   error // of the last read; nil if that succeeded
	pushErr   error // of the last report; nil if that was accepted
	pushing   pushing
	lastErr   error
	lastErrAt time.Time
	told      telling

	opened bool // Open has come to its end
	closed bool
	busy   int           // attempts at keys that are not held
	quiet  chan struct{} // closed when there are none
}

// apply makes d the document of the ring. Keys that it does not have any more, or that
// are revoked, are gone when it returns; keys that are new are yet to be unwrapped.
func (r *Ring) apply(d *keyset.Document, text []byte, now time.Time) {
	r.doc, r.text, r.loaded = d, text, now
	old := r.entries
	r.entries = nil
	r.noteRevoked(d)
	for _, k := range d.Keys {
		if !k.Unseals() {
			continue
		}
		i := slices.IndexFunc(old, func(e *entry) bool {
			return e.key.ID == k.ID && e.key.KID == k.KID && e.key.Format == k.Format
		})
		e := &entry{name: k.KID}
		if i >= 0 {
			e = old[i]
		}
		e.takeOver(k, r.config.Services, k.Wrapped)
		if r.isRevoked(parseKID(k.KID)) {
			e.held, e.out = nil, leftOut{"revoked", "it was revoked in an earlier revision"}
		}
		r.entries = append(r.entries, e)
	}
	for _, e := range old {
		e.gone = !slices.Contains(r.entries, e)
	}
	r.authEntry.takeOver(keyset.Key{ID: d.Auth.ID}, r.config.Services, d.Auth.Wrapped)
	r.forgetUses(now)
	r.rebuild()
}

// wrapped walks over all that the keyset has wrapped, the auth key first.
func (r *Ring) wrapped(yield func(*entry) bool) {
	if !yield(r.authEntry) {
		return
	}
	for _, e := range r.entries {
		if !yield(e) {
			return
		}
	}
}

func (r *Ring) noteRevoked(d *keyset.Document) {
	var more []kid
	for _, k := range d.Keys {
		if id := parseKID(k.KID); k.State == keyset.Revoked {
			if _, known := r.revoked[id]; !known {
				more = append(more, id)
			}
		}
	}
	if len(more) == 0 {
		return
	}
	r.revoked = maps.Clone(r.revoked)
	for _, id := range more {
		r.revoked[id] = struct{}{}
	}
}

func (r *Ring) isRevoked(id kid) bool {
	_, revoked := r.revoked[id]
	return revoked
}

// useOf returns what is counted for a key id.
func (r *Ring) useOf(id kid) *use {
	u := r.uses[id]
	if u == nil {
		u = &use{since: r.config.Now()}
		r.uses[id] = u
	}
	return u
}

// forgetUses drops what was counted for keys that are gone, once no token under them lives.
func (r *Ring) forgetUses(now time.Time) {
	maps.DeleteFunc(r.uses, func(id kid, u *use) bool {
		return u.until().Before(now) && !slices.ContainsFunc(r.entries, func(e *entry) bool { return e.name == id.String() })
	})
}

// rebuild makes a new snapshot of the state.
func (r *Ring) rebuild() {
	if r.closed {
		return // the last snapshot is there
	}
	s := &snapshot{name: r.config.Name, keys: make(map[kid]*heldKey, len(r.entries)), absent: make(map[kid]struct{}), revoked: r.revoked}
	if d := r.doc; d != nil {
		s.maxSkew, s.ceiling, r.contact.maxStale = d.Policy.MaxSkew, d.TTL, d.Policy.MaxStale
	}
	var missing, staged []string
	var primary *entry
	for _, e := range r.entries {
		switch {
		case e.held != nil:
			s.keys[e.held.kid] = e.held
			s.any = e.held
		case e.key.State == keyset.Staged:
			staged = append(staged, e.name)
		default:
			missing = append(missing, fmt.Sprintf("key %s, which is %s, is not unwrapped", e.name, e.key.State))
		}
		if id := parseKID(e.name); e.held == nil && !r.isRevoked(id) {
			s.absent[id] = struct{}{}
		}
		if e.key.State == keyset.Primary {
			primary = e
		}
	}
	r.chooseSealing(primary)
	if e := r.sealing; e != nil {
		s.sealing, s.maxTTL = e.held, e.key.MaxTTL
		s.ceiling = min(s.ceiling, s.maxTTL)
	}
	if r.contact.following && len(missing)+len(staged) == 0 {
		r.contact.started = true
	}
	s.missing = strings.Join(missing, "; ")
	s.starting = "it has just started"
	if len(staged) > 0 {
		s.starting = "it starts with every key, and key " + strings.Join(staged, ", ") + ", which is staged, is not unwrapped"
	}
	s.contact = r.contact
	r.current.Store(s)
}

// chooseSealing makes the primary the key that seals. If that is not held it stays the
// one that it was, as long as the keyset has that.
func (r *Ring) chooseSealing(primary *entry) {
	switch {
	case primary != nil && primary.held != nil:
		r.sealing = primary
	case r.sealing != nil && (r.sealing.gone || r.sealing.held == nil):
		r.sealing = nil
	}
}

// noteRead notes that a read succeeded that began at a time and in an epoch.
func (r *Ring) noteRead(began time.Time, epoch int) {
	c, now := &r.contact, r.config.Now()
	if !c.read.IsZero() && c.stale(now) {
		c.started = false
	}
	c.read = began
	if !c.registered || epoch > 0 && epoch == r.epoch && !c.silent(now) {
		c.following = true
	}
}

// noteAccepted notes that the registry has accepted a report that was made at a time and
// counts as long as silence says, 0 being for ever.
func (r *Ring) noteAccepted(made time.Time, silence time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.contact
	if c.silent(r.config.Now()) {
		// Whoever rotates may have done without this instance: what it read before
		// does not count.
		r.epoch++
		c.following, c.started = false, false
		r.wake()
	}
	c.accepted, c.silence, r.pushErr = made, silence, nil
	r.rebuild()
}

// noteError remembers the last error.
func (r *Ring) noteError(err error) { r.lastErr, r.lastErrAt = err, r.config.Now() }
