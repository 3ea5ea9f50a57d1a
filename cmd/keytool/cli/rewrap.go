package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

func (a *app) rewrapCommand() *cobra.Command {
	var add, drop string
	cmd := &cobra.Command{
		Use:   "rewrap [--add URI | --drop URI]",
		Short: "Wraps the same data keys anew; tokens are not touched",
		Long: `rewrap wraps every data key, and the auth key, anew under the newest version of each key
service that wraps it. The data keys stay the same, so no token is touched; to replace
the keys themselves use keytool rotate.

  --add URI    wraps them under one more key service, beside those that are there; what is
               wrapped under it already stays as it is
  --drop URI   takes that service's wrappings out, once every live instance has proved
               that it has opened every key with another one. Until then it waits, as long
               as servers may take that have the other service, and then it is blocked; a
               server that does not have it blocks at once. The name that keytool status
               -o json shows will do, if the service is gone

To move a keyset to another service: rewrap --add NEW; give the servers NEW as well; run
rewrap --drop OLD until it says DONE; take OLD from the servers. While it waits it exits 0
and has changed nothing: a script types --exit-code, which makes that 3.`,
		Example: `  keytool rewrap
  keytool rewrap --add awskms:///arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab
  keytool rewrap --drop localkek:///etc/echoseal/kek.key --yes`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := a.context(cmd)
			defer cancel()
			switch {
			case add != "" && drop != "":
				return usagef("--add and --drop are two steps: add, let every server open it, then drop")
			case a.flags.force && (drop == "" || a.flags.reason == ""):
				return usagef("--force is for --drop without proof, and needs --reason")
			case add != "":
				return a.rewrapAdd(ctx, add)
			case drop != "":
				return a.rewrapDrop(ctx, cmd, drop)
			default:
				return a.rewrapAll(ctx)
			}
		},
	}
	a.writeFlags(cmd)
	a.yesFlag(cmd)
	cmd.Flags().Lookup("exit-code").Usage = "exit 3 if --drop has to wait, or with --dry-run if the command would change something"
	cmd.Flags().StringVar(&add, "add", "", "`URI` of a key service to wrap with as well")
	cmd.Flags().StringVar(&drop, "drop", "", "`URI` of a key service whose wrappings are taken out")
	cmd.Flags().BoolVar(&a.flags.force, "force", false, "drop though not every instance has proved that it can do without; needs --reason")
	return cmd
}

// A wrappedEntry is what is wrapped in a keyset: the auth key, or a data key.
type wrappedEntry struct {
	kid     string // "" for the auth key
	wrapped []keyset.WrappedKey
	context map[string]string
}

func (e wrappedEntry) name() string {
	if e.kid == "" {
		return "the auth key"
	}
	return "key " + e.kid
}

func wrappedEntries(d *keyset.Document) []wrappedEntry {
	all := []wrappedEntry{{wrapped: d.Auth.Wrapped, context: keyset.EncryptionContext(d.Name, d.Auth.ID, keyset.Auth)}}
	for _, k := range d.Keys {
		if k.Unseals() {
			all = append(all, wrappedEntry{kid: k.KID, wrapped: k.Wrapped, context: keyset.EncryptionContext(d.Name, k.ID, keyset.Data)})
		}
	}
	return all
}

// rewrapAll wraps each entry anew under every configured service that wraps it. Not every
// service tells whether a wrapping is of its newest version, so that it is asked in any case.
func (a *app) rewrapAll(ctx context.Context) error {
	c := &change{Action: "rewrap"}
	c.Then = "nothing: servers go on with what they have, and open the new wrappings in the background"
	a.settings()
	each, err := a.eachService(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = each.Close() }()
	const nothing = "nothing is wrapped anew: of the keys that wrap it only replicas are configured here"
	return a.rewrapEach(ctx, c, " anew under the newest version of each key service", nothing, func(_ *opened, e wrappedEntry) ([]keyset.WrappedKey, error) {
		return rewrap(ctx, each, e)
	})
}

// eachService opens every key service by itself, so that each wraps under its own key and
// not under the first one of its kind.
func (a *app) eachService(ctx context.Context) (keyset.Services, error) {
	var each keyset.Services
	for _, uri := range a.flags.keyServices {
		s, err := a.KeyServices.Open(ctx, uri)
		if err != nil {
			_ = each.Close()
			return nil, misconfigured(fmt.Errorf("--key-service: %w", err))
		}
		each = append(each, s...)
	}
	return each, nil
}

