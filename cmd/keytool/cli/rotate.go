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

func (a *app) rotateCommand() *cobra.Command {
	var r rotateFlags
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Takes the next safe step of a rotation; with --wait, all of them",
		Long: `rotate replaces the primary key in three phases, and no token inside its time to live is
refused meanwhile:

  1 distribute   a new key is staged: servers accept it and do not seal with it
  2 promote      once every instance has proved that it accepts it, it becomes primary
  3 retire       once every instance seals with it, and the last token under the old key
                 has expired, the old key goes

It finishes what is open; else it begins only when a rotation is due: the primary is
older than max-age, has sealed half of what a key may seal, or is named by --replace. Run
it from cron, with or without --wait: it is safe to interrupt and to run again, and of two
that run at once one wins. Retiring a key does not undo a leak: that is what keytool revoke
is for.

--settle, --max-skew, --max-stale, --max-age and --min-instances count for this run where
they are stricter than the policy, which keytool policy shows; looser ones need --force
and --reason. Durations are written as 90s, 10m or 720h. --force also promotes against
whatever is in the way, begins on a keyset that servers have a later revision of, and goes
by this host's clock though it is ahead of a server's when a key is retired: until every
instance has read the new revision tokens may be refused. A clock that is behind the last
change it does not go by: see keytool policy --help.`,
		Example: `  keytool rotate --wait
  keytool rotate --replace 4c11d0e2 --wait --reason "quarterly"
  keytool rotate --dry-run --exit-code`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.rotate(cmd, &r) },
	}
	a.writeFlags(cmd)
	a.yesFlag(cmd)
	f := cmd.Flags()
	f.Lookup("exit-code").Usage = "exit 3 if something is left to do or to wait for; if it is blocked it exits 6 in any case"
	f.BoolVar(&r.wait, "wait", false, "take every step, and wait in between, also while it is blocked")
	f.StringVar(&r.replace, "replace", "", "replace the primary `KID`, due or not; can be run again and again")
	f.BoolVar(&a.flags.force, "force", false, "go on against what is in the way, though tokens may be refused; needs --reason")
	r.policy.addRotation(cmd, keyset.Policy{})
	return cmd
}

type rotateFlags struct {
	wait    bool
	replace string
	policy  policyFlags
}

// A rotating is one run of rotate.
type rotating struct {
	*opened
	flags   *rotateFlags
	given   []string // further flags, for the command that goes on
	request rotation.Request
	looser  bool               // the request's policy than the keyset's
	obs     *fleet.Observation // the last one
	report  *rotateReport
}

type rotateReport struct {
	outlook
	DryRun bool       `json:"dry_run,omitempty"`
	Steps  []stepJSON `json:"steps"` // that were taken, or with dry_run the one that would be
	Keyset keysetJSON `json:"keyset"`
}

type stepJSON struct {
	Action   rotation.Kind `json:"action"`
	KID      string        `json:"kid,omitempty"` // "" for a key that was not made yet
	Revision int64         `json:"revision"`
	At       string        `json:"at,omitempty"`
	Forced   bool          `json:"forced,omitempty"`
}

func (r *rotateReport) text(p *printer) {
	r.outlook.text(p, r.DryRun, r.Keyset.label())
}

func (a *app) rotate(cmd *cobra.Command, flags *rotateFlags) error {
	if flags.replace != "" {
		if err := checkKID(flags.replace); err != nil {
			return err
		}
	}
	if err := a.reasoned(); err != nil {
		return err
	}
	if a.flags.force {
		if err := a.agreed("Forcing a rotation"); err != nil {
			return err
		}
	}
	ctx, cancel := a.context(cmd)
	defer cancel()
	o, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	r := &rotating{opened: o, flags: flags, report: &rotateReport{DryRun: a.flags.dryRun, Steps: []stepJSON{}}}
	r.given = changeFlagsGiven(cmd, "replace", "wait", "force", "yes")
	if !flags.wait || a.flags.dryRun {
		t, err := r.turn(ctx, cmd)
		switch {
		case err != nil:
			return err
		case t.code == blocked:
			return exit(blocked)
		case r.report.Verdict != verdictOK && r.unfinished():
			return a.pendingIfAsked()
		}
		return nil
	}
	return a.wait(cmd, func(ctx context.Context) (turn, error) { return r.turn(ctx, cmd) })
}

