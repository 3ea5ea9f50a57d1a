package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

type revokeFlags struct {
	all, noWait bool
	clean       string
}

func (a *app) revokeCommand() *cobra.Command {
	var r revokeFlags
	cmd := &cobra.Command{
		Use:   "revoke KID… --reason TEXT",
		Short: "Emergency: a key stops verifying, and its tokens are refused",
		Long: `revoke takes keys out of use at once, because they have leaked: every token under them is
refused, for good, and whoever holds one starts over. Retiring a key does not do that.

If the primary is among them another key becomes primary in the same revision: a staged
key that every instance verifies already; else the retiring key that --clean names; else
a new one. From the moment of the change until every instance has read it, instances do
not accept each other's tokens; it is seconds, and revoke says before what to expect.

It then waits until every instance has obeyed, and says when: until then an instance that
has not read the change still accepts tokens under the revoked keys. If one has read it and
cannot open the new key, revoke names it and exits 6. Interrupted, or with --no-wait, the
change is there; run again it only waits.

If it is the key service that has leaked, name another one first, which the servers have
as well:

  keytool revoke --all --reason "key file copied" --key-service NEW --key-service OLD
  keytool rewrap --add NEW
  keytool rewrap --drop OLD

The keyset's auth key stays, and whoever has the old key-encryption key has that: disable
the key, or begin a new lineage with keytool init --replace.`,
		Example: `  keytool revoke 4c11d0e2 --reason "in a core dump"
  keytool revoke --all --reason "backup stolen" --yes`,
		Args: usageArgs(cobra.ArbitraryArgs),
		RunE: func(cmd *cobra.Command, args []string) error { return a.revoke(cmd, args, r) },
	}
	a.writeFlags(cmd)
	a.yesFlag(cmd)
	f := cmd.Flags()
	f.BoolVar(&r.all, "all", false, "revoke every key, and go on with a new one")
	f.BoolVar(&r.noWait, "no-wait", false, "do not wait until every instance has obeyed: keytool status tells")
	f.StringVar(&r.clean, "clean", "", "the retiring key `KID` did not leak: it becomes primary if no staged key can")
	return cmd
}

type revokeReport struct {
	outlook
	DryRun    bool       `json:"dry_run,omitempty"`
	Revoked   []string   `json:"revoked"`           // key ids
	Primary   string     `json:"primary,omitempty"` // the key that seals from then on; "" for a new one, with dry_run
	Successor string     `json:"successor"`         // kept, staged, clean or new
	Expect    []string   `json:"expect"`            // what will break, and for how long
	Obeyed    string     `json:"obeyed,omitempty"`  // since when no instance accepts the revoked keys
	Keyset    keysetJSON `json:"keyset"`
}

func (r *revokeReport) text(p *printer) {
	var lines []labelled
	if r.DryRun {
		for _, e := range r.Expect {
			lines = append(lines, labelled{"expect", e})
		}
	}
	r.outlook.text(p, r.DryRun, append(lines, r.Keyset.label())...)
}

func (a *app) revoke(cmd *cobra.Command, kids []string, flags revokeFlags) error {
	switch {
	case flags.all == (len(kids) > 0):
		return usagef("name the keys to revoke, or --all; keytool status shows them")
	case flags.all && flags.clean != "":
		return usagef("--all leaves no key that is clean: leave out --clean")
	}
	all := slices.Concat(kids, named(flags.clean))
	for _, kid := range all {
		if err := checkKID(kid); err != nil {
			return err
		}
	}
	ctx, cancel := a.context(cmd)
	defer cancel()
	o, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	if _, err := o.store(); err != nil {
		return err
	}
	// Whoever has mistyped a key id is told so before anything is asked.
	for _, kid := range all {
		if err := o.had(kid); err != nil {
			return err
		}
	}
	if a.flags.reason == "" {
		return usagef("revoke needs --reason: the history and refused tokens are explained with it")
	}
	obs := o.observe(ctx)
	plan, err := o.planRevocation(kids, flags, &obs)
	if err != nil {
		return err
	}
	if err := o.makeSuccessor(cmd.Context(), plan); err != nil {
		return err
	}
	r := plan.report(o, &obs)
	if len(plan.revoke) > 0 {
		r.Expect = append(r.Expect, expected(o.behindHistory(), judge{o.doc, &obs, a.Now()}.overtaken(obs.Began))...)
	}
	a.report = r
	if a.flags.dryRun {
		if len(plan.revoke) == 0 {
			return nil
		}
		return a.pendingIfAsked()
	}
	if len(plan.revoke) > 0 {
		a.expect(r.Expect)
		if err := a.agreed("Revoking " + list(plan.revoke)); err != nil {
			a.report = nil
			return err
		}
		if err := o.carryOut(cmd.Context(), plan, r); err != nil {
			a.report = nil
			return err
		}
		a.note("%s revoked %s as revision %d", ceil(a.Now()).Format("15:04:05Z"), list(plan.revoke), o.doc.Revision)
	}
	if flags.noWait {
		return nil
	}
	return a.wait(cmd, func(ctx context.Context) (turn, error) { return o.obeyed(ctx, r), nil })
}

