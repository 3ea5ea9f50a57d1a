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

func (p *policyFlags) add(cmd *cobra.Command) {
	d := keyset.DefaultPolicy()
	f := cmd.Flags()
	f.DurationVar(&p.ttl, "ttl", 10*time.Minute, "how long a token may live")
	f.DurationVar(&p.maxAge, "max-age", d.MaxAge, "the age at which the primary is due to be replaced")
	f.DurationVar(&p.settle, "settle", d.Settle, "how long the store may still show an old revision, together with how long a save may take")
	f.DurationVar(&p.maxStale, "max-stale", d.MaxStale, "how long a server seals without reading the store; 0: for ever")
	f.DurationVar(&p.maxSkew, "max-skew", d.MaxSkew, "how far any two clocks are apart at most; 1m or less")
	f.IntVar(&p.minInstances, "min-instances", d.MinInstances, "how many instances must report before a promotion")
	f.StringVar(&p.proof, "proof", string(d.Proof), "what a promotion waits for: reports, or settle where servers cannot report")
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
			return 0, policy, usagef("--proof is reports or settle, not %.40q", p.proof)
		}
	}
	return ttl, policy, nil
}

type policyReport struct {
	Name         string       `json:"name"`
	Revision     int64        `json:"revision"`
	DryRun       bool         `json:"dry_run,omitempty"`
	Changed      bool         `json:"changed"`
	TTL          string       `json:"ttl"`
	MaxAge       string       `json:"max_age"`
	Settle       string       `json:"settle"`
	MaxStale     string       `json:"max_stale"`
	MaxSkew      string       `json:"max_skew"`
	MinInstances int          `json:"min_instances"`
	Proof        keyset.Proof `json:"proof"`
	Until        string       `json:"old_values_count_until,omitempty"`
}

func (r *policyReport) text(p *printer) {
	if r.Changed {
		p.linef("%s  the policy of %s, revision %d", p.paint(green, map[bool]string{false: "DONE", true: "WOULD"}[r.DryRun]), r.Name, r.Revision)
	}
	p.table(
		[]string{"ttl", r.TTL, "how long a token may live"},
		[]string{"max-age", r.MaxAge, "the age at which the primary is due to be replaced"},
		[]string{"settle", r.Settle, "how long the store may still show an old revision"},
		[]string{"max-stale", r.MaxStale, "how long a server seals without reading the store"},
		[]string{"max-skew", r.MaxSkew, "how far any two clocks are apart at most"},
		[]string{"min-instances", strconv.Itoa(r.MinInstances), "how many instances must report before a promotion"},
		[]string{"proof", string(r.Proof), "what a promotion waits for"},
	)
	if r.Until != "" {
		p.linef("the old settle, max-stale and max-skew count until %s where they were longer", r.Until)
	}
}

func (a *app) policyCommand() *cobra.Command {
	var p policyFlags
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Shows or changes the policy of the keyset",
		Long: `policy shows how the keyset is rotated, and changes what is given as a flag.

Loosening needs --force and --reason: a longer max-age, a shorter settle, a smaller
max-skew, fewer min-instances, a max-stale that ends later, proof settle.`,
		Example: "  keytool policy\n  keytool policy --ttl 20m --min-instances 3",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := a.context(cmd)
			defer cancel()
			return a.policy(ctx, cmd, &p)
		},
	}
	a.writeFlags(cmd)
	p.add(cmd)
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
	next := o.doc.Next()
	changed := ttl != next.TTL || policy != next.Policy
	if !changed {
		a.report = newPolicyReport(o.doc)
		return nil
	}
	if what := loosened(o.doc.Policy, policy); what != "" {
		if !a.flags.force || a.flags.reason == "" {
			return usagef("%s loosens the policy: that needs --force and --reason", what)
		}
		if err := a.confirm(what); err != nil {
			return err
		}
	}
	if ttl != next.TTL {
		err = next.SetTTL(o.stamp(), ttl)
	}
	if err == nil && policy != next.Policy {
		err = next.SetPolicy(o.stamp(), policy)
	}
	if err != nil {
		return err
	}
	if !a.flags.dryRun {
		if err := o.save(ctx, next); err != nil {
			return err
		}
	}
	r := newPolicyReport(next)
	r.Changed, r.DryRun = true, a.flags.dryRun
	a.report = r
	if a.flags.dryRun && a.flags.exitCode {
		return exit(pending)
	}
	return nil
}

func newPolicyReport(d *keyset.Document) *policyReport {
	p := d.Policy
	r := &policyReport{
		Name: d.Name, Revision: d.Revision, TTL: d.TTL.String(), MaxAge: p.MaxAge.String(), Settle: p.Settle.String(),
		MaxStale: p.MaxStale.String(), MaxSkew: p.MaxSkew.String(), MinInstances: p.MinInstances, Proof: p.Proof,
	}
	if p.Was != nil {
		r.Until = formatTime(p.Was.Until)
	}
	return r
}

// loosened names what of a policy waits for less than before, or returns "".
func loosened(old, new keyset.Policy) string {
	switch {
	case new.MaxAge > old.MaxAge:
		return "a longer max-age"
	case new.Settle < old.Settle:
		return "a shorter settle"
	case new.MaxSkew < old.MaxSkew:
		return "a smaller max-skew"
	case new.MinInstances < old.MinInstances:
		return "fewer min-instances"
	case old.MaxStale != 0 && (new.MaxStale == 0 || new.MaxStale > old.MaxStale):
		return "a longer max-stale"
	case old.Proof == keyset.ProofReports && new.Proof == keyset.ProofSettle:
		return "proof settle"
	default:
		return ""
	}
}
