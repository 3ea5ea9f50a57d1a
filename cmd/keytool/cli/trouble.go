package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/rotation"
)

// What is wrong with an instance that can be relied on: it says so itself, or two addresses
// lead to it, or it is to be forgotten.
const (
	codeDegraded = rotation.Code("degraded")
	codeNotReady = rotation.Code("not_ready")
	codeTwice    = rotation.Code("listed_twice")
	codeAlive    = rotation.Code("alive")
)

// look asks the fleet. If somebody holds a later revision than the one that was read, that
// may have been written meanwhile: the document is read again, and the fleet is asked
// again.
func (o *opened) look(ctx context.Context) (now time.Time, obs fleet.Observation, err error) {
	now, obs = o.app.Now(), o.observe(ctx)
	newer := func(r rotation.Reason) bool { return r.Code == rotation.NewerRevision }
	if !slices.ContainsFunc(rotation.Faults(o.doc, obs, now), newer) {
		return now, obs, nil
	}
	if err := o.load(ctx); err != nil {
		return now, obs, err
	}
	now, obs = o.app.Now(), o.observe(ctx)
	return now, obs, nil
}

// A spot tells an instance from all others: one address may have several paths, each a
// source of its own.
type spot struct{ source, address string }

func spotOf(i *fleet.Instance) spot { return spot{i.Source, i.Address} }

func (r *reason) spot() spot { return spot{r.Source, r.Address} }

// troubles are what somebody has to act on, whether a rotation is open or not: what would
// block one, the grave first, and what servers say is wrong with them. At is before the
// fleet was asked.
func (j judge) troubles(at time.Time) []reason {
	found := rotation.Faults(j.doc, *j.obs, at)
	all := make([]reason, 0, len(found))
	ill := make(map[spot]bool)
	for _, r := range found {
		all = append(all, j.reason(r, rotation.Blocked))
		ill[spot{r.Source, r.Address}] = true
	}
	for _, r := range j.behind(at, func(r rotation.Reason) bool { return !j.patient(r) }) {
		all = append(all, r)
		if r.grave() {
			ill[r.spot()] = true
		}
	}
	inFront(all, reason.grave)
	for n := range j.obs.Instances {
		if i := &j.obs.Instances[n]; !ill[spotOf(i)] {
			for _, c := range j.complaints(i) {
				c.said = true
				all = append(all, c)
			}
		}
	}
	return append(all, j.twice()...)
}

// behind are the instances that hold an older revision than the document, as far as it is so.
// That one accepts a revoked key is for people to mend; that it follows late may mend itself.
func (j judge) behind(at time.Time, so func(rotation.Reason) bool) (all []reason) {
	for _, r := range rotation.Obeyed(j.doc, *j.obs, at).Reasons {
		if r.Code == rotation.Behind && so(r) {
			out := j.reason(r, rotation.Blocked)
			out.said = r.KID == ""
			all = append(all, out)
		}
	}
	return all
}

// twice are the instances that two sources list at different places. One of the two may be
// that of a balancer, or of another instance, which nobody hears then. That a name leads to
// one process by several addresses, or that a registry has it as well, is as it should be.
func (j judge) twice() (all []reason) {
	hosts, answered := make(map[string]bool), make(map[string]bool)
	for _, s := range j.obs.Sources {
		hosts[hostOf(s)] = true
	}
	for i := range j.obs.Instances {
		answered[j.obs.Instances[i].Source] = true
	}
	for _, f := range j.obs.Failures {
		answered[f.Source] = true
	}
	for n := range j.obs.Instances {
		i := &j.obs.Instances[n]
		listed := hostOf(i.Source) != ""
		for _, also := range i.Also {
			if hosts[also] || listed && also != i.Report.ID {
				all = append(all, j.answeredByOne(i, i.Address, also))
			}
		}
		for _, s := range j.obs.Sources { // of one host and port, with another path
			if listed && hostOf(s) == i.Address && !answered[s] {
				all = append(all, j.answeredByOne(i, i.Source, s))
			}
		}
	}
	return all
}

func (j judge) answeredByOne(i *fleet.Instance, one, other string) reason {
	said := rotation.About(codeTwice, i)
	said.Detail = one + " and " + other + " are answered by one process"
	r := j.reason(said, rotation.Blocked)
	r.Fix = "see whether one of the two is a balancer, or has a wrong port: an instance behind it is not heard; if both are of one server, leave one out of --fleet"
	r.said = true
	return r
}

// hostOf returns the HOST:PORT of a source that is one address, "" of any other.
func hostOf(source string) string {
	address, ok := strings.CutPrefix(source, "http://")
	if !ok {
		return ""
	}
	host, _, _ := strings.Cut(address, "/")
	return host
}