// unfinished reports whether there is something to do or to wait for.
func (r *rotating) unfinished() bool { return r.report.DryRun || r.doc.Unfinished() }

// turn looks once, and takes the step that is safe, if there is one.
func (r *rotating) turn(ctx context.Context, cmd *cobra.Command) (turn, error) {
	if err := r.load(ctx); err != nil {
		return turn{}, misconfigured(err)
	}
	if _, err := r.store(); err != nil {
		return turn{}, err
	}
	if err := r.replaceable(); err != nil {
		return turn{}, err
	}
	now, obs, err := r.look(ctx)
	if err != nil {
		return turn{}, err
	}
	if err := r.ask(cmd); err != nil {
		return turn{}, err
	}
	r.obs = &obs
	if late := r.behindHistory(); late != "" {
		return r.late(late), nil
	}
	step := rotation.Next(r.doc, obs, now, r.request)
	if step.Kind == rotation.Stage && r.made(step.KID) {
		return r.enough(judge{r.doc, &obs, r.app.Now()}, step), nil
	}
	if step.Kind.Changes() && !r.app.flags.dryRun {
		return r.take(ctx, step, &obs)
	}
	j := judge{r.doc, &obs, r.app.Now()}
	r.show(j, step)
	return r.waiting(j, step), nil
}

// late is a turn by a clock that is behind the last change: no step is taken by it, with
// --force neither, which would override what servers show as well.
func (r *rotating) late(late string) turn {
	why := r.clockBehind(late)
	r.report.outlook = outlook{Verdict: verdictBlocked, Summary: behindSummary, Reasons: []reason{why}, Then: settled + r.command(r.flags.replace, rotation.Step{})}
	r.report.Keyset, r.app.report = r.keyset(), r.report
	t := turn{line: "this clock is behind the last change; BLOCKED", culprits: []string{why.culprit()}, code: blocked}
	t.about, t.pause = t.line, pauseUntil(time.Time{}, r.app.Now(), r.doc.Policy)
	return t
}

// made reports whether this run has made a key. A rotation of it is the next run's: where
// max-age is shorter than a rotation takes, one run would never end.
func (r *rotating) made(kid string) bool {
	return slices.ContainsFunc(r.report.Steps, func(s stepJSON) bool { return s.Action == rotation.Stage && s.KID == kid })
}

// enough ends a run whose rotation is over, though the next one is due already.
func (r *rotating) enough(j judge, step rotation.Step) turn {
	r.show(j, rotation.Step{Kind: rotation.Done, KID: step.KID})
	r.report.Note = fmt.Sprintf("%s is due to be replaced already", step.KID)
	r.report.Then = "keytool rotate --wait; if it was due by its age, max-age is shorter than a rotation takes"
	return turn{finished: true}
}

// ask makes the request of the flags and the policy that is there now.
func (r *rotating) ask(cmd *cobra.Command) error {
	force := r.app.flags.force
	r.request = rotation.Request{Replace: r.flags.replace, Force: force}
	_, policy, err := r.flags.policy.apply(cmd, r.doc.TTL, r.doc.Policy)
	if err != nil {
		return err
	}
	if r.looser = false; policy == r.doc.Policy {
		return nil
	}
	what := loosened(r.doc.Policy, policy)
	if r.looser = what != ""; r.looser && !force {
		return usagef("%s is looser than the policy of the keyset: that needs --force and --reason", what)
	}
	r.request.Policy = &policy
	return nil
}

// replaceable is the error of a key id that --replace cannot be about: that of no key, or
// of the key that is to become primary.
func (r *rotating) replaceable() error {
	kid := r.flags.replace
	if err := r.had(kid); err != nil {
		return err
	}
	if k := r.doc.Key(kid); k != nil && k.State == keyset.Staged {
		primary := r.doc.Primary().KID
		return usagef("%s is staged: it is to replace %s, and nothing is sealed with it yet; to let it, keytool rotate --wait; to have another in its place, keytool abort and then keytool rotate --replace %s --wait", kid, primary, primary)
	}
	return nil
}

// past says of a key that is not primary any more what it is, and how the one that is would
// be replaced; "" where --replace names the primary.
func (r *rotating) past() string {
	kid, primary := r.flags.replace, r.doc.Primary().KID
	if kid == "" || kid == primary {
		return ""
	}
	return fmt.Sprintf("%s, and %s is primary; to replace that: %s", whereabouts(r.doc, kid), primary, r.command(primary, rotation.Step{Goal: rotation.Stage}))
}