func named(kid string) []string {
	if kid == "" {
		return nil
	}
	return []string{kid}
}

// What seals when keys are revoked.
const (
	successorKept   = "kept"   // the primary, which is not among them
	successorStaged = "staged" // the staged key, which every instance verifies
	successorClean  = "clean"  // the retiring key that the operator names
	successorNew    = "new"    // a key made for it
)

// A revocation is what revoke is going to do.
type revocation struct {
	revoke    []string // key ids, without those that are revoked already
	already   []string
	successor string // kept, staged, clean or new
	primary   string // the key that seals then; "" for a new one
	abort     string // a staged key that makes way for the new one
	fresh     keyset.Key
}

// planRevocation chooses what seals when the keys are revoked.
func (o *opened) planRevocation(kids []string, flags revokeFlags, obs *fleet.Observation) (*revocation, error) {
	d := o.doc
	p := &revocation{successor: successorKept, primary: d.Primary().KID}
	if flags.all {
		for _, k := range d.Keys {
			if k.Unseals() {
				kids = append(kids, k.KID)
			}
		}
	}
	for _, kid := range uniq(kids) {
		switch k := d.Key(kid); {
		case k == nil:
			return nil, fmt.Errorf("%s, so no server of the keyset %s accepts it", whereabouts(d, kid), d.Name)
		case k.State == keyset.Revoked:
			p.already = append(p.already, kid)
		default:
			p.revoke = append(p.revoke, kid)
		}
	}
	if !slices.Contains(p.revoke, p.primary) {
		return p, nil
	}
	staged := keyIn(d, keyset.Staged)
	if slices.Contains(p.revoke, staged) {
		staged = ""
	}
	switch clean := d.Key(flags.clean); {
	case staged != "" && o.verified(staged, obs):
		p.successor, p.primary = successorStaged, staged
	case flags.clean == "":
		p.successor, p.primary, p.abort = successorNew, "", staged
	case clean == nil || clean.State != keyset.Retiring || slices.Contains(p.revoke, flags.clean):
		return nil, fmt.Errorf("%s cannot become primary: --clean names a key that is retiring and is not revoked", flags.clean)
	default:
		p.successor, p.primary = successorClean, flags.clean
	}
	return p, nil
}

// verified reports whether every instance accepts a staged key: whether it could be
// promoted now.
func (o *opened) verified(kid string, obs *fleet.Observation) bool {
	if s := rotation.Next(o.doc, *obs, o.app.Now(), rotation.Request{}); s.Kind == rotation.Promote && s.KID == kid {
		return true
	}
	known := 0
	for i := range obs.Instances {
		in := &obs.Instances[i]
		if !in.Live() {
			continue
		}
		if in.Err != nil || in.Report.Lineage != o.doc.Lineage || !slices.Contains(in.Report.Verifies, kid) {
			return false
		}
		known++
	}
	return known > 0 && len(obs.Failures) == 0
}