// complaints are what an instance says is wrong with it.
func (j judge) complaints(i *fleet.Instance) (all []reason) {
	r := &i.Report
	if i.Err != nil || !i.Live() || r.Stopped {
		return nil
	}
	for _, f := range r.Failed {
		failed := rotation.About(rotation.CannotUnwrap, i)
		failed.KID, failed.Failure = f.KID, &f
		all = append(all, j.reason(failed, rotation.Blocked))
	}
	said := rotation.About(codeDegraded, i)
	switch until := rotation.StartsUntil(r); {
	case r.Ready && r.Reason == "", j.now.Before(until):
		return all
	case !until.IsZero():
		said.Code, said.Detail = codeNotReady, "starts since "+clock(r.Started, j.now)
	case r.Ready:
		said.Detail = "degraded: " + r.Reason
	default:
		said.Code, said.Detail = codeNotReady, "not ready: "+r.Reason
	}
	out := j.reason(said, rotation.Blocked)
	out.Fix = "look after " + out.label + ": its log, its store, its key services"
	return append(all, out)
}

// because says why an instance is not well, in its own words if it has some.
func because(i *fleet.Instance) string {
	switch r := &i.Report; {
	case r.Reason != "":
		return r.Reason
	case len(r.Failed) > 0:
		f := rotation.About(rotation.CannotUnwrap, i)
		f.KID, f.Failure = r.Failed[0].KID, &r.Failed[0]
		return "it " + saidOf(f.String(), f.Instance)
	default:
		return r.Health()
	}
}

// headline is a reason in the first line of a report; what is said of its instance, if it
// has one.
func headline(r rotation.Reason, what string) string {
	switch r.Code {
	case rotation.Unreachable:
		return r.Instance + " is unreachable"
	case rotation.Malformed:
		return r.Instance + " answers with what is no report"
	case rotation.BadMAC:
		return r.Instance + " does not hold this keyset"
	case rotation.SourceFailed:
		return "the source " + r.Source + " failed"
	case rotation.NoSource:
		return "the policy asks for reports, and no source of them is given"
	}
	if r.Instance != "" {
		return r.Instance + ": " + what
	}
	return what
}

// grave reports whether servers and store have parted: servers refuse what is in the store,
// and one that starts again takes up what the others have left behind, or they accept what
// is revoked; or whether the clock here is behind the last change, so that none is made.
func (r reason) grave() bool {
	return leftBehind(r.Code) || r.Code == codeClockBehind || r.Code == rotation.Behind && r.KID != ""
}

// warn adds what somebody has to act on, be it known already. At is before the fleet was
// asked.
func (j judge) warn(o *outlook, at time.Time, known ...reason) {
	troubles := append(known, j.troubles(at)...)
	inFront(troubles, reason.grave)
	if budget, spent := j.spent(); spent {
		troubles = append(troubles, budget)
		o.Reasons = slices.DeleteFunc(o.Reasons, func(r reason) bool { return r.Code == rotation.DueBudget })
	}
	troubles = slices.DeleteFunc(troubles, func(t reason) bool {
		return slices.ContainsFunc(o.Reasons, func(r reason) bool {
			// What a rotation waits for says it already, maybe in other words.
			return r.spot() == t.spot() && (r.Code == t.Code || t.Code == codeDegraded || t.Code == codeNotReady || t.Code == rotation.Behind && !t.grave())
		})
	})
	if len(troubles) == 0 {
		return
	}
	o.Reasons = slices.Concat(troubles, o.Reasons)
	inFront(o.Reasons, reason.grave) // those that the step has, too: until they are settled no other remedy works
	// By a clock that is behind not even what blocks is waited for.
	if o.Verdict == verdictBlocked && troubles[0].Code != codeClockBehind {
		return
	}
	verdict, summary := alarm(troubles)
	if o.Verdict != verdictOK {
		summary += "; " + o.Summary
	}
	if o.Verdict, o.Summary = verdict, summary; verdict == verdictBlocked {
		o.Then = "settle that before you rotate; then: keytool status"
	}
}

// alarm is the verdict where there is trouble, and the first line, which names it.
func alarm(troubles []reason) (verdict, summary string) {
	verdict, summary = verdictWarning, troubles[0].head
	if slices.ContainsFunc(troubles, reason.grave) {
		verdict = verdictBlocked
	}
	if more := len(troubles) - 1; more > 0 {
		summary += fmt.Sprintf(", and %d more", more)
	}
	return verdict, summary
}

// spent warns that a key has sealed nearly all that it may.
func (j judge) spent() (reason, bool) {
	kid := j.doc.Primary().KID
	seals := rotation.Seals(j.doc, *j.obs, kid, j.now)
	text := budgetText(seals, kid)
	return reason{
		Code: rotation.DueBudget, Text: text, KID: kid, label: "why", line: text, head: text,
		Fix: "replace the key now: keytool rotate --wait, and if that is blocked remove what is in its way",
	}, seals > rotation.BudgetAlarm
}

func budgetText(seals int64, kid string) string {
	return fmt.Sprintf("about %s tokens were sealed with %s, %s of what a key may seal", shortCount(seals), kid, shareOfBudget(seals))
}
