package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/echoseal/echoseal/keyset"
)

// policyFlags are the flags that change a policy, of init and policy.
type policyFlags struct {
	ttl, maxAge, settle, maxStale, maxSkew time.Duration
	minInstances                           int
	proof                                  string
}

// What the settings of a policy mean, in the help of the flags and in the table.
const (
	meansTTL      = "how long a token may live"
	meansMaxAge   = "the age at which the primary is due to be replaced"
	meansSettle   = "how long a save may take, and the store go on showing the old revision, both together"
	meansMaxStale = "how long a server goes on sealing when it cannot read the store; 0 is for ever"
	meansMaxSkew  = "how far any two clocks are apart at most; 1m or less"
)

// add adds them all, with the defaults that are shown.
func (p *policyFlags) add(cmd *cobra.Command, d keyset.Policy, ttl time.Duration) {
	p.addRotation(cmd, d)
	f := cmd.Flags()
	durationVar(f, &p.ttl, "ttl", ttl, meansTTL)
	f.StringVar(&p.proof, "proof", string(d.Proof), "the `PROOF` that a promotion waits for: reports, or settle where servers cannot report")
}

const defaultTTL = 10 * time.Minute

// addRotation adds those that a single rotation can have.
func (p *policyFlags) addRotation(cmd *cobra.Command, d keyset.Policy) {
	f := cmd.Flags()
	durationVar(f, &p.maxAge, "max-age", d.MaxAge, meansMaxAge)
	durationVar(f, &p.settle, "settle", d.Settle, meansSettle)
	durationVar(f, &p.maxStale, "max-stale", d.MaxStale, meansMaxStale)
	durationVar(f, &p.maxSkew, "max-skew", d.MaxSkew, meansMaxSkew)
	f.IntVar(&p.minInstances, "min-instances", d.MinInstances, "at least `N` instances must report before a promotion; 0 is as 1")
}

// durationVar adds a flag whose default is shown as it would be typed.
func durationVar(f *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	f.DurationVar(to, name, value, usage)
	f.Lookup(name).DefValue = flagDuration(value)
}

// apply returns the ceiling and the policy with what was given on the command line.
func (p *policyFlags) apply(cmd *cobra.Command, ttl time.Duration, policy keyset.Policy) (time.Duration, keyset.Policy, error) {
	set := cmd.Flags().Changed
	for name, value := range map[string]struct{ to, from *time.Duration }{
		"ttl": {&ttl, &p.ttl}, "max-age": {&policy.MaxAge, &p.maxAge}, "settle": {&policy.Settle, &p.settle},
		"max-stale": {&policy.MaxStale, &p.maxStale}, "max-skew": {&policy.MaxSkew, &p.maxSkew},
	} {
		if set(name) {
			*value.to = *value.from
		}
	}
	if set("min-instances") {
		policy.MinInstances = p.minInstances
	}
	if set("proof") {
		policy.Proof = keyset.Proof(p.proof)
		if policy.Proof != keyset.ProofReports && policy.Proof != keyset.ProofSettle {
			return 0, policy, usagef("--proof is reports or settle, not %s%s", shown(p.proof), meant(p.proof, string(keyset.ProofReports), string(keyset.ProofSettle)))
		}
	}
	return ttl, policy, nil
}

// settings are what the flags of policy set.
type settings struct {
	ttl    time.Duration
	policy keyset.Policy
}

func settingsOf(d *keyset.Document) settings { return settings{d.TTL, d.Policy} }

// A row is a line of the table of settings, with values as the flag takes them.
type row struct{ setting, value, meaning string }

func (s settings) rows() []row {
	p := s.policy
	return []row{
		{"ttl", flagDuration(s.ttl), meansTTL},
		{"max-age", flagDuration(p.MaxAge), meansMaxAge},
		{"settle", flagDuration(p.Settle), meansSettle},
		{"max-stale", flagDuration(p.MaxStale), meansMaxStale},
		{"max-skew", flagDuration(p.MaxSkew), meansMaxSkew},
		{"min-instances", strconv.Itoa(p.MinInstances), "how many instances must report before a promotion; 0 is as 1"},
		{"proof", string(p.Proof), "what a promotion waits for: reports of every instance, or settle, which is time alone"},
	}
}

// differ returns those of other settings that are not the same, as they are typed.
func (s settings) differ(other settings) (all []string) {
	for i, row := range other.rows() {
		if s.rows()[i].value != row.value {
			all = append(all, row.setting+" "+row.value)
		}
	}
	return all
}

func (s settings) json() policyJSON {
	p := s.policy
	return policyJSON{
		TTL: s.ttl.String(), MaxAge: p.MaxAge.String(), Settle: p.Settle.String(), MaxStale: p.MaxStale.String(),
		MaxSkew: p.MaxSkew.String(), MinInstances: p.MinInstances, Proof: p.Proof,
	}
}