// report says what the revocation will do and break.
func (p *revocation) report(o *opened, obs *fleet.Observation) *revokeReport {
	r := &revokeReport{DryRun: o.app.flags.dryRun, Revoked: slices.Concat(p.already, p.revoke), Primary: p.primary, Successor: p.successor, Expect: []string{}, Keyset: o.keyset()}
	r.Verdict, r.Summary = verdictDue, "revoke "+list(p.revoke)
	if len(p.revoke) == 0 {
		r.Verdict, r.Summary = verdictOK, list(p.already)+" was revoked before"
	}
	for _, kid := range p.revoke {
		r.Expect = append(r.Expect, breaks(o.doc.Key(kid)))
	}
	switch p.successor {
	case successorStaged:
		r.Expect = append(r.Expect, p.primary+", which every instance verifies already, becomes primary")
	case successorClean:
		r.Expect = append(r.Expect, p.primary+" becomes primary again")
	case successorNew:
		text := "a new key becomes primary"
		if p.abort != "" {
			text += "; the staged key " + p.abort + ", which not every instance verifies, is dropped"
		}
		r.Expect = append(append(r.Expect, text), o.unopened(obs, p.fresh.Wrapped[0].Service)...)
	}
	switch {
	case p.successor == successorNew:
		r.Expect = append(r.Expect, "until an instance has read the change it refuses tokens of those that have, and is refused by them: "+window(obs))
	case len(p.revoke) > 0:
		r.Expect = append(r.Expect, "until an instance has read the change it goes on as before: "+window(obs))
	}
	return r
}

// breaks says what revoking a key costs.
func breaks(k *keyset.Key) string {
	switch {
	case k.State == keyset.Staged:
		return fmt.Sprintf("%s is staged: no token was ever sealed with it, none is lost", k.KID)
	case k.State == keyset.Retiring:
		return fmt.Sprintf("%s is retiring: its last tokens are refused, up to %s old; those clients start over", k.KID, shortDuration(k.MaxTTL))
	default:
		return fmt.Sprintf("%s is primary: every round in flight is refused, up to %s old; those clients start over", k.KID, shortDuration(k.MaxTTL))
	}
}

// window says how long it takes until every instance has read a change.
func window(obs *fleet.Observation) string {
	var every time.Duration
	var unknown []string
	for i := range obs.Instances {
		in := &obs.Instances[i]
		switch {
		case !in.Live():
		case in.Err != nil || !in.Report.Fresh(obs.Ended):
			unknown = append(unknown, displayName(obs, in))
		default:
			every = max(every, in.Report.Every)
		}
	}
	text := fmt.Sprintf("about %s, which is how often they look", shortDuration(every))
	if every == 0 {
		text = "nobody reports, so how long is not known; at the latest when each is started again"
	}
	if len(unknown) > 0 {
		text += "; of " + list(unknown) + " it is not known"
	}
	if len(obs.Failures) > 0 {
		text += "; not every source answered"
	}
	return text
}

// makeSuccessor makes the new key, if there is to be one. It comes before the question whether
// to go on, since it tells which key service the servers need.
func (o *opened) makeSuccessor(ctx context.Context, p *revocation) (err error) {
	if p.successor != successorNew {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(defaultTimeout, o.app.flags.timeout))
	defer cancel()
	if p.fresh, err = o.doc.GenerateKey(ctx, o.services, o.app.Now()); err != nil {
		return fmt.Errorf("making the new key: %w; nothing was revoked", err)
	}
	return nil
}

// carryOut makes the change, in one revision.
func (o *opened) carryOut(ctx context.Context, p *revocation, r *revokeReport) error {
	ctx, cancel := context.WithTimeout(ctx, max(defaultTimeout, o.app.flags.timeout))
	defer cancel()
	if p.successor == successorNew {
		p.primary = p.fresh.KID
	}
	next, stamp := o.doc.Next(), o.stamp()
	if err := p.apply(next, stamp); err != nil {
		return err
	}
	if err := o.save(ctx, next, stamp.At, p.successor != successorKept, p.primary); err != nil {
		return err
	}
	r.Verdict, r.Summary, r.Primary, r.Keyset = verdictDone, fmt.Sprintf("revoked %s as revision %d; %s is primary", list(p.revoke), next.Revision, p.primary), p.primary, o.keyset()
	r.Then = "keytool status shows whether every instance has obeyed"
	return nil
}

