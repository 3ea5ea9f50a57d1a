package rotation

import (
	"cmp"
	"slices"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// Next returns the next step that is safe. now is a reading of the clock from before the
// first source was asked; if o.Began is earlier, that counts. Next changes nothing and
// never panics, and gives no time that RFC 3339 cannot write: its last second stands for
// all that is later.
//
// A key is staged, and a retiring one is dropped, without a report and whatever is wrong
// with the fleet, but for one thing: an instance that reports a later revision than that of
// d, or the same with another content. Then d is not the newest document, as after a store
// was restored from an old copy: a change of it would fork the keyset, and what it says of
// a retiring key may have been undone since, so that the key seals again. And a key is not
// dropped while an instance that was asked itself shows that its clock is behind this one:
// by that clock tokens under the key may be alive.
func Next(d *keyset.Document, o fleet.Observation, now time.Time, r Request) Step {
	return safe().next(d, o, now, r).tellable()
}

func (r rules) next(d *keyset.Document, o fleet.Observation, now time.Time, request Request) Step {
	primary := d.Primary()
	if primary == nil {
		return verdict("", "", now, []Reason{{Code: NoPrimary}})
	}
	v := r.look(d, o, now, request)
	v.lookAtInstances(false)
	var pending []Step
	for _, k := range d.Keys {
		switch {
		case k.State == keyset.Retiring && !k.Drained.IsZero():
			pending = append(pending, v.retire(k, request.Force))
		case k.State == keyset.Retiring:
			pending = append(pending, v.drain(k))
		case k.State == keyset.Staged:
			pending = append(pending, v.promote(k, request.Force))
		}
	}
	if len(pending) == 0 {
		return v.begin(*primary, request)
	}
	return first(pending)
}

// first chooses among the steps that a keyset with several unfinished keys may take: a
// change before a wait; and what is blocked before what waits, since it has to be shown.
func first(pending []Step) Step {
	rank := map[Kind]int{Retire: 0, Drain: 1, Promote: 2, Blocked: 3, Wait: 4}
	slices.SortStableFunc(pending, func(a, b Step) int {
		return cmp.Or(cmp.Compare(rank[a.Kind], rank[b.Kind]), a.NotBefore.Compare(b.NotBefore))
	})
	step := pending[0]
	if step.Kind.Changes() {
		return step
	}
	for _, other := range pending[1:] {
		if step.NotBefore.IsZero() || !other.NotBefore.IsZero() && other.NotBefore.Before(step.NotBefore) {
			step.NotBefore = other.NotBefore
		}
	}
	return step
}

// verdict returns the step that reaches for a goal, given all that stands in the way. What
// the fleet does by itself blocks only once nothing else is waited for, and an instance is
// late.
func verdict(goal Kind, kid string, now time.Time, reasons []Reason) Step {
	rank := func(r Reason) int {
		switch {
		case r.Fault():
			return 0
		case r.lag():
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(reasons, func(a, b Reason) int { return cmp.Compare(rank(a), rank(b)) })
	s := Step{Kind: goal, Goal: goal, KID: kid, Reasons: reasons}
	for _, r := range reasons {
		if r.time() && r.Until.After(s.NotBefore) {
			s.NotBefore = r.Until
		}
	}
	switch {
	case len(reasons) == 0:
	case reasons[0].Fault() || s.NotBefore.IsZero() && late(reasons, now):
		s.Kind = Blocked
	default:
		s.Kind = Wait
	}
	return s
}

// late reports whether somebody has had the time to follow, and has not.
func late(reasons []Reason, now time.Time) bool {
	return slices.ContainsFunc(reasons, func(r Reason) bool { return r.lag() && !now.Before(r.Until) })
}

// begin begins a rotation if one is due.
func (v *view) begin(primary keyset.Key, request Request) Step {
	s := Step{Kind: Stage, Goal: Stage, KID: primary.KID}
	due := primary.Promoted.Add(v.p.MaxAge)
	if !v.now.Before(due) {
		s.Reasons = append(s.Reasons, Reason{Code: DueAge, KID: primary.KID, Until: due})
	}
	if seals := Seals(v.d, v.o, primary.KID, v.now); seals > BudgetDue {
		s.Reasons = append(s.Reasons, Reason{Code: DueBudget, KID: primary.KID, Seals: seals})
	}
	if request.Replace == primary.KID {
		s.Reasons = append(s.Reasons, Reason{Code: DueReplace, KID: primary.KID})
	}
	if len(s.Reasons) == 0 {
		return Step{Kind: Done, Goal: Done, KID: primary.KID, NotBefore: due}
	}
	if overtaken := v.overtaken(); len(overtaken) > 0 {
		s.Reasons = append(overtaken, s.Reasons...)
		if !request.Force {
			s.Kind = Blocked
		}
	}
	return s
}

// promote: nobody can come by a revision without the key any more, and everybody that is
// there verifies it; so when the first server seals with it, every other one accepts.
func (v *view) promote(k keyset.Key, force bool) Step {
	reasons := slices.Clone(v.faults)
	for _, p := range v.d.Peers {
		switch {
		case !slices.Contains(p.KIDs, k.KID):
			reasons = append(reasons, Reason{Code: PeerWithoutKey, Peer: p.Name, KID: k.KID})
		case !p.Confirmed:
			reasons = append(reasons, Reason{Code: PeerUnconfirmed, Peer: p.Name, KID: k.KID})
		}
	}
	for _, i := range v.live {
		if v.verifies && !slices.Contains(i.Report.Verifies, k.KID) {
			reasons = append(reasons, v.lacks(i, k))
		}
	}
	reasons = v.until(reasons, k.KID, k.Staged.Add(v.rules.promote(v.p)))
	s := verdict(Promote, k.KID, v.now, reasons)
	if force {
		s.Kind, s.NotBefore = Promote, time.Time{}
	}
	return s
}

// lacks tells why an instance does not verify a key.
func (v *view) lacks(i *fleet.Instance, k keyset.Key) Reason {
	reason := v.lag(NotVerifying, i, k.KID, k.Staged)
	for _, f := range i.Report.Failed {
		if f.KID == k.KID {
			reason.Code, reason.Failure = CannotUnwrap, &f
		}
	}
	if reason.Fault() {
		reason.Until = time.Time{} // it does not end by itself
	}
	return reason
}

// drain: nobody can come by a revision in which the key is primary any more, and
// everybody that is there seals with another one; so the last token under it is made.
func (v *view) drain(k keyset.Key) Step {
	reasons := slices.Clone(v.faults)
	for _, p := range v.d.Peers {
		switch {
		case !slices.Contains(p.KIDs, k.KID):
			// It was never given the key.
		case p.Primary == k.KID:
			reasons = append(reasons, Reason{Code: PeerSealing, Peer: p.Name, KID: k.KID})
		case !p.Confirmed:
			reasons = append(reasons, Reason{Code: PeerUnconfirmed, Peer: p.Name, KID: k.KID})
		}
	}
	for _, i := range v.live {
		switch {
		case !v.sealsOther:
		case i.Report.Primary == k.KID:
			reasons = append(reasons, v.lag(StillSealing, i, k.KID, k.Demoted))
		case i.Report.Primary == "":
			reason := about(NotSealing, i, k.KID)
			reason.Until = StartsUntil(&i.Report)
			reasons = append(reasons, reason)
		}
	}
	return verdict(Drain, k.KID, v.now, v.until(reasons, k.KID, k.Demoted.Add(v.rules.drain(v.p))))
}

// until adds that a revision from before the last change may still be found, by the clock
// as it was when the oldest report was made.
func (v *view) until(reasons []Reason, kid string, at time.Time) []Reason {
	at = latest(at, v.floor)
	if !v.oldest.Before(at) {
		return reasons
	}
	return append(reasons, Reason{Code: Settling, KID: kid, Until: v.now.Add(at.Sub(v.oldest))})
}

// retire: the last token under the key has expired by every clock. No report is needed;
// but if one shows that an assumption was broken, or that there is a later document, in
// which the key may be back in use, it is heeded. A key that stays harms nobody.
//
// A clock that this one is ahead of is such an assumption: this one has come to the end of
// the wait too early, or that instance accepts a token for longer than was reckoned with. A
// report from a registry proves none: that its time is past is its age.
func (v *view) retire(k keyset.Key, force bool) Step {
	reasons := v.overtaken()
	if at := v.drained(k).Add(v.rules.retire(v.p, k.MaxTTL)); v.now.Before(at) {
		reasons = append(reasons, Reason{Code: Expiring, KID: k.KID, Until: at})
	}
	for n := range v.o.Instances {
		i := &v.o.Instances[n]
		if i.Err != nil || i.Report.Lineage != v.d.Lineage {
			continue
		}
		if i.Live() && i.Report.Primary == k.KID {
			// Its tokens do not run out: it makes new ones, and time alone ends nothing.
			reasons = append(reasons, about(StillSealing, i, k.KID))
			continue
		}
		for _, use := range i.Report.Keys {
			until := use.LiveUntil.Add(v.p.MaxSkew)
			if use.KID == k.KID && !use.LiveUntil.IsZero() && v.now.Before(until) {
				reason := about(LiveTokens, i, k.KID)
				reason.Until = until
				reasons = append(reasons, reason)
			}
		}
	}
	slow := v.slow()
	switch {
	case !force:
		reasons = append(slow, reasons...)
	case len(reasons) == 0: // nothing but clocks, and somebody knows better
		return Step{Kind: Retire, Goal: Retire, KID: k.KID, Reasons: slow}
	}
	return verdict(Retire, k.KID, v.now, reasons)
}
