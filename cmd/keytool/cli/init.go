package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

func (a *app) initCommand() *cobra.Command {
	var p policyFlags
	var secretFiles []string
	var keepLineEnd, replace bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Writes revision 1 of a keyset",
		Long: `init makes a keyset: an auth key and a primary key, wrapped by the first key service,
and writes it as revision 1. It refuses if a keyset is there already.

With --secret-file it takes over the ring of servers that run on secrets of their own
(local.New in Go, the Python SDK's ring): the first file is the primary, the others are
retiring, and no token in flight is refused.

With --fleet it asks the servers first. If one of them holds a keyset of this name, the
store has lost it: a new one would cost every token in flight, and init exits 6. Put the
newest backup back. Servers that wait for a first keyset, or that do not run yet, are in
nobody's way.

With --replace it begins anew in the place of a keyset that is lost for good: no key
service opens it, or servers hold it and no copy is left. That is with new keys, and for
the servers another keyset (a new lineage): those that run refuse it, and go on with their
old keys until they are restarted. What is not given as a flag is as in the keyset that is
there, if that can still be verified; if not, init says which values differ. Nothing else
replaces a keyset, so init can be run again by a script that sets up a host.

Durations are written as 90s, 10m or 720h. keytool policy changes them later.`,
		Example: `  keytool init --store keyset.json --name billing --key-service localkek:///etc/echoseal/kek.key
  keytool init --ttl 30m --max-age 2160h --min-instances 3
  keytool init --secret-file current.secret --secret-file previous.secret`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := a.context(cmd)
			defer cancel()
			var o keyset.InitOptions
			var err error
			if o.TTL, o.Policy, err = p.apply(cmd, 10*time.Minute, keyset.DefaultPolicy()); err != nil {
				return err
			}
			if o.TTL <= 0 {
				return usagef("--ttl is a positive duration such as 10m, not %v", o.TTL)
			}
			if o.Secrets, err = readSecrets(secretFiles, keepLineEnd); err != nil {
				return err
			}
			defer func() {
				for _, s := range o.Secrets {
					clear(s)
				}
			}()
			return a.init(ctx, cmd, o, replace, cmd.Flags().Changed("ttl"), func(is settings) (settings, error) {
				is.ttl, is.policy, err = p.apply(cmd, is.ttl, is.policy)
				return is, err
			})
		},
	}
	a.writeFlags(cmd)
	a.yesFlag(cmd)
	p.add(cmd, keyset.DefaultPolicy(), defaultTTL)
	cmd.Flags().StringArrayVar(&secretFiles, "secret-file", nil, "`FILE` with the raw secret of a ring in use; repeatable, the first is the primary")
	keepLineEndFlag(cmd, &keepLineEnd, "a secret file")
	cmd.Flags().BoolVar(&replace, "replace", false, "begin anew in the place of a keyset that is lost for good; needs --reason")
	return cmd
}

