package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

func (a *app) statusCommand() *cobra.Command {
	var history bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Shows how the keyset and the fleet are, and what comes next",
		Long: `status says in its first line how things are; below it, if something is wrong, with whom,
and what to do about it. Then come the keyset, where the rotation is, every key, every
instance and every peer.

  OK       nothing is unfinished, and nothing is due
  DUE      there is something to do: keytool rotate --wait
  WAITING  time has to pass, or the fleet has to follow; all is well
  WARNING  nothing is in the way yet, but something will be, or a server is not well
  BLOCKED  somebody has to do something; no key is lost meanwhile

It exits 0 whatever it finds; with --exit-code 6 if it says BLOCKED, and 3 if it says
anything else but OK. If the keyset cannot be read, because it is lost or damaged or the
store does not answer, it exits 1, and shows all the same what the instances say, which
nothing can check then.`,
		Example: "  keytool status\n  keytool status --history\n  keytool status -o json --exit-code",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := a.context(cmd)
			defer cancel()
			return a.status(ctx, history)
		},
	}
	a.keysetFlags(cmd)
	a.exitCodeFlag(cmd, "exit 6 if it says BLOCKED, 3 if it says anything else but OK")
	cmd.Flags().BoolVar(&history, "history", false, "show who did what and why: the last 50 changes")
	return cmd
}