// command is what goes on with this run until step and all behind it is done: with its
// flags, and with --force where the step may need it.
func (r *rotating) command(replace string, step rotation.Step) string {
	words := []string{"keytool rotate"}
	if replace != "" {
		words = append(words, "--replace", replace)
	}
	words = append(append(words, "--wait"), r.given...)
	if r.app.flags.force && (r.looser || step.Goal == rotation.Stage || step.Goal == rotation.Promote || step.Goal == rotation.Retire && r.clockBlocks()) {
		words = append(words, r.app.forceGiven()...)
	}
	return strings.Join(words, " ")
}

// clockBlocks reports whether the clock of an instance is in the way of the next step, where
// nothing is forced.
func (r *rotating) clockBlocks() bool {
	request := r.request
	request.Force = false
	step := rotation.Next(r.doc, *r.obs, r.app.Now(), request)
	return slices.ContainsFunc(step.Reasons, func(reason rotation.Reason) bool { return reason.Code == rotation.ClockOff })
}

// show makes the report of a step that was not taken.
func (r *rotating) show(j judge, step rotation.Step) {
	steps := r.report.Steps
	r.report.outlook = j.outlook(step)
	r.report.Then = then(step, r.command(r.flags.replace, step))
	if len(steps) == 0 {
		r.report.Note = strings.Trim(r.report.Note+"; "+r.past(), "; ")
	}
	r.report.Keyset = r.keyset()
	switch {
	case step.Kind == rotation.Done && len(steps) > 0:
		r.report.Verdict, r.report.Summary, r.report.NotBefore = verdictDone, did(steps)+"; nothing is unfinished", ""
	case step.Kind == rotation.Done:
		r.report.Summary = j.nothingDue()
		if kid := r.flags.replace; kid != "" {
			r.report.Note, r.report.Summary = "", whereabouts(r.doc, kid)+", and nothing is unfinished; "+r.report.Summary
		}
		r.report.Then = "to rotate now: " + r.command(step.KID, rotation.Step{Goal: rotation.Stage})
	case step.Kind.Changes():
		next := stepJSON{Action: step.Kind, KID: step.KID, Revision: r.doc.Revision + 1, Forced: step.Forced()}
		if step.Kind == rotation.Stage {
			next.KID = ""
		}
		r.report.Steps = append(steps, next)
	}
	r.app.report = r.report
}

// label names the keyset in the lines below a verdict.
func (k *keysetJSON) label() labelled {
	return labelled{"keyset", fmt.Sprintf("%s   revision %d   %s", k.Name, k.Revision, k.Store)}
}

func (o *opened) keyset() keysetJSON {
	d := o.doc
	return keysetJSON{Name: d.Name, Lineage: d.Lineage, Revision: d.Revision, TTL: d.TTL.String(), Tag: "ok", Store: o.place()}
}

// did says what steps have come to.
func did(steps []stepJSON) string {
	words := map[rotation.Kind]string{rotation.Stage: "staged", rotation.Promote: "promoted", rotation.Drain: "drained", rotation.Retire: "retired"}
	var all []string
	for _, s := range steps {
		all = append(all, words[s.Action]+" "+s.KID)
	}
	return list(all)
}

// take takes a step.
func (r *rotating) take(ctx context.Context, step rotation.Step, obs *fleet.Observation) (turn, error) {
	var fresh keyset.Key
	if step.Kind == rotation.Stage {
		var err error
		if fresh, err = r.doc.GenerateKey(ctx, r.services, r.app.Now()); err != nil {
			return turn{}, fmt.Errorf("making a key: %w", err)
		}
	}
	next, stamp, note := r.doc.Next(), r.app.stamp(), ""
	if len(r.report.Steps) == 0 {
		note = r.past()
	}
	if err := step.Apply(next, stamp, fresh); err != nil {
		return turn{}, err
	}
	taken := stepJSON{Action: step.Kind, KID: step.KID, Revision: next.Revision, At: formatTime(stamp.At), Forced: step.Forced()}
	if step.Kind == rotation.Stage {
		taken.KID = fresh.KID
	}
	if err := r.save(ctx, next, stamp.At, step.Timed(), taken.KID); err != nil {
		return turn{}, err
	}
	r.report.Steps = append(r.report.Steps, taken)

	// What comes next, as far as can be told before anybody has seen the change.
	after := judge{r.doc, obs, r.app.Now()}
	then := rotation.Next(r.doc, *obs, after.now, r.request)
	r.report.outlook = outlook{Verdict: verdictDone, Summary: fmt.Sprintf("%s as revision %d", did([]stepJSON{taken}), taken.Revision), Note: note}
	if then.Kind != rotation.Done {
		r.report.NotBefore = formatTime(then.NotBefore)
		r.report.Then = r.command(r.flags.replace, then)
		if !then.NotBefore.IsZero() {
			r.report.Then += fmt.Sprintf("      %s not before %s, in %s", then.Goal, clock(then.NotBefore, after.now), left(then.NotBefore, after.now))
		}
	}
	r.report.Keyset = r.keyset()
	r.app.report = r.report
	return turn{about: fmt.Sprint(taken), line: after.taken(taken, then), again: true}, nil
}

