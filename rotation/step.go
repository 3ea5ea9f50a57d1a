package rotation

import (
	"fmt"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

// A Kind is what a [Step] does to the keyset, or why it does nothing.
type Kind string

// The kinds. The first four change the keyset: [Step.Apply].
const (
	Stage   Kind = "stage"   // add a key that every instance is to verify before any seals with it
	Promote Kind = "promote" // seal with the staged key; the primary becomes retiring
	Drain   Kind = "drain"   // note that nobody seals with a retiring key any more
	Retire  Kind = "retire"  // drop a retiring key under which no token is alive

	Wait    Kind = "wait"    // nothing is wrong: time has to pass, or the fleet has to follow
	Blocked Kind = "blocked" // somebody has to do something first, see Step.Reasons
	Done    Kind = "done"    // nothing is unfinished and nothing is due
)

// Changes reports whether a step of the kind changes the keyset.
func (k Kind) Changes() bool { return k == Stage || k == Promote || k == Drain || k == Retire }

// A Step is what is to be done next.
type Step struct {
	Kind Kind

	// Goal is the change that is waited for if Kind is Wait or Blocked, and Kind otherwise.
	Goal Kind

	// KID is the key that Goal is about. Of Stage and Done it is the primary's: the key
	// that is to be replaced.
	KID string

	// NotBefore is the earliest time at which running Next again can change anything by
	// time alone: Wait says when to, Done when the primary is due. Zero: no time is
	// known, as where only the fleet has to follow, or Kind changes the keyset now.
	NotBefore time.Time

	// Reasons tell why a step waits or is blocked, and what Force overrides, all of them,
	// faults first; and why a rotation begins, if Goal is Stage.
	Reasons []Reason
}

// Forced reports whether the step is taken against reasons not to: it is outside the
// guarantee, and Reasons are what it overrides.
func (s Step) Forced() bool {
	return (s.Kind == Promote || s.Kind == Retire) && len(s.Reasons) > 0 || s.Kind == Stage && len(s.Reasons) > 0 && s.Reasons[0].Fault()
}

// Timed reports whether what comes next counts from the stamp of this step, so that the
// stamp is to be written anew if saving it took longer than [SaveWithin]: see
// [keyset.Document.Restamp].
func (s Step) Timed() bool { return s.Kind == Stage || s.Kind == Promote }

// Apply makes the change of the step in d, the document that Next has seen or its
// [keyset.Document.Next]. n.At is a reading of the clock after the last answer of the
// fleet, and after fresh was made, just before d is saved; it has to be the same
// clock that Next was given a reading of. fresh is the new key, of
// [keyset.Document.GenerateKey], if Kind is Stage; otherwise it is ignored.
//
// The error is that of the move. A step that changes nothing is an error, too.
func (s Step) Apply(d *keyset.Document, n keyset.Note, fresh keyset.Key) error {
	switch s.Kind {
	case Stage:
		return d.Stage(n, fresh)
	case Promote:
		return d.Promote(n, s.KID)
	case Drain:
		return d.Drain(n, s.KID)
	case Retire:
		return d.Retire(n, s.KID)
	default:
		return fmt.Errorf("the step %q changes nothing", s.Kind)
	}
}

// SaveWithin returns how long saving a step may take from the stamp that it carries: its
// share of settle, one half. The rest is the store's. Use it as the deadline of the
// save. A save that took longer nevertheless is followed by [keyset.Document.Restamp].
func SaveWithin(p keyset.Policy) time.Duration { return p.Settle / 2 }

// A Request says what is asked for beyond what is due. The zero value asks for that.
type Request struct {
	// Replace is the key id of a primary that is to be replaced, due or not. The request
	// can be made again and again: it is fulfilled when that key is not primary and
	// nothing is unfinished.
	Replace string

	// Policy is what counts instead of the document's where it asks for more: see
	// [Tighter]. nil: the document's.
	Policy *keyset.Policy

	// Force promotes a staged key against whatever is in the way, stages one in a document
	// that is not the newest, and makes Policy count as it is, even where it asks for less;
	// but what it has as the document's policy has it counts as it does without it. It
	// drops a key though this clock is ahead of an instance's.
	// All of it is outside the guarantee: until every instance holds the new revision,
	// tokens may be refused. Drain and retire it does not hasten by itself otherwise; with
	// a Policy that asks for less they come as early as that says, and a token may still be
	// alive under the key that is dropped.
	Force bool
}