// init makes the keyset. given completes settings with the flags, of which ttlGiven says whether
// --ttl is among them.
func (a *app) init(ctx context.Context, cmd *cobra.Command, o keyset.InitOptions, replace, ttlGiven bool, given func(settings) (settings, error)) error {
	if replace && a.flags.reason == "" {
		return usagef("init --replace needs --reason: it is what the history of the new lineage begins with")
	}
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := c.store(); err != nil {
		return err
	}
	old, err := c.vacant(ctx, replace)
	if err != nil {
		return err
	}
	obs := c.hear(ctx)
	held := holders(&obs, a.flags.name)
	expect, err := c.inherit(ctx, &o, old, &obs, given)
	if err != nil {
		return err
	}
	note := ""
	if len(o.Secrets) > 0 && (o.TTL < defaultTTL || !ttlGiven) {
		note = taken(o.TTL)
	}
	report := &change{Action: "init", DryRun: a.flags.dryRun, Name: a.flags.name, Store: c.place(), Revision: o.After + 1}
	report.Reasons, report.Note = held, note
	if said := unheard(&obs, a.flags.name, !replace && len(held) == 0); said != "" {
		report.Note = strings.TrimPrefix(note+"; "+said, "; ")
	}
	switch {
	case len(held) > 0 && !replace:
		report.inUse()
		a.report = report
		return exit(blocked)
	case len(held) == 0 && replace && c.version == "":
		return usagef("there is no keyset at %s to replace, and no server that answers holds one: leave out --replace", c.place())
	}
	if a.flags.dryRun {
		report.Note = strings.Trim(strings.Join(append(expect, report.Note), "; "), "; ")
		what := "a new primary"
		if n := len(o.Secrets); n > 0 {
			what = "the ring of " + count(n, "secret")
		}
		report.Verdict, report.Summary = verdictDue, fmt.Sprintf("make the keyset %s of %s", a.flags.name, what)
		a.report = report
		return a.pendingIfAsked()
	}
	if replace {
		var cancel context.CancelFunc
		if ctx, cancel, err = c.confirmReplace(ctx, cmd, held, expect); err != nil {
			return err
		}
		defer cancel()
	}
	o.Name, o.Note = a.flags.name, a.stamp()
	doc, auth, err := keyset.Init(ctx, c.services, o)
	if err != nil {
		return misconfigured(err)
	}
	c.auth = auth
	// Nobody counts from the stamp of a revision that has none before it.
	if err := c.save(ctx, doc, a.Now(), false, ""); err != nil {
		return err
	}
	a.named = true
	a.report = report
	report.KID, report.Verdict, report.Reasons = doc.Primary().KID, verdictDone, nil
	report.Summary = fmt.Sprintf("a new keyset; primary %s, ttl %s, wrapped by %s", report.KID, shortDuration(doc.TTL), doc.Primary().Wrapped[0].Service)
	switch {
	case replace:
		report.Then = "start every server again: those that run refuse the new lineage, and say so"
	case len(o.Secrets) > 0:
		report.Then = "start the servers again on the keyset, one after the other: they share every key with those that are not yet"
	default:
		report.Then = "start the servers, and: keytool status"
	}
	return nil
}

// taken says what a ceiling means for the tokens under secrets that are taken over.
func taken(ttl time.Duration) string {
	return fmt.Sprintf("tokens under the secrets are taken to live %s at most, and are refused when their key has retired; if they may live longer: keytool policy --ttl D, which may be lowered when the old keys are gone", shortDuration(ttl))
}

// inherit completes the options of a keyset that begins in the place of old: its revision and,
// where the flags do not say otherwise, its settings if it is verified. What people should
// know of that it returns. Whoever has copied a key that opens it can have signed it, so that
// what is kept is told, too. old is nil if there is nothing, or nothing that can be read.
func (o *opened) inherit(ctx context.Context, to *keyset.InitOptions, old *keyset.Document, obs *fleet.Observation, given func(settings) (settings, error)) (expect []string, err error) {
	is, err := given(settings{defaultTTL, keyset.DefaultPolicy()})
	if err != nil {
		return nil, err
	}
	switch {
	case old == nil:
		expect = otherCeilings(obs, o.app.flags.name, is)
	case o.verifies(ctx, old):
		kept, err := given(settings{old.TTL, old.Policy})
		if err != nil {
			return nil, err
		}
		if differ := is.differ(kept); len(differ) > 0 {
			expect = []string{"the policy goes on as it was, with " + list(differ)}
		}
		is = kept
	default:
		there := settings{old.TTL, old.Policy}.rows()
		for i, row := range is.rows() {
			if was := there[i].value; was != row.value {
				expect = append(expect, fmt.Sprintf("%s is %s; in the keyset that is there, which cannot be verified, it is %s: to keep that, --%[1]s %[3]s", row.setting, row.value, was))
			}
		}
	}
	if old != nil {
		to.After = old.Revision
	}
	to.TTL, to.Policy = is.ttl, is.policy
	return expect, nil
}

// verifies reports whether the key services show that a document is a keyset of that name. It
// has to leave time for what comes then: a service that is lost does not always say so.
func (o *opened) verifies(ctx context.Context, d *keyset.Document) bool {
	ctx, cancel := asking(ctx)
	defer cancel()
	secret, err := o.services.OpenAuth(ctx, d)
	if err != nil {
		o.app.detail("what is there cannot be verified: %v", err)
		return false
	}
	defer clear(secret)
	auth, err := keyset.NewAuthKey(d.Auth.ID, secret)
	return err == nil && d.Name == o.app.flags.name && auth.Verify(d) == nil
}

// otherCeilings says which ceiling servers have of a keyset that is lost: of its policy that is
// all that their reports tell.
func otherCeilings(obs *fleet.Observation, name string, is settings) (expect []string) {
	var ceilings []string
	for n := range obs.Instances {
		i := &obs.Instances[n]
		if i.Err == nil && i.Live() && i.Report.Keyset == name && i.Report.TTL != is.ttl {
			ceilings = append(ceilings, flagDuration(i.Report.TTL))
		}
	}
	if len(ceilings) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("ttl is %s; servers have %s: to keep it, --ttl, and give what else was not the default with it, which they do not tell", flagDuration(is.ttl), list(uniq(ceilings)))}
}

