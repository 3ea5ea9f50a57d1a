package keyset

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/echoseal/echoseal/internal/strict"
)

// A Note says when a change was made, by whom and why; it becomes an [Event].
type Note struct {
	At     time.Time // rounded up to the millisecond
	Actor  string    // at most 200 bytes, no control characters; user@host say
	Reason string    // likewise; may be empty
}

func (n Note) check() error {
	switch {
	case n.At.IsZero():
		return errors.New("a change has the time at which it is made, and none is given")
	case !isText(n.Actor):
		return fmt.Errorf("the note of a change: %w", errText("actor"))
	case !isText(n.Reason):
		return fmt.Errorf("the note of a change: %w", errText("reason"))
	}
	return nil
}

// A MoveError reports that a key may not change its state in this way.
type MoveError struct {
	KID  string
	From State // "" if there is no such key
	To   string
	Why  string // what to do instead, a phrase; may be empty
}

// Error names the key and both states.
func (e *MoveError) Error() string {
	text := fmt.Sprintf("key %s cannot become %s: it is %s", e.KID, e.To, e.From)
	if e.From == "" {
		text = fmt.Sprintf("key %.40q cannot become %s: the keyset has no such key", e.KID, e.To)
	}
	if e.Why != "" {
		text += "; " + e.Why
	}
	return text
}

// gone is what a key becomes that leaves the keyset.
const gone = "gone"

// Stage adds a new key, which unseals and does not seal yet. The error is a
// [*MoveError] if another key is staged.
func (d *Document) Stage(n Note, k Key) error {
	return d.change(n, func(d *Document) error {
		for other := range d.in(Staged) {
			return &MoveError{KID: k.KID, From: "new", To: string(Staged), Why: "key " + other.KID + " is staged: promote or abort it first"}
		}
		if k.State != "" {
			return &MoveError{KID: k.KID, From: k.State, To: string(Staged)}
		}
		if d.taken(k.KID) {
			return &MoveError{KID: k.KID, From: "new", To: string(Staged), Why: "the keyset had a key of that id before; make another"}
		}
		d.Keys = append(d.Keys, Key{
			ID: k.ID, KID: k.KID, Format: k.Format, State: Staged,
			Created: strict.CeilTime(k.Created), Staged: strict.CeilTime(n.At), Wrapped: cloneWrapped(k.Wrapped),
		})
		d.raise()
		d.note(n, "stage", k.KID)
		return nil
	})
}

// Promote makes the staged key of that key id the primary, and the primary retiring.
func (d *Document) Promote(n Note, kid string) error {
	return d.change(n, func(d *Document) error { return d.stepUp(n, kid, Staged, "promote") })
}

// Rollback makes the retiring key of that key id the primary again, and the primary
// retiring.
func (d *Document) Rollback(n Note, kid string) error {
	return d.change(n, func(d *Document) error { return d.stepUp(n, kid, Retiring, "rollback") })
}

func (d *Document) stepUp(n Note, kid string, from State, action string) error {
	up, err := d.find(kid, from, string(Primary))
	if err != nil {
		return err
	}
	at := strict.CeilTime(n.At)
	down := d.Primary()
	down.State, down.Demoted, down.Drained = Retiring, at, time.Time{}
	up.State, up.Promoted, up.Demoted, up.Drained = Primary, at, time.Time{}, time.Time{}
	d.note(n, action, kid)
	return nil
}

// Drain notes that no instance seals with the retiring key of that key id any more.
func (d *Document) Drain(n Note, kid string) error {
	return d.change(n, func(d *Document) error {
		k, err := d.find(kid, Retiring, "drained")
		if err != nil {
			return err
		}
		if !k.Drained.IsZero() {
			return &MoveError{KID: kid, From: "drained", To: "drained"}
		}
		k.Drained = strict.CeilTime(n.At)
		d.note(n, "drain", kid)
		return nil
	})
}

// Retire takes a retiring key out of the keyset. It does not undo a leak: see [Document.Revoke].
func (d *Document) Retire(n Note, kid string) error {
	return d.change(n, func(d *Document) error { return d.takeOut(n, kid, Retiring, "retire") })
}

// Abort takes a staged key out of the keyset.
func (d *Document) Abort(n Note, kid string) error {
	return d.change(n, func(d *Document) error { return d.takeOut(n, kid, Staged, "abort") })
}