// rewrap wraps an entry anew, by each service under whose key it is. A wrapping of
// another service stays as it is, as does one of a key of which only a replica is
// configured: that wraps under a name of its own. If all do, nil is returned.
func rewrap(ctx context.Context, each keyset.Services, e wrappedEntry) ([]keyset.WrappedKey, error) {
	all, changed := slices.Clone(e.wrapped), false
	for i, w := range e.wrapped {
		for _, s := range each {
			if !s.Opens(w.Service) {
				continue
			}
			anew, err := keyset.Services{s}.Rewrap(ctx, []keyset.WrappedKey{w}, e.context)
			if err != nil {
				return nil, err
			}
			if anew.Service == w.Service {
				all[i], changed = anew, true
				break
			}
		}
	}
	if !changed {
		return nil, nil
	}
	return all, nil
}

// rewrapAdd wraps each entry under one more service, if it is not yet.
func (a *app) rewrapAdd(ctx context.Context, uri string) error {
	added, err := a.KeyServices.Open(ctx, uri)
	if err != nil {
		return misconfigured(fmt.Errorf("--add: %w", err))
	}
	defer func() { _ = added.Close() }()
	c := &change{Action: "rewrap-add"}
	var before []string // the services under which it is wrapped beside that
	err = a.rewrapEach(ctx, c, " under "+uri+" as well", "every key is wrapped under "+uri+" already", func(o *opened, e wrappedEntry) ([]keyset.WrappedKey, error) {
		w, err := append(slices.Clone(added), o.services...).Rewrap(ctx, e.wrapped, e.context)
		if err != nil {
			return nil, err
		}
		others := keptWithout(e.wrapped, []string{w.Service})
		for _, old := range others {
			before = uniq(append(before, old.Service))
		}
		if len(others) < len(e.wrapped) {
			return nil, nil
		}
		return append(slices.Clone(e.wrapped), w), nil
	})
	if err == nil && len(before) > 0 {
		c.Then = "give the servers " + uri + " as a key service, too; then: keytool rewrap --drop " + a.toDrop(ctx, before)
	}
	return err
}

// toDrop returns what to type for the service that makes way for another: its URI as it was
// given, or its name. Where it may be one of several the operator has to choose.
func (a *app) toDrop(ctx context.Context, services []string) string {
	if len(services) != 1 {
		return "OLD"
	}
	for _, uri := range a.flags.keyServices {
		s, err := a.KeyServices.Open(ctx, uri)
		if err != nil {
			continue
		}
		opens := s.Opens(services[0])
		_ = s.Close()
		if opens {
			return quoted(uri)
		}
	}
	return quoted(services[0])
}

// rewrapEach changes the wrappings of each entry to what wrap gives, and leaves those alone
// for which that is nil. How says what is done to a key, and nothing that it is not done to
// any: then nothing is written.
func (a *app) rewrapEach(ctx context.Context, c *change, how, nothing string, wrap func(*opened, wrappedEntry) ([]keyset.WrappedKey, error)) error {
	o, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	if _, err := o.store(); err != nil {
		return err
	}
	culprits, err := o.overtaken(ctx)
	if err != nil {
		return err
	}
	all := make(map[string][]keyset.WrappedKey)
	for _, e := range wrappedEntries(o.doc) {
		wrapped, err := wrap(o, e)
		if err != nil {
			return fmt.Errorf("%s: %w; nothing was changed", e.name(), err)
		}
		if wrapped != nil {
			all[e.kid] = wrapped
		}
	}
	if len(all) == 0 {
		c.Verdict, c.Summary = verdictOK, nothing
		o.unchanged(c)
		return nil
	}
	a.expect(expected(o.behindHistory(), culprits))
	c.Summary = a.did("wrap ", "wrapped ") + count(len(all), "key") + how
	return o.apply(ctx, c, func(_ *opened, next *keyset.Document, stamp func() keyset.Note) error {
		return next.Rewrap(stamp(), all)
	})
}

// unchanged makes c the report of a command that has changed nothing.
func (o *opened) unchanged(c *change) {
	c.DryRun, c.Name, c.Store, c.Revision = o.app.flags.dryRun, o.doc.Name, o.place(), o.doc.Revision
	o.app.report = c
}