// outlived returns what of a former policy counts, being longer: values by their setting.
func (s settings) outlived(was *keyset.FormerPolicy) map[string]string {
	all := make(map[string]string)
	if was == nil {
		return all
	}
	p := s.policy
	if was.Settle > p.Settle {
		all["settle"] = flagDuration(was.Settle)
	}
	if p.MaxStale != 0 && (was.MaxStale == 0 || was.MaxStale > p.MaxStale) {
		all["max-stale"] = flagDuration(was.MaxStale)
	}
	if was.MaxSkew > p.MaxSkew {
		all["max-skew"] = flagDuration(was.MaxSkew)
	}
	return all
}

type policyReport struct {
	Verdict  string `json:"verdict"` // ok, done, or due with dry_run
	DryRun   bool   `json:"dry_run,omitempty"`
	Name     string `json:"name"`
	Store    string `json:"store"`
	Revision int64  `json:"revision"`
	policyJSON
	Before *policyJSON `json:"before,omitempty"` // all of it, if something was changed
	Was    *formerJSON `json:"was,omitempty"`    // what still counts where it is larger

	*outlook // what is in the way of the change; nil if nothing is

	dated      bool // by another clock, and nothing else was changed
	is, before settings
	former     *keyset.FormerPolicy // nil if none counts any more
}

type policyJSON struct {
	TTL          string       `json:"ttl"`
	MaxAge       string       `json:"max_age"`
	Settle       string       `json:"settle"`
	MaxStale     string       `json:"max_stale"`
	MaxSkew      string       `json:"max_skew"`
	MinInstances int          `json:"min_instances"`
	Proof        keyset.Proof `json:"proof"`
}

type formerJSON struct {
	Settle   string `json:"settle"`
	MaxStale string `json:"max_stale"`
	MaxSkew  string `json:"max_skew"`
	Until    string `json:"until"`
}

func (r *policyReport) needs(flags string) {
	if r.outlook != nil {
		r.outlook.needs(flags)
	}
}

func (r *policyReport) text(p *printer) {
	if r.outlook != nil {
		r.outlook.text(p, r.DryRun)
		return
	}
	what := "the policy of " + r.Name
	if r.Verdict != verdictOK {
		what = map[bool]string{true: "change ", false: "changed "}[r.DryRun] + what
	}
	if r.dated {
		what = map[bool]string{true: "date ", false: "dated "}[r.DryRun] + r.Name + " anew by this clock, with the policy as it was"
	}
	p.linef("%s  %s, revision %d", verdictText(p, r.Verdict, r.DryRun), what, r.Revision)
	p.linef("")
	r.table(p)
	outlived := r.is.outlived(r.former)
	var count []string
	for _, row := range r.is.rows() {
		if value := outlived[row.setting]; value != "" {
			count = append(count, row.setting+" "+value)
		}
	}
	if len(count) > 0 {
		p.linef("")
		p.linef("until %s former values count that are longer: %s", r.Was.Until, list(count))
	}
}

// table prints every setting. A column tells what those were that have changed, or whose
// former value still counts.
func (r *policyReport) table(p *printer) {
	header := []string{"SETTING", "VALUE", "WAS", "DEFAULT", "MEANING"}
	was := r.is.outlived(r.former)
	before, defaults := r.before.rows(), settings{defaultTTL, keyset.DefaultPolicy()}.rows()
	var rows [][]string
	for i, row := range r.is.rows() {
		if r.Before != nil && before[i].value != row.value {
			was[row.setting] = before[i].value
		}
		rows = append(rows, []string{row.setting, row.value, orDash(was[row.setting]), defaults[i].value, row.meaning})
	}
	if len(was) == 0 {
		const column = 2
		header = slices.Delete(header, column, column+1)
		for i := range rows {
			rows[i] = slices.Delete(rows[i], column, column+1)
		}
	}
	p.table(header, rows...)
}

func (a *app) policyCommand() *cobra.Command {
	var p policyFlags
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Shows or changes the policy of the keyset",
		Long: `policy shows how the keyset is rotated, and changes what is given as a flag; all else
stays as it is. It prints every value as its flag takes it: 90s, 10m or 720h.

Loosening needs --force and --reason: a longer max-age, a shorter settle, a smaller
max-skew, fewer min-instances, a max-stale that ends later, proof settle.

settle, max-stale and max-skew cannot be lowered while a rotation is unfinished. After
they were, the former values go on counting for as long as the three are together: the
column WAS shows them, and the line below it until when.

A change is blocked if a server holds a later revision than the store, or the same with
another content: the store has an old copy then. --force goes over that, too.

It is blocked as well if this clock is behind the last change. If it is right, the change
was dated by one that was ahead: with --force and --reason, and no setting that differs,
policy writes the keyset anew, dated by this clock, and changes nothing else. That goes
over nothing that servers hold. Then rotate goes on; but what counts from a key's time
that is ahead still comes later than it could.`,
		Example: "  keytool policy\n  keytool policy --ttl 20m --min-instances 3\n  keytool policy --max-age 1440h --force --reason \"fewer rotations\" --yes",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := a.context(cmd)
			defer cancel()
			return a.policy(ctx, cmd, &p)
		},
	}
	a.writeFlags(cmd)
	a.yesFlag(cmd)
	p.add(cmd, keyset.Policy{}, 0)
	cmd.Flags().BoolVar(&a.flags.force, "force", false, "loosen the policy, or change it though servers hold another revision that is as new or newer, or this clock is behind; needs --reason")
	return cmd
}