func (d *Document) takeOut(n Note, kid string, from State, action string) error {
	if _, err := d.find(kid, from, gone); err != nil {
		return err
	}
	d.Keys = slices.DeleteFunc(d.Keys, func(k Key) bool { return k.KID == kid })
	d.note(n, action, kid)
	return nil
}

// Revoke makes a key stop unsealing, for good: every token under it is refused. What is
// left of the key explains why. The primary is not revoked: promote, or roll back to,
// another key first, in the same revision.
func (d *Document) Revoke(n Note, kid string) error {
	return d.change(n, func(d *Document) error {
		k := d.Key(kid)
		switch {
		case k == nil:
			return &MoveError{KID: kid, To: string(Revoked)}
		case k.State == Revoked:
			return &MoveError{KID: kid, From: k.State, To: string(Revoked)}
		case k.State == Primary:
			return &MoveError{KID: kid, From: k.State, To: string(Revoked), Why: "make another key primary first"}
		}
		*k = Key{ID: k.ID, KID: k.KID, State: Revoked, Created: k.Created, Promoted: k.Promoted, Revoked: strict.CeilTime(n.At), Reason: n.Reason}
		d.bury(n.At)
		d.note(n, "revoke", kid)
		return nil
	})
}

// bury drops the oldest revoked keys beyond 64, but none younger than 90 days.
func (d *Document) bury(now time.Time) {
	revoked := slices.Collect(d.in(Revoked))
	slices.SortFunc(revoked, func(a, b *Key) int { return b.Revoked.Compare(a.Revoked) })
	drop := make(map[string]bool)
	for _, k := range revoked[min(len(revoked), maxTombstones):] {
		drop[k.KID] = now.Sub(k.Revoked) > tombstoneAge
	}
	d.Keys = slices.DeleteFunc(d.Keys, func(k Key) bool { return drop[k.KID] })
}

// Rewrap replaces wrappings: by key id those of data keys, and under "" those of the auth
// key. The caller has unwrapped each and compared it: see [Services.Rewrap].
func (d *Document) Rewrap(n Note, wrapped map[string][]WrappedKey) error {
	return d.change(n, func(d *Document) error {
		for _, kid := range slices.Sorted(maps.Keys(wrapped)) {
			wrapped := wrapped[kid]
			switch k := d.Key(kid); {
			case kid == "":
				d.Auth.Wrapped = cloneWrapped(wrapped)
			case k == nil:
				return &MoveError{KID: kid, To: "wrapped anew"}
			case k.State == Revoked:
				return &MoveError{KID: kid, From: k.State, To: "wrapped anew"}
			default:
				k.Wrapped = cloneWrapped(wrapped)
			}
		}
		d.note(n, "rewrap", "")
		return nil
	})
}

// Record adds a line to the history about something that changes nothing else in the
// keyset, such as an instance that was taken out of a registry by hand. action is one
// word, at most 32 bytes.
func (d *Document) Record(n Note, action string) error {
	return d.change(n, func(d *Document) error {
		d.note(n, action, "")
		return nil
	})
}

// find returns the key of a key id if it is in the state that a move starts from.
func (d *Document) find(kid string, from State, to string) (*Key, error) {
	k := d.Key(kid)
	if k == nil {
		return nil, &MoveError{KID: kid, To: to}
	}
	if k.State != from {
		return nil, &MoveError{KID: kid, From: k.State, To: to}
	}
	return k, nil
}

// taken reports whether a key id is, or as far as the keyset remembers was, that of a key.
func (d *Document) taken(kid string) bool {
	return d.Key(kid) != nil || slices.ContainsFunc(d.History, func(e Event) bool { return e.KID == kid })
}

// raise raises the MaxTTL of every key to the ceiling in force.
func (d *Document) raise() {
	ceiling := d.ceiling()
	for i := range d.Keys {
		if k := &d.Keys[i]; k.Unseals() {
			k.MaxTTL = max(k.MaxTTL, ceiling)
		}
	}
}

// ceiling returns how long a token may live, whoever seals it: the keyset or a peer, since
// a peer is given every key in time.
func (d *Document) ceiling() time.Duration {
	ceiling := d.TTL
	for _, p := range d.Peers {
		ceiling = max(ceiling, p.TTL)
	}
	return ceiling
}

// note adds a line to the history.
func (d *Document) note(n Note, action, kid string) {
	d.History = append(d.History, Event{At: strict.CeilTime(n.At), Action: action, KID: kid, Actor: n.Actor, Reason: n.Reason})
	d.History = d.History[max(0, len(d.History)-maxHistory):]
}
