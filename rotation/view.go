package rotation

import (
	"encoding/base64"
	"errors"
	"slices"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// A view is what one decision is made of.
type view struct {
	rules
	d *keyset.Document
	o fleet.Observation
	p keyset.Policy // as it counts

	// floor is the earliest time at which instances that were told to go on for ever, by a
	// former policy, are taken to have followed, where nobody reports. Zero otherwise.
	floor time.Time

	now    time.Time // the clock before the first source was asked
	oldest time.Time // the earliest of that and of when the reports were made
	alone  bool      // the instances agree with each other on the time, but not with that clock

	faults []Reason          // what is wrong with the fleet, whatever the key
	live   []*fleet.Instance // the instances that are not among the faults
}

func (r rules) look(d *keyset.Document, o fleet.Observation, now time.Time, request Request) *view {
	v := &view{rules: r, d: d, o: o, now: now}
	if !o.Began.IsZero() && o.Began.Before(now) {
		v.now = o.Began
	}
	if !r.firstReading && o.Ended.After(v.now) {
		v.now = o.Ended
	}
	v.oldest = v.now
	v.p, v.floor = counting(d, v.now)
	switch {
	case request.Policy == nil:
	case request.Force:
		v.p = overridden(v.p, d.Policy, *request.Policy)
	default:
		v.p = Tighter(v.p, *request.Policy)
	}
	v.alone = v.isAlone()
	v.lookAtSources()
	return v
}

// counting returns the policy that counts at a time, and the floor of a view.
func counting(d *keyset.Document, now time.Time) (p keyset.Policy, floor time.Time) {
	p = d.Policy.At(now)
	if p.Proof == keyset.ProofSettle && p.MaxStale == 0 {
		p.MaxStale = d.Policy.MaxStale
		if d.Policy.Was != nil {
			floor = d.Policy.Was.Until
		}
	}
	return p, floor
}

// overridden returns p, which counts of the document's policy d, with what q has otherwise
// than d: a former value goes on counting unless it is what q is about.
func overridden(p, d, q keyset.Policy) keyset.Policy {
	if q.Settle == d.Settle {
		q.Settle = p.Settle
	}
	if q.MaxStale == d.MaxStale {
		q.MaxStale = p.MaxStale
	}
	if q.MaxSkew == d.MaxSkew {
		q.MaxSkew = p.MaxSkew
	}
	return q
}

// Tighter returns p with what q asks for beyond it: a smaller MaxAge; a larger Settle,
// MaxSkew or MinInstances; and a larger MaxStale, unless that of p is 0, for ever. Proof
// is that of p.
func Tighter(p, q keyset.Policy) keyset.Policy {
	p.MaxAge = min(p.MaxAge, q.MaxAge)
	p.Settle = max(p.Settle, q.Settle)
	p.MaxSkew = max(p.MaxSkew, q.MaxSkew)
	p.MinInstances = max(p.MinInstances, q.MinInstances)
	if p.MaxStale != 0 {
		p.MaxStale = max(p.MaxStale, q.MaxStale)
	}
	return p
}

func (v *view) lookAtSources() {
	if len(v.o.Sources) == 0 && v.p.Proof != keyset.ProofSettle {
		v.faults = append(v.faults, Reason{Code: NoSource})
	}
	for _, f := range v.o.Failures {
		v.faults = append(v.faults, Reason{Code: SourceFailed, Source: f.Source, Detail: f.Err.Error()})
	}
}

// lookAtInstances tells the instances that can be judged from those that are a fault.
// newer says that an instance may hold a revision that d is not.
func (v *view) lookAtInstances(newer bool) {
	clashes := v.o.Clashes()
	known := 0
	for n := range v.o.Instances {
		i := &v.o.Instances[n]
		if !i.Live() {
			continue
		}
		known++
		if reason, faulty := v.fault(i, clashes, newer); faulty {
			v.faults = append(v.faults, reason)
			continue
		}
		if !v.silence && !i.Report.Fresh(v.o.Ended) {
			continue
		}
		if v.oldestReport && i.Report.Now.Before(v.oldest) {
			v.oldest = i.Report.Now
		}
		v.live = append(v.live, i)
	}
	switch asked := len(v.o.Sources) > 0; {
	case asked && known == 0 && v.zeroReports:
		v.faults = append(v.faults, Reason{Code: NoReports, Want: max(1, v.p.MinInstances)})
	case asked && len(v.live) < v.p.MinInstances:
		v.faults = append(v.faults, Reason{Code: TooFewReports, Have: len(v.live), Want: v.p.MinInstances})
	}
}

// overtaken returns the faults that prove that d is not the newest document.
func (v *view) overtaken() (all []Reason) {
	for _, r := range v.faults {
		if r.Code == NewerRevision || r.Code == Fork {
			all = append(all, r)
		}
	}
	return all
}

// slow returns the faults that prove that this clock is ahead of another.
func (v *view) slow() (all []Reason) {
	for n := range v.o.Instances {
		i := &v.o.Instances[n]
		if i.Err != nil || i.Report.Lineage != v.d.Lineage {
			continue
		}
		if r, off := v.clock(i); off && r.Offset < 0 {
			all = append(all, r)
		}
	}
	return all
}

// clockLimit is how far an instance's clock may be from this one. What of max_skew is left
// is for the other half: two instances may differ in opposite directions.
func (v *view) clockLimit() time.Duration { return min(v.d.Policy.MaxSkew, v.p.MaxSkew) / 2 }

// clock returns what is wrong with the clock of an instance.
func (v *view) clock(i *fleet.Instance) (Reason, bool) {
	limit := v.clockLimit()
	offset := v.o.Offset(i)
	if offset <= limit && (offset >= -limit || i.Registered) {
		return Reason{}, false
	}
	reason := about(ClockOff, i, "")
	reason.Offset, reason.Limit = offset, limit
	if v.alone {
		reason.Detail = "the others agree with it"
	}
	return reason, true
}

// isAlone reports whether at least two instances tell the time, and all that do agree on
// it, but not with this clock: then it is this one that is wrong. A report from a registry
// that is past tells its age, and not the time.
func (v *view) isAlone() bool {
	var least, most time.Duration
	limit := v.clockLimit()
	tell := 0
	for n := range v.o.Instances {
		i := &v.o.Instances[n]
		if i.Err != nil || i.Report.Lineage != v.d.Lineage || i.Registered && !i.Report.Fresh(v.o.Ended) {
			continue
		}
		offset := v.o.Offset(i)
		if i.Registered && offset < 0 {
			continue
		}
		if tell++; tell == 1 {
			least, most = offset, offset
		}
		least, most = min(least, offset), max(most, offset)
	}
	return tell > 1 && (least > limit || most < -limit) && most-least <= limit
}

// fault returns what is wrong with an instance, whatever the key.
func (v *view) fault(i *fleet.Instance, clashes []string, newer bool) (Reason, bool) {
	r := &i.Report
	switch {
	case errors.Is(i.Err, fleet.ErrMAC):
		return about(BadMAC, i, ""), true
	case errors.Is(i.Err, fleet.ErrUnreachable):
		return about(Unreachable, i, ""), true
	case i.Err != nil:
		return about(Malformed, i, ""), true
	case r.Keyset != v.d.Name || r.Lineage != v.d.Lineage:
		return v.heard(OtherLineage, i), true
	case r.Revision > v.d.Revision && !newer:
		return v.heard(NewerRevision, i), true
	case r.Revision == v.d.Revision && r.Tag != base64.StdEncoding.EncodeToString(v.d.Tag):
		return v.heard(Fork, i), true
	case slices.Contains(clashes, r.ID):
		return v.heard(DuplicateID, i), true
	}
	if reason, off := v.clock(i); off {
		return reason, true
	}
	if v.silence && !r.Fresh(v.o.Ended) {
		return v.heard(Silent, i), true
	}
	return Reason{}, false
}

// heard returns a reason that names an instance whose report counts, be it that the instance
// has stopped reporting: then it may be gone, and what it said lapses or has to be forgotten.
func (v *view) heard(code Code, i *fleet.Instance) Reason {
	reason := about(code, i, "")
	if reason.stale = !i.Report.Fresh(v.o.Ended); reason.stale {
		// The registry knows the policy of the document, whatever the request's is.
		kept := v.d.Policy.At(v.now)
		reason.Until = i.Lapses(kept.MaxStale, kept.MaxSkew)
	}
	return reason
}

// about returns a reason that names an instance, and a key.
func about(code Code, i *fleet.Instance, kid string) Reason {
	r := About(code, i)
	r.KID = kid
	return r
}

// lag returns a reason that names an instance which has yet to follow a change. It reads
// the store at its own interval, maybe just before the store gives the change, and twice
// that interval leaves it time to open a key and to report; it is late if it is ready all
// the same after max_stale. One that starts has the time for that, however old the change
// is.
func (v *view) lag(code Code, i *fleet.Instance, kid string, changed time.Time) Reason {
	r := about(code, i, kid)
	patience := 2 * i.Report.Every
	if v.p.MaxStale != 0 {
		patience = min(patience, v.p.MaxStale)
	}
	if r.Until = StartsUntil(&i.Report); !changed.IsZero() {
		r.Until = latest(r.Until, changed.Add(sum(v.p.Settle, v.p.MaxSkew, patience)))
	}
	return r
}

// startsWithin is how long an instance may take from [fleet.Report.Started] until it is ready.
const startsWithin = 2 * time.Minute

// StartsUntil returns when an instance that is starting has had its time, two minutes since
// [fleet.Report.Started], and somebody has to look after it: until then it is waited for. It
// is the zero time for one that has been ready, and for one whose clock was set back since
// it began.
func StartsUntil(r *fleet.Report) time.Time {
	if r.Ready || r.Reason != fleet.Starting || r.Started.After(r.Now) {
		return time.Time{}
	}
	return r.Started.Add(startsWithin)
}