// rewrapDrop takes the wrappings of a service out, once every live instance has opened
// every key with another.
func (a *app) rewrapDrop(ctx context.Context, cmd *cobra.Command, uri string) error {
	o, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	services, err := o.named(ctx, uri)
	if err != nil {
		return err
	}
	if err := o.foretell(ctx); err != nil {
		return err
	}
	if a.flags.force {
		a.expect(o.unproven(ctx, services))
	}
	ctx, cancel, err := a.confirm(ctx, cmd, "Dropping the wrappings under "+list(services))
	if err != nil {
		return err
	}
	defer cancel()
	c := &change{Action: "rewrap-drop"}
	if !a.flags.force {
		now := a.Now()
		obs := o.observe(ctx)
		if step := rotation.Dropped(without(o.doc, services[1:]), obs, now, services[0]); step.Kind != rotation.Done {
			return o.notYet(c, judge{o.doc, &obs, a.Now()}, step)
		}
	}
	return o.apply(ctx, c, func(_ *opened, next *keyset.Document, stamp func() keyset.Note) error {
		all := make(map[string][]keyset.WrappedKey)
		for _, e := range wrappedEntries(next) {
			switch kept := keptWithout(e.wrapped, services); {
			case len(kept) == 0:
				return fmt.Errorf("%s is wrapped by nothing but %s: another service first: keytool rewrap --add URI", e.name(), list(services))
			case len(kept) < len(e.wrapped):
				all[e.kid] = kept
			}
		}
		c.Summary, c.Then = a.did("drop", "dropped")+" the wrappings under "+list(services), "take "+uri+" from the servers, and from --key-service"
		return next.Rewrap(stamp(), all)
	})
}

// unproven says who has not proved that it can do without the wrappings of services.
func (o *opened) unproven(ctx context.Context, services []string) (said []string) {
	now := o.app.Now()
	obs := o.observe(ctx)
	step := rotation.Dropped(without(o.doc, services[1:]), obs, now, services[0])
	all, others := sparingly(together(judge{o.doc, &obs, o.app.Now()}.outlook(step).Reasons), maxReasons)
	for _, r := range all {
		switch {
		case r.grave(), r.Code == rotation.NotWrapped: // it was told, or is refused below
		case r.Instance != "":
			said = append(said, r.label+": "+r.line+"; started again without another key service that opens the keys, it has none")
		default:
			said = append(said, r.line)
		}
	}
	if others > 0 {
		said = append(said, fmt.Sprintf("the same of %d others", others))
	}
	return said
}

// notYet reports that a drop waits, or is blocked.
func (o *opened) notYet(c *change, j judge, step rotation.Step) error {
	c.outlook = j.outlook(step)
	o.unchanged(c)
	if step.Kind == rotation.Blocked {
		c.Then = "give the servers the other key service and run it again; keytool fleet -o json shows what each has opened"
		return exit(blocked)
	}
	var until time.Time // when the last of them has had its time
	for _, r := range step.Reasons {
		if r.Until.After(until) {
			until = r.Until
		}
	}
	c.Then = fmt.Sprintf("run it again; whoever has not opened it by %s, in %s, blocks it", clock(until, j.now), left(until, j.now))
	return o.app.pendingIfAsked()
}

// named returns the names that the keyset has for a key service: the one that was given,
// or those that the service at that URI opens.
func (o *opened) named(ctx context.Context, uri string) ([]string, error) {
	var all []string
	for _, e := range wrappedEntries(o.doc) {
		for _, w := range e.wrapped {
			all = append(all, w.Service)
		}
	}
	all = uniq(all)
	if slices.Contains(all, uri) {
		return []string{uri}, nil
	}
	s, err := o.app.KeyServices.Open(ctx, uri)
	if err != nil {
		return nil, misconfigured(fmt.Errorf("--drop: the keyset has no wrapping of that name, but of %s; and as the URI of a key service: %w", list(all), err))
	}
	defer func() { _ = s.Close() }()
	opens := slices.DeleteFunc(slices.Clone(all), func(service string) bool { return !s.Opens(service) })
	if len(opens) == 0 {
		return nil, fmt.Errorf("nothing in the keyset is wrapped by %s, but by %s", uri, list(all))
	}
	return opens, nil
}

func keptWithout(wrapped []keyset.WrappedKey, services []string) []keyset.WrappedKey {
	return slices.DeleteFunc(slices.Clone(wrapped), func(w keyset.WrappedKey) bool { return slices.Contains(services, w.Service) })
}

// without returns the document without the wrappings of services, to be looked at.
func without(d *keyset.Document, services []string) *keyset.Document {
	d = d.Clone()
	d.Auth.Wrapped = keptWithout(d.Auth.Wrapped, services)
	for i := range d.Keys {
		d.Keys[i].Wrapped = keptWithout(d.Keys[i].Wrapped, services)
	}
	return d
}