func (a *app) policy(ctx context.Context, cmd *cobra.Command, flags *policyFlags) error {
	o, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	before := o.doc
	ttl, policy, err := flags.apply(cmd, before.TTL, before.Policy)
	if err != nil {
		return err
	}
	dates := a.flags.force && ttl == before.TTL && policy == before.Policy && o.behindHistory() != ""
	if !dates && ttl == before.TTL && policy == before.Policy {
		a.report = newPolicyReport(o, before, before, verdictOK)
		return nil
	}
	if _, err := o.store(); err != nil {
		return err
	}
	command := "keytool policy"
	if dates { // what servers hold is settled by then, and the clock is as it was
		command += " " + strings.Join(a.forceGiven(), " ")
	}
	expect, err := o.inTheWay(ctx, cmd, command, a.flags.force && !dates, func(in outlook) {
		r := newPolicyReport(o, o.doc, o.doc, verdictOK)
		r.Verdict, r.DryRun, r.outlook = in.Verdict, a.flags.dryRun, &in
		a.report = r
	})
	if err != nil {
		return err
	}
	before = o.doc // which may have been read anew
	if ttl, policy, err = flags.apply(cmd, before.TTL, before.Policy); err != nil {
		return err
	}
	if dates && (len(expect) == 0 || ttl != before.TTL || policy != before.Policy) {
		return conflicted(keyset.ErrConflict)
	}
	question := "Going on with keytool policy"
	what := loosened(before.Policy, policy)
	if what != "" {
		if !a.flags.force || a.flags.reason == "" {
			return usagef("%s loosens the policy: that needs --force and --reason", what)
		}
		question = "Loosening the policy (" + what + ")"
	}
	if what != "" || len(expect) > 0 {
		var cancel context.CancelFunc
		if ctx, cancel, err = a.confirm(ctx, cmd, question); err != nil {
			return err
		}
		defer cancel()
	}
	next, stamp := before.Next(), a.stamp()
	if ttl != next.TTL {
		err = next.SetTTL(stamp, ttl)
	}
	if err == nil && policy != before.Policy {
		err = next.SetPolicy(stamp, policy)
	}
	if err == nil && dates {
		err = next.Record(stamp, "redate")
	}
	if err != nil {
		return err
	}
	r := newPolicyReport(o, before, next, verdictDue)
	r.dated = dates
	if r.DryRun = a.flags.dryRun; r.DryRun {
		a.report = r
		return a.pendingIfAsked()
	}
	// Former values count from the stamp.
	if err := o.save(ctx, next, stamp.At, !dates && next.Policy.Was != nil, ""); err != nil {
		return err
	}
	r = newPolicyReport(o, before, o.doc, verdictDone)
	r.dated, a.report = dates, r
	return nil
}

// newPolicyReport shows the policy of d, and what it was before.
func newPolicyReport(o *opened, before, d *keyset.Document, verdict string) *policyReport {
	r := &policyReport{
		Verdict: verdict, Name: d.Name, Store: o.place(), Revision: d.Revision,
		is: settingsOf(d), before: settingsOf(before),
	}
	r.policyJSON = r.is.json()
	if verdict != verdictOK {
		was := r.before.json()
		r.Before = &was
	}
	if was := d.Policy.Was; was != nil && o.app.Now().Before(was.Until) {
		r.former = was
		r.Was = &formerJSON{Settle: was.Settle.String(), MaxStale: was.MaxStale.String(), MaxSkew: was.MaxSkew.String(), Until: formatTime(was.Until)}
	}
	return r
}

// loosened names what of a policy waits for less than before, or returns "".
func loosened(before, after keyset.Policy) string {
	switch {
	case after.MaxAge > before.MaxAge:
		return "a longer max-age"
	case after.Settle < before.Settle:
		return "a shorter settle"
	case after.MaxSkew < before.MaxSkew:
		return "a smaller max-skew"
	case after.MinInstances < before.MinInstances:
		return "fewer min-instances"
	case before.MaxStale != 0 && (after.MaxStale == 0 || after.MaxStale > before.MaxStale):
		return "a longer max-stale"
	case before.Proof == keyset.ProofReports && after.Proof == keyset.ProofSettle:
		return "proof settle"
	default:
		return ""
	}
}
