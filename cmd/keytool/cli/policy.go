package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/keyset"
)

// policyFlags are the flags that change a policy, of init and policy.
type policyFlags struct {
	ttl, maxAge, settle, maxStale, maxSkew time.Duration
	minInstances                           int
	proof                                  string
}

// add adds them all, with the defaults that are shown.
func (p *policyFlags) add(cmd *cobra.Command, d keyset.Policy, ttl time.Duration) {
	p.addRotation(cmd, d)
	f := cmd.Flags()
	f.DurationVar(&p.ttl, "ttl", ttl, "how long a token may live")
	f.StringVar(&p.proof, "proof", string(d.Proof), "the `PROOF` that a promotion waits for: reports, or settle where servers cannot report")
}

const defaultTTL = 10 * time.Minute

// addRotation adds those that a single rotation can have.
func (p *policyFlags) addRotation(cmd *cobra.Command, d keyset.Policy) {
	f := cmd.Flags()
	f.DurationVar(&p.maxAge, "max-age", d.MaxAge, "the age at which the primary is due to be replaced")
	f.DurationVar(&p.settle, "settle", d.Settle, "how long a save may take and the store go on showing the old revision, both together")
	f.DurationVar(&p.maxStale, "max-stale", d.MaxStale, "how long a server goes on sealing when it cannot read the store; 0: for ever")
	f.DurationVar(&p.maxSkew, "max-skew", d.MaxSkew, "how far any two clocks are apart at most; 1m or less")
	f.IntVar(&p.minInstances, "min-instances", d.MinInstances, "at least `N` instances must report before a promotion; 0 is as 1")
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

type policyReport struct {
	Verdict      string       `json:"verdict"` // ok, done, or due with dry_run
	DryRun       bool         `json:"dry_run,omitempty"`
	Name         string       `json:"name"`
	Store        string       `json:"store"`
	Revision     int64        `json:"revision"`
	TTL          string       `json:"ttl"`
	MaxAge       string       `json:"max_age"`
	Settle       string       `json:"settle"`
	MaxStale     string       `json:"max_stale"`
	MaxSkew      string       `json:"max_skew"`
	MinInstances int          `json:"min_instances"`
	Proof        keyset.Proof `json:"proof"`
	Was          *formerJSON  `json:"was,omitempty"` // what still counts where it is larger
}

type formerJSON struct {
	Settle   string `json:"settle"`
	MaxStale string `json:"max_stale"`
	MaxSkew  string `json:"max_skew"`
	Until    string `json:"until"`
}

func (r *policyReport) text(p *printer) {
	what := "the policy of " + r.Name
	if r.Verdict != verdictOK {
		what = map[bool]string{true: "change ", false: "changed "}[r.DryRun] + what
	}
	p.linef("%s  %s, revision %d", verdictText(p, r.Verdict, r.DryRun), what, r.Revision)
	p.labels(
		labelled{"ttl", r.TTL + "   how long a token may live"},
		labelled{"max-age", r.MaxAge + "   the age at which the primary is due to be replaced"},
		labelled{"settle", r.Settle + "   how long the store may still show an old revision, and a save may take"},
		labelled{"max-stale", r.MaxStale + "   how long a server seals without reading the store; 0s: for ever"},
		labelled{"max-skew", r.MaxSkew + "   how far any two clocks are apart at most"},
		labelled{"min-instances", strconv.Itoa(r.MinInstances) + "   how many instances must report before a promotion"},
		labelled{"proof", string(r.Proof) + "   what a promotion waits for"},
	)
	if w := r.Was; w != nil {
		p.linef("until %s settle %s, max-stale %s and max-skew %s count where they are longer", w.Until, w.Settle, w.MaxStale, w.MaxSkew)
	}
}

func (a *app) policyCommand() *cobra.Command {
	var p policyFlags
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Shows or changes the policy of the keyset",
		Long: `policy shows how the keyset is rotated, and changes what is given as a flag; all else
stays as it is. Durations are written as 90s, 10m or 720h.

Loosening needs --force and --reason: a longer max-age, a shorter settle, a smaller
max-skew, fewer min-instances, a max-stale that ends later, proof settle. Where settle,
max-stale or max-skew become shorter the old values go on counting for their sum, and
they do not while a rotation is unfinished.`,
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
	cmd.Flags().BoolVar(&a.flags.force, "force", false, "loosen the policy; needs --reason")
	return cmd
}

func (a *app) policy(ctx context.Context, cmd *cobra.Command, flags *policyFlags) error {
	o, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	ttl, policy, err := flags.apply(cmd, o.doc.TTL, o.doc.Policy)
	if err != nil {
		return err
	}
	if ttl == o.doc.TTL && policy == o.doc.Policy {
		a.report = newPolicyReport(o, o.doc, verdictOK)
		return nil
	}
	if _, err := o.store(); err != nil {
		return err
	}
	if what := loosened(o.doc.Policy, policy); what != "" {
		if !a.flags.force || a.flags.reason == "" {
			return usagef("%s loosens the policy: that needs --force and --reason", what)
		}
		if err := a.confirm("Loosening the policy (" + what + ")"); err != nil {
			return err
		}
	}
	next, stamp := o.doc.Next(), a.stamp()
	if ttl != next.TTL {
		err = next.SetTTL(stamp, ttl)
	}
	if err == nil && policy != o.doc.Policy {
		err = next.SetPolicy(stamp, policy)
	}
	if err != nil {
		return err
	}
	r := newPolicyReport(o, next, verdictDue)
	if r.DryRun = a.flags.dryRun; r.DryRun {
		a.report = r
		return a.pendingIfAsked()
	}
	// Former values count from the stamp.
	if err := o.save(ctx, next, stamp.At, next.Policy.Was != nil, ""); err != nil {
		return err
	}
	a.report = newPolicyReport(o, o.doc, verdictDone)
	return nil
}

func newPolicyReport(o *opened, d *keyset.Document, verdict string) *policyReport {
	p := d.Policy
	r := &policyReport{
		Verdict: verdict, Name: d.Name, Store: o.place(), Revision: d.Revision,
		TTL: d.TTL.String(), MaxAge: p.MaxAge.String(), Settle: p.Settle.String(),
		MaxStale: p.MaxStale.String(), MaxSkew: p.MaxSkew.String(), MinInstances: p.MinInstances, Proof: p.Proof,
	}
	if was := p.Was; was != nil && o.app.Now().Before(was.Until) {
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