func (a *app) status(ctx context.Context, history bool) error {
	o, err := a.openOrHear(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	at, obs, err := o.look(ctx)
	if err != nil {
		return err
	}
	r := newStatus(o, &obs, rotation.Next(o.doc, obs, at, rotation.Request{}), at)
	if history {
		r.History = newHistory(o.doc)
	}
	a.report = r
	switch {
	case !a.flags.exitCode || r.Verdict == verdictOK:
		return nil
	case r.Verdict == verdictBlocked:
		return exit(blocked)
	default:
		return exit(pending)
	}
}

type statusReport struct {
	outlook
	Keyset   keysetJSON    `json:"keyset"`
	Rotation rotationJSON  `json:"rotation"`
	Keys     []keyJSON     `json:"keys"`
	Fleet    *fleetJSON    `json:"fleet"`
	Peers    []peerJSON    `json:"peers,omitempty"`
	History  []historyJSON `json:"history,omitempty"`

	now time.Time
}

type keysetJSON struct {
	Name     string `json:"name"`
	Lineage  string `json:"lineage"`
	Revision int64  `json:"revision"`
	TTL      string `json:"ttl"`
	Tag      string `json:"tag"`
	Store    string `json:"store"`
}

// newStatus makes the report; at is before the fleet was asked.
func newStatus(o *opened, obs *fleet.Observation, step rotation.Step, at time.Time) *statusReport {
	d, now := o.doc, o.app.Now()
	j := judge{d, obs, now}
	r := &statusReport{
		outlook: j.outlook(step), now: now,
		Keyset:   keysetJSON{Name: d.Name, Lineage: d.Lineage, Revision: d.Revision, TTL: d.TTL.String(), Tag: "ok", Store: o.place()},
		Rotation: newRotation(d, step, now),
		Fleet:    newFleet(d, obs),
	}
	for _, k := range d.Keys {
		r.Keys = append(r.Keys, newKey(d, obs, k, now))
	}
	for _, p := range d.Peers {
		r.Peers = append(r.Peers, peerJSON{Name: p.Name, KIDs: p.KIDs, SealsWith: p.Primary, Confirmed: p.Confirmed, TTL: p.TTL.String(), ttl: p.TTL})
	}
	if step.Kind == rotation.Done {
		r.Summary = j.nothingDue()
		r.Then = fmt.Sprintf("keytool rotate --wait, when it is due; to rotate now: keytool rotate --replace %s --wait", step.KID)
	}
	if step.Kind == rotation.Stage {
		r.Summary = "the primary " + step.KID + " is to be replaced"
	}
	j.obeying(&r.outlook, at)
	j.warn(&r.outlook, at, o.clocks()...)
	return r
}

// obeying adds who has yet to read that a key is revoked, and has the time to.
func (j judge) obeying(o *outlook, at time.Time) {
	waits := j.behind(at, func(r rotation.Reason) bool { return r.KID != "" && j.patient(r) })
	if len(waits) == 0 {
		return
	}
	o.Reasons = append(waits, o.Reasons...)
	if o.Verdict == verdictOK {
		has := map[bool]string{true: "has", false: "have"}[len(waits) == 1]
		o.Verdict, o.Summary = verdictWaiting, fmt.Sprintf("%s is revoked, and %d of %s %s yet to read that", waits[0].KID, len(waits), count(j.live(), "instance"), has)
		o.Then = "keytool status"
	}
}

// nothingDue says how long nothing is due.
func (j judge) nothingDue() string {
	k := j.doc.Primary()
	due := k.Promoted.Add(j.doc.Policy.MaxAge)
	return fmt.Sprintf("%s is primary for %s, and due to be replaced %s, in %s", k.KID, shortDuration(max(0, j.now.Sub(k.Promoted)).Truncate(time.Second)), formatTime(due), left(due, j.now))
}

// A rotationJSON tells where a rotation is.
type rotationJSON struct {
	Phase  string      `json:"phase"` // distribute, promote or retire: the first that is not over; none
	State  string      `json:"state"` // none, due, waiting or blocked
	Phases []phaseJSON `json:"phases,omitempty"`

	phases []rotation.Phase
	due    time.Time // when the next one is due
}

type phaseJSON struct {
	Name  string              `json:"name"`
	State rotation.PhaseState `json:"state"`
	Since string              `json:"since,omitempty"`
	At    string              `json:"at,omitempty"` // when it was over, or can be at the earliest
}

func newRotation(d *keyset.Document, step rotation.Step, now time.Time) rotationJSON {
	r := rotationJSON{Phase: "none", State: "none", due: step.NotBefore, phases: rotation.Phases(d, now, step)}
	for _, p := range r.phases {
		if r.Phase == "none" && p.State != rotation.Over {
			r.Phase = p.Name
		}
		r.Phases = append(r.Phases, phaseJSON{Name: p.Name, State: p.State, Since: formatTime(p.Since), At: formatTime(p.At)})
	}
	switch {
	case step.Kind.Changes():
		r.State = verdictDue
	case step.Kind == rotation.Wait:
		r.State = verdictWaiting
	case step.Kind == rotation.Blocked:
		r.State = verdictBlocked
	}
	return r
}

// line writes the three phases, each with what came or comes of it.
func (r *rotationJSON) line(now time.Time) string {
	if len(r.phases) == 0 {
		switch r.State {
		case verdictDue:
			return "–   due now"
		case verdictBlocked:
			return "–   due now, blocked"
		}
		return "–   next due " + clock(r.due, now)
	}
	all := make([]string, len(r.phases))
	for i, p := range r.phases {
		mark := "–"
		switch {
		case p.State == rotation.Over:
			mark = "✓ " + clock(p.At, now)
		case p.State == rotation.Stuck:
			mark = "✗ blocked " + shortDuration(max(0, now.Sub(p.Since)).Truncate(time.Second))
		case p.State == rotation.Running && p.Name == r.Phase && r.State == verdictDue:
			mark = "→ now"
		case p.State == rotation.Running:
			mark = "… not before " + clock(p.At, now)
		}
		all[i] = fmt.Sprintf("%d %s %s", i+1, p.Name, mark)
	}
	return strings.Join(all, "   ")
}

type keyJSON struct {
	KID       string   `json:"kid"`
	State     string   `json:"state"`
	Created   string   `json:"created"`
	Staged    string   `json:"staged,omitempty"`
	Promoted  string   `json:"promoted,omitempty"`
	Demoted   string   `json:"demoted,omitempty"`
	Drained   string   `json:"drained,omitempty"`
	Revoked   string   `json:"revoked,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	MaxTTL    string   `json:"max_ttl,omitempty"`
	LiveUntil string   `json:"live_until,omitempty"` // the latest expiry that was reported
	Seals     int64    `json:"seals"`                // an estimate over the fleet
	WrappedBy []string `json:"wrapped_by,omitempty"`

	age, lastSeal string
}

func newKey(d *keyset.Document, obs *fleet.Observation, k keyset.Key, now time.Time) keyJSON {
	j := keyJSON{
		KID: k.KID, State: string(k.State), Created: formatTime(k.Created), Staged: formatTime(k.Staged), Promoted: formatTime(k.Promoted),
		Demoted: formatTime(k.Demoted), Drained: formatTime(k.Drained), Revoked: formatTime(k.Revoked), Reason: k.Reason,
		Seals: rotation.Seals(d, *obs, k.KID, now), age: shortDuration(max(0, now.Sub(k.Created)).Truncate(time.Second)), lastSeal: "–",
	}
	if k.Unseals() {
		j.MaxTTL = k.MaxTTL.String()
	}
	for _, w := range k.Wrapped {
		j.WrappedBy = append(j.WrappedBy, w.Service)
	}
	if until, ttl := liveUntil(d, obs, k.KID); !until.IsZero() {
		j.LiveUntil = formatTime(until)
		j.lastSeal = shortDuration(max(0, now.Sub(until.Add(-ttl))).Truncate(time.Second)) + " ago"
	}
	return j
}

// liveUntil returns the latest expiry of any token under a key that was reported, and how
// long the tokens of that instance live.
func liveUntil(d *keyset.Document, obs *fleet.Observation, kid string) (until time.Time, ttl time.Duration) {
	for i := range obs.Instances {
		r := &obs.Instances[i].Report
		if obs.Instances[i].Err != nil || r.Lineage != d.Lineage {
			continue
		}
		for _, use := range r.Keys {
			if use.KID == kid && use.LiveUntil.After(until) {
				until, ttl = use.LiveUntil, r.TTL
			}
		}
	}
	return until, ttl
}

type peerJSON struct {
	Name      string   `json:"name"`
	KIDs      []string `json:"kids"`
	SealsWith string   `json:"seals_with"`
	Confirmed bool     `json:"confirmed"`
	TTL       string   `json:"ttl"`

	ttl time.Duration
}

type historyJSON struct {
	At     string `json:"at"`
	Action string `json:"action"`
	KID    string `json:"kid,omitempty"`
	Actor  string `json:"actor"`
	Reason string `json:"reason,omitempty"`
}

func newHistory(d *keyset.Document) []historyJSON {
	all := []historyJSON{}
	for _, e := range slices.Backward(d.History) {
		all = append(all, historyJSON{At: formatTime(e.At), Action: e.Action, KID: e.KID, Actor: e.Actor, Reason: e.Reason})
	}
	return all
}

// maxRevoked is how many revoked keys people are shown; JSON has all.
const maxRevoked = 3

func (r *statusReport) text(p *printer) {
	r.outlook.text(p, false)
	k := r.Keyset
	p.linef("")
	ttl, _ := time.ParseDuration(k.TTL) // as it was written above
	p.linef("keyset    %s   revision %d   ttl %s   tag %s   %s", k.Name, k.Revision, shortDuration(ttl), k.Tag, k.Store)
	p.linef("rotation  %s", r.Rotation.line(r.now))
	p.linef("")
	r.keys(p)
	if len(r.Fleet.Instances) > 0 || len(r.Fleet.Failures) > 0 {
		p.linef("")
		r.Fleet.text(p, r.stagedKID())
	}
	if len(r.Peers) > 0 {
		p.linef("")
		r.peers(p)
	}
	if len(r.History) > 0 {
		p.linef("")
		rows := make([][]string, len(r.History))
		for i, e := range r.History {
			rows[i] = []string{e.At, e.Action, orDash(e.KID), e.Actor, e.Reason}
		}
		p.table([]string{"AT", "ACTION", "KID", "ACTOR", "REASON"}, rows...)
	}
}

func (r *statusReport) stagedKID() string {
	for _, k := range r.Keys {
		if k.State == string(keyset.Staged) {
			return k.KID
		}
	}
	return ""
}

func (r *statusReport) keys(p *printer) {
	var rows [][]string
	var revoked []keyJSON
	for _, k := range r.Keys {
		if k.State == string(keyset.Revoked) {
			revoked = append(revoked, k)
			continue
		}
		by := make([]string, len(k.WrappedBy))
		for i, service := range k.WrappedBy {
			by[i] = shortService(service)
		}
		rows = append(rows, []string{k.KID, k.State, k.age, k.lastSeal, shortCount(k.Seals), shareOfBudget(k.Seals), strings.Join(by, ", ")})
	}
	slices.SortFunc(revoked, func(a, b keyJSON) int { return strings.Compare(b.Revoked, a.Revoked) })
	shown, more := sparingly(revoked, maxRevoked)
	for _, k := range shown {
		rows = append(rows, []string{k.KID, k.State, k.age, "–", "–", "–", "revoked " + k.Revoked})
	}
	p.table([]string{"KID", "STATE", "AGE", "LAST SEAL", ">SEALS", ">OF 2^32", "WRAPPED BY"}, rows...)
	if more > 0 {
		p.linef("and %s more; -o json has them", count(more, "revoked key"))
	}
}

func (r *statusReport) peers(p *printer) {
	var rows [][]string
	for _, peer := range r.Peers {
		confirmed := "NO"
		if peer.Confirmed {
			confirmed = "yes"
		}
		rows = append(rows, []string{peer.Name, orDash(peer.SealsWith), strings.Join(peer.KIDs, " "), confirmed, flagDuration(peer.ttl)})
	}
	p.table([]string{"PEER", "SEALS WITH", "HOLDS", "CONFIRMED", "TTL"}, rows...)
}
