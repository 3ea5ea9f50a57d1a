package rotation

import (
	"cmp"
	"time"

	"github.com/echoseal/echoseal/fleet"
)

// A Code is what a [Reason] is, for programs.
type Code string

// The codes. Time has to pass:
const (
	// Settling: the store may still give a revision from before the last change, until
	// Reason.Until.
	Settling Code = "settling"
	// Expiring: tokens under the retiring key may be alive until Reason.Until.
	Expiring Code = "expiring"
	// LiveTokens: an instance reports tokens under the retiring key that live longer
	// than was thought possible, until Reason.Until.
	LiveTokens Code = "live_tokens"
)

// The fleet has to follow. Until Reason.Until an instance that reads the store at its own
// interval, or has just started, cannot be expected to; then it blocks, unless time still
// stands in the way:
const (
	// NotVerifying: an instance does not accept the staged key yet.
	NotVerifying Code = "not_verifying"
	// StillSealing: an instance seals with the key that is to retire.
	StillSealing Code = "still_sealing"
	// NotSealing: an instance has no key to seal with, and may yet come to this one. Its
	// clients get errors, so that it is late at once, unless it starts and has none yet.
	NotSealing Code = "not_sealing"
	// Behind: an instance holds an older revision. If Reason.KID is set, that key is revoked,
	// and the instance still accepts it.
	Behind Code = "behind"
	// NotOpened: an instance has not opened the other wrapping of a key. If it has read the
	// revision and does not have the key service, as Reason.Detail says then, it has to be
	// given that, and is late at once.
	NotOpened Code = "not_opened"
)

// Somebody has to do something:
const (
	// CannotUnwrap: an instance cannot unwrap the key, see Reason.Failure.
	CannotUnwrap Code = "cannot_unwrap"
	// Silent: the last report of an instance is not fresh. It lapses at Reason.Until.
	Silent Code = "silent"
	// Unreachable: there is no answer from a listed address.
	Unreachable Code = "unreachable"
	// Malformed: what an instance answers is no report.
	Malformed Code = "malformed"
	// BadMAC: a report is not signed with the keyset's key.
	BadMAC Code = "bad_mac"
	// OtherLineage: an instance holds another keyset, or one that was replaced.
	OtherLineage Code = "other_lineage"
	// NewerRevision: an instance holds a revision that the store does not have.
	NewerRevision Code = "newer_revision"
	// Fork: an instance holds the same revision with another content.
	Fork Code = "fork"
	// ClockOff: the clock of an instance is off by Reason.Offset, more than half of
	// max_skew. If all that tell the time agree on it, as Reason.Detail says then, it is
	// this clock that is wrong.
	ClockOff Code = "clock_off"
	// DuplicateID: two processes report under one id.
	DuplicateID Code = "duplicate_id"
	// NoSource: there is no source to ask, and the policy demands reports.
	NoSource Code = "no_source"
	// SourceFailed: a source did not answer for all that it knows.
	SourceFailed Code = "source_failed"
	// NoReports: the sources know no instance.
	NoReports Code = "no_reports"
	// TooFewReports: fewer instances than min_instances report, Have of Want.
	TooFewReports Code = "too_few_reports"
	// PeerWithoutKey: the last export to a peer does not have the staged key.
	PeerWithoutKey Code = "peer_without_key"
	// PeerSealing: the last export to a peer has the key that is to retire first.
	PeerSealing Code = "peer_sealing"
	// PeerUnconfirmed: nobody has said that the peer runs with its last export.
	PeerUnconfirmed Code = "peer_unconfirmed"
	// NotWrapped: a key has no other wrapping than those of Reason.Service.
	NotWrapped Code = "not_wrapped"
	// NoPrimary: the document is no keyset.
	NoPrimary Code = "no_primary"
)

// Why a rotation begins:
const (
	DueAge     Code = "due_age"     // the primary is older than max_age
	DueBudget  Code = "due_budget"  // more than half of the key's seals are used, Seals of them
	DueReplace Code = "due_replace" // it was asked for
)

// A Reason is one cause, with the culprit. Members that do not apply are zero.
type Reason struct {
	Code Code
	KID  string // the key that it is about

	// The instance, or the answer that is no report.
	Instance string    // for people: its host, or its address
	ID       string    // Report.ID, or the id in a registry of what is no report
	Address  string    // where it answers, or the id in a registry
	Source   string    // the URI of the source that gave it, or that failed
	Revision int64     // that it holds
	Seen     time.Time // Report.Now
	Health   string    // Report.Health
	stale    bool      // the report is not fresh any more: the instance may be gone

	Peer string // the peer's name

	Until      time.Time      // when it ends by itself, or an instance is late; zero: not known, or never
	Offset     time.Duration  // of the instance's clock from this one's, positive if ahead
	Limit      time.Duration  // how much of it is allowed
	Failure    *fleet.Failure // what could not be unwrapped
	Service    string         // the key service, as in keyset.WrappedKey
	Have, Want int            // instances that report, and that have to
	Seals      int64          // estimated seals under the key
	Detail     string         // what was wrong in detail; no secret is in it
}

// About returns a reason with what there is to say of an instance, whatever the code. The
// other members are zero.
func About(code Code, i *fleet.Instance) Reason {
	r := Reason{Code: code, Instance: cmp.Or(i.Name(), "an instance"), Address: i.Address, Source: i.Source}
	if i.Err != nil {
		r.Detail = i.Err.Error()
		if i.Registered {
			r.ID = i.Address
		}
		return r
	}
	r.ID, r.Revision, r.Seen, r.Health = i.Report.ID, i.Report.Revision, i.Report.Now, i.Report.Health()
	return r
}

// Fault reports whether somebody has to do something, so that waiting alone does not
// help.
func (r Reason) Fault() bool { return !r.lag() && !r.time() && !r.due() }

// due reports whether the reason is one to begin.
func (r Reason) due() bool { return r.Code == DueAge || r.Code == DueBudget || r.Code == DueReplace }

// time reports whether the reason passes with time.
func (r Reason) time() bool { return r.Code == Settling || r.Code == Expiring || r.Code == LiveTokens }

// lag reports whether the reason passes when the fleet follows, as it does by itself.
func (r Reason) lag() bool {
	switch r.Code {
	case NotVerifying, StillSealing, NotSealing, Behind, NotOpened:
		return true
	case CannotUnwrap:
		return r.Failure != nil && temporary(r.Failure.Kind)
	default:
		return false
	}
}