// apply makes the change in next: what does not seal goes first, so that there is room for
// a new key, and the primary last.
func (p *revocation) apply(next *keyset.Document, n keyset.Note) error {
	old := next.Primary().KID
	for _, kid := range p.revoke {
		if kid == old {
			continue
		}
		if err := next.Revoke(n, kid); err != nil {
			return err
		}
	}
	if p.successor == successorKept {
		return nil
	}
	if err := p.succeed(next, n); err != nil {
		return err
	}
	return next.Revoke(n, old)
}

// succeed makes another key primary.
func (p *revocation) succeed(next *keyset.Document, n keyset.Note) error {
	switch p.successor {
	case successorStaged:
		return next.Promote(n, p.primary)
	case successorClean:
		return next.Rollback(n, p.primary)
	}
	if p.abort != "" {
		if err := next.Abort(n, p.abort); err != nil {
			return err
		}
	}
	if err := next.Stage(n, p.fresh); err != nil {
		return err
	}
	return next.Promote(n, p.fresh.KID)
}

// obeyed looks whether every instance holds the revocation, and whether those that do have a
// key to seal with.
func (o *opened) obeyed(ctx context.Context, r *revokeReport) turn {
	now := o.app.Now()
	obs := o.observe(ctx)
	step := rotation.Obeyed(o.doc, obs, now)
	j := judge{o.doc, &obs, o.app.Now()}
	unable := j.unable()
	waits := slices.ContainsFunc(unable, j.patient)
	if step.Kind == rotation.Done && !waits {
		return o.outOfUse(r, j, unable)
	}
	if step.Kind == rotation.Done {
		step.Kind = rotation.Wait
	}
	if slices.ContainsFunc(unable, func(reason rotation.Reason) bool { return !j.patient(reason) }) {
		step.Kind = rotation.Blocked
	}
	step.Reasons = append(unable, step.Reasons...)
	r.outlook = j.outlook(step)
	r.Summary = fmt.Sprintf("%s is revoked as revision %d, and %s", list(r.Revoked), o.doc.Revision, r.Summary)
	r.Then = "run the command again: it goes on waiting"
	t := turn{until: step.NotBefore, pause: pauseUntil(step.NotBefore, j.now, o.doc.Policy), code: pending}
	t.line = "obeyed by " + j.countLive(func(report *fleet.Report) bool { return report.Revision >= o.doc.Revision })
	if j.timed() {
		t.line = "giving every server the time to obey"
	}
	t.tell(j, step)
	return t
}

// outOfUse reports that the revoked keys are out of use, and ends the wait: with a block if
// instances have obeyed and cannot seal, which no waiting mends.
func (o *opened) outOfUse(r *revokeReport, j judge, unable []rotation.Reason) turn {
	r.Obeyed = formatTime(j.now)
	r.outlook = outlook{
		Verdict: verdictDone,
		Summary: fmt.Sprintf("%s is out of use: every instance has obeyed, as seen at %s", list(r.Revoked), r.Obeyed),
		Then:    "keytool status; if a key service or a host leaked, see keytool revoke --help",
	}
	t := turn{about: "obeyed", line: "every instance has obeyed: " + j.countLive(func(*fleet.Report) bool { return true }), finished: true}
	switch {
	case j.timed():
		r.Summary = fmt.Sprintf("%s is out of use: every server has had the time to obey, at %s", list(r.Revoked), r.Obeyed)
		t.line = "every server has had the time to obey"
	case len(unable) > 0:
		cannot := fmt.Sprintf("%d of %s cannot seal", len(unable), count(j.live(), "instance"))
		step := rotation.Step{Kind: rotation.Blocked, Goal: rotation.Obey, Reasons: unable}
		r.Verdict, r.Summary, r.Reasons = verdictBlocked, r.Summary+"; but "+cannot, j.outlook(step).Reasons
		r.Then = "keytool status shows who seals again"
		t.finished, t.hopeless = false, true
		t.line += "; but " + cannot
		t.tell(j, step)
	}
	return t
}