// vacant looks whether a keyset may be written, and returns the one that it is to replace, nil
// if there is none that can be read.
func (o *opened) vacant(ctx context.Context, replace bool) (old *keyset.Document, err error) {
	text, version, err := o.source.Load(ctx)
	switch {
	case errors.Is(err, keyset.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	old, err = keyset.Parse(text)
	switch {
	case !replace && err != nil:
		return nil, damaged(o.place(), text, err)
	case !replace:
		return nil, fmt.Errorf("there is a keyset at %s already; keytool status shows it, and keytool rotate replaces its key", o.place())
	}
	if err != nil {
		old = nil
		o.app.note("what is there is no keyset that can be read (%v); the new one begins at revision 1, with the policy that the flags give", err)
	}
	o.text, o.version = text, version
	return old, nil
}

// inUse says why there is no new keyset: servers hold one of its name.
func (c *change) inUse() {
	c.Verdict, c.Revision = verdictBlocked, 0
	c.Summary = fmt.Sprintf("%s a keyset %s, and the store has none: a new one would cost every token in flight", counted(len(c.Reasons), "server holds", "servers hold"), c.Name)
	for i := range c.Reasons {
		c.Reasons[i].Fix = "put the newest backup of the keyset back at " + c.Store + ", or correct --store; servers go on with what they hold, as long as its max-stale allows"
	}
	c.Note = strings.TrimSuffix("what they say cannot be checked without the keyset; "+c.Note, "; ")
	c.Then = "if it is lost for good: the same command with --replace --yes --reason TEXT, and then start every server again"
}

// confirmReplace asks before a keyset takes the place of another, which servers may hold.
func (o *opened) confirmReplace(ctx context.Context, cmd *cobra.Command, held []reason, expect []string) (context.Context, context.CancelFunc, error) {
	for _, h := range held[:min(len(held), maxReasons)] {
		o.app.note("expect  %s: %s; it refuses the new keyset until it is started again", h.label, h.line)
	}
	if others := len(held) - maxReasons; others > 0 {
		o.app.note("expect  the same of %s", counted(others, "other server", "other servers"))
	}
	o.app.expect(expect)
	if o.version == "" {
		return o.app.confirm(ctx, cmd, "Beginning a new keyset "+o.app.flags.name+", while servers hold one,")
	}
	return o.app.confirm(ctx, cmd, "Replacing the keyset at "+o.place())
}

// keepLineEndFlag is that of the commands that read what somebody may have written with an
// editor.
func keepLineEndFlag(cmd *cobra.Command, keep *bool, of string) {
	cmd.Flags().BoolVar(keep, "keep-line-end", false, "take the line end at the end of "+of+" as a part of it; without this such a file is refused")
}

// readSecrets reads secret files byte for byte.
func readSecrets(files []string, keepLineEnd bool) (secrets [][]byte, err error) {
	for _, file := range files {
		secret, err := readSecret(file, keepLineEnd)
		if err != nil {
			for _, s := range secrets {
				clear(s)
			}
			return nil, err
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

const (
	minSecret = 32
	maxSecret = 1024
)

func readSecret(file string, keepLineEnd bool) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, unnamed("--secret-file", err)
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("the secret file %s is not a file", file)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("the secret file %s can be read by others (mode %#o): chmod 600 it", file, info.Mode().Perm())
	case info.Size() < minSecret || info.Size() > maxSecret:
		return nil, fmt.Errorf("the secret file %s is %d bytes long; a secret is %d to %d", file, info.Size(), minSecret, maxSecret)
	}
	secret, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if last := len(secret) - 1; !keepLineEnd && last >= 0 && secret[last] == '\n' && isPrintable(secret[:last]) {
		clear(secret)
		return nil, fmt.Errorf("the secret file %s is text that ends with a line end: if the servers' secret does not end with it, write the file without, as printf %%s does; if it does, add --keep-line-end", file)
	}
	return secret, nil
}

func isPrintable(text []byte) bool {
	for _, c := range text {
		if c < ' ' && c != '\r' && c != '\t' || c > '~' {
			return false
		}
	}
	return true
}