// taken writes the line of a step for the log of a long wait.
func (j judge) taken(s stepJSON, then rotation.Step) string {
	switch s.Action {
	case rotation.Stage:
		line := fmt.Sprintf("1/3 staged %s%s as revision %d; promoting it not before %s", s.KID, against(s), s.Revision, clock(then.NotBefore, j.now))
		if j.timed() {
			return line + ", when every server has had the time to read it"
		}
		return line + ", when every instance verifies it"
	case rotation.Promote:
		if j.timed() {
			return fmt.Sprintf("2/3 every server has had the time to read it; promoted %s as revision %d", s.KID, s.Revision)
		}
		return fmt.Sprintf("2/3 verifying: %s; promoted %s%s as revision %d", j.share(s.KID), s.KID, against(s), s.Revision)
	case rotation.Drain:
		k, p := j.doc.Key(s.KID), j.doc.Policy.At(j.now)
		at := k.Drained.Add(k.MaxTTL + 2*p.MaxSkew)
		return fmt.Sprintf("3/3 drained %s; retiring it not before %s (ttl %s + clocks %s). Safe to interrupt; run again to finish.",
			s.KID, clock(at, j.now), shortDuration(k.MaxTTL), shortDuration(2*p.MaxSkew))
	default:
		return fmt.Sprintf("3/3 retired %s%s as revision %d", s.KID, against(s), s.Revision)
	}
}

func against(s stepJSON) string {
	if s.Forced {
		return " against what was in the way"
	}
	return ""
}

// timed reports whether time stands in for reports.
func (j judge) timed() bool { return j.doc.Policy.Proof == keyset.ProofSettle }

// share says how many instances verify a key.
func (j judge) share(kid string) string {
	return j.countLive(func(r *fleet.Report) bool { return slices.Contains(r.Verifies, kid) })
}

func (j judge) countLive(is func(*fleet.Report) bool) string {
	n := 0
	for i := range j.obs.Instances {
		if in := &j.obs.Instances[i]; in.Live() && in.Err == nil && is(&in.Report) {
			n++
		}
	}
	return fmt.Sprintf("%d of %d", n, j.live())
}

// waiting says what a turn that has changed nothing waits for.
func (r *rotating) waiting(j judge, step rotation.Step) turn {
	t := turn{until: step.NotBefore, pause: pauseUntil(step.NotBefore, j.now, r.doc.Policy), code: pending}
	if step.Kind == rotation.Done {
		t.finished = true
		return t
	}
	switch step.Goal {
	case rotation.Stage:
		t.line = "1/3 replacing " + step.KID
	case rotation.Promote:
		t.line = "2/3 verifying: " + j.share(step.KID)
		if j.timed() {
			t.line = "2/3 giving every server the time to read " + step.KID
		}
	case rotation.Drain:
		if j.timed() {
			t.line = "3/3 giving every server the time to stop sealing with " + step.KID
			break
		}
		t.line = "3/3 sealing with another key: " + j.countLive(func(r *fleet.Report) bool { return r.Primary != "" && r.Primary != step.KID })
	default:
		t.line = "3/3 retiring " + step.KID
	}
	t.tell(j, step)
	if r.lastStep() == rotation.Drain && len(t.culprits) == 0 && t.line == fmt.Sprintf("3/3 retiring %s; not before %s", step.KID, clock(step.NotBefore, j.now)) {
		t.line = "" // the line of the drain has said it
	}
	return t
}

func (r *rotating) lastStep() rotation.Kind {
	if n := len(r.report.Steps); n > 0 {
		return r.report.Steps[n-1].Action
	}
	return ""
}
