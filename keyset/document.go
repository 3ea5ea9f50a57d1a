package keyset

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"time"
)

// A Document is a keyset: the data keys of a fleet, each wrapped by key services, with
// their states. It holds no plaintext key. [Parse] and [Init] make one; the methods
// that change it refuse whatever a keyset may not become, and leave it as it was then.
//
// A Document is not safe for concurrent use while it is changed. Times are UTC, in
// whole milliseconds; the zero time stands for a member that is not there.
type Document struct {
	Name     string        // immutable, [a-z0-9][a-z0-9._-]{0,62}; part of every encryption context
	Lineage  string        // UUID of the keyset's history: another one is another keyset
	Revision int64         // only grows, by 1 with each save
	TTL      time.Duration // the ceiling: how long a token may live
	Policy   Policy
	Auth     AuthEntry
	Keys     []Key // exactly one is Primary
	Peers    []Peer
	History  []Event // oldest first; the newest 50

	// Tag is the tag that was read, which [AuthKey.Verify] checks. It tells two
	// documents of one revision apart.
	Tag []byte

	read origin // zero for a new one
}

// An origin is what is remembered of the text that a document was read from, or written
// as last.
type origin struct {
	name, lineage string
	revision      int64
	signed        []byte // what the tag is over
	size          int
	unknown       bool // there are members that were not read
}

// A State is what may be done with a key.
type State string

// The states. A key moves from new to staged; staged to primary, while the primary
// moves to retiring; retiring to primary, which is a rollback; staged or retiring to
// gone; and all but the primary to revoked. There is no other move.
const (
	Staged   State = "staged"   // unseals, and never sealed
	Primary  State = "primary"  // seals and unseals
	Retiring State = "retiring" // unseals; sealed before
	Revoked  State = "revoked"  // does neither, ever again; kept so that a refused token can be explained
)

// FormatV1 is the token format of package codec/local.
const FormatV1 = "v1"

// A Key is one data key.
type Key struct {
	ID     string // UUID; part of the encryption context
	KID    string // key id of the tokens, 8 lower-case hex digits
	Format string // of the tokens, see FormatV1; "" for a revoked key only
	State  State

	// MaxTTL is the largest ceiling, that of peers included, since the key was staged:
	// the longest that a token under it may live. It never falls.
	MaxTTL time.Duration

	Created, Staged, Promoted, Demoted, Drained, Revoked time.Time

	Reason  string       // why it was revoked
	Wrapped []WrappedKey // the data key, under each of several services; none for a revoked key
}

// Unseals reports whether tokens under the key are accepted.
func (k Key) Unseals() bool { return k.State != Revoked }

// An AuthEntry is the wrapped key from which the tag of a keyset and the MAC of the
// fleet's reports are made. It is the same for a whole lineage.
type AuthEntry struct {
	ID      string // UUID; part of the encryption context
	Wrapped []WrappedKey
}

// A Peer is a server that does not follow the keyset but was given its data keys, as a
// Python server is.
type Peer struct {
	Name      string        // [a-z0-9][a-z0-9._-]{0,62}
	KIDs      []string      // the keys that it was given
	Primary   string        // the one of them that it seals with
	Confirmed bool          // the operator says that it runs with them
	TTL       time.Duration // how long its tokens live
}

// An Event is one line of a keyset's history.
type Event struct {
	At     time.Time
	Action string // what was done, in one word
	KID    string // to which key; "" if to none
	Actor  string // who did it
	Reason string // and why, if that was told
}

// Limits of a document.
const (
	// MaxBytes is how large a document may be.
	MaxBytes = 1 << 20
	// LargeBytes is from where on tools warn: some places hold no more.
	LargeBytes = 64 << 10

	maxHistory    = 50
	maxTombstones = 64
	tombstoneAge  = 90 * 24 * time.Hour
	maxText       = 200  // bytes of an actor or a reason
	maxWord       = 32   // bytes of an action or a format
	maxService    = 2048 // bytes of a service or of its key's version
	// maxDuration keeps the sum of some durations from running over.
	maxDuration = 87_600 * time.Hour
)

// Primary returns the key that seals.
func (d *Document) Primary() *Key {
	for k := range d.in(Primary) {
		return k
	}
	return nil // in a Document of nobody's making only
}

// Key returns the key of that key id, or nil.
func (d *Document) Key(kid string) *Key {
	for i := range d.Keys {
		if d.Keys[i].KID == kid {
			return &d.Keys[i]
		}
	}
	return nil
}

// in walks over the keys in a state.
func (d *Document) in(state State) iter.Seq[*Key] {
	return func(yield func(*Key) bool) {
		for i := range d.Keys {
			if d.Keys[i].State == state && !yield(&d.Keys[i]) {
				return
			}
		}
	}
}

// HasUnknownMembers reports whether the text that d was read from has members that
// this version does not know. The tag covers them, and [AuthKey.Encode] refuses to
// write d, since they would be lost.
func (d *Document) HasUnknownMembers() bool { return d.read.unknown }

// Size returns the size in bytes of the text that d was read from, or written as last; 0
// for a new document. See [LargeBytes].
func (d *Document) Size() int { return d.read.size }

// Clone returns a deep copy.
func (d *Document) Clone() *Document {
	c := *d
	if d.Policy.Was != nil {
		was := *d.Policy.Was
		c.Policy.Was = &was
	}
	c.Auth.Wrapped = cloneWrapped(d.Auth.Wrapped)
	c.Keys = slices.Clone(d.Keys)
	for i := range c.Keys {
		c.Keys[i].Wrapped = cloneWrapped(c.Keys[i].Wrapped)
	}
	c.Peers = slices.Clone(d.Peers)
	for i := range c.Peers {
		c.Peers[i].KIDs = slices.Clone(c.Peers[i].KIDs)
	}
	c.History = slices.Clone(d.History)
	c.Tag = bytes.Clone(d.Tag)
	return &c
}

func cloneWrapped(wrapped []WrappedKey) []WrappedKey {
	wrapped = slices.Clone(wrapped)
	for i := range wrapped {
		wrapped[i].Ciphertext = bytes.Clone(wrapped[i].Ciphertext)
	}
	return wrapped
}

// Next returns a copy to change and to save in the place of d: its revision is the next.
func (d *Document) Next() *Document {
	next := d.Clone()
	next.Revision++
	return next
}

// change runs a move on a copy and keeps the copy if nothing is wrong with it.
func (d *Document) change(n Note, move func(*Document) error) error {
	if err := n.check(); err != nil {
		return err
	}
	c := d.Clone()
	if err := move(c); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return fmt.Errorf("the keyset %s is not changed, since it would be none any more: %w", d.Name, err)
	}
	*d = *c
	return nil
}
