package cli

import (
	"context"
	"fmt"
	"slices"

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

  --add URI    wraps them under one more key service, beside those that are there
  --drop URI   takes that service's wrappings out, once every live instance has proved
               that it has opened every key with another one; until then it is blocked.
               The name that keytool status -o json shows will do, if the service is gone

To move a keyset to another service: rewrap --add NEW; give the servers NEW as well; run
rewrap --drop OLD until it is no longer blocked; take OLD from the servers.`,
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
				return a.rewrapDrop(ctx, drop)
			default:
				return a.rewrapAll(ctx)
			}
		},
	}
	a.writeFlags(cmd)
	a.yesFlag(cmd)
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

// rewrapAll wraps each entry anew under every configured service that wraps it.
func (a *app) rewrapAll(ctx context.Context) error {
	c := &change{Action: "rewrap"}
	return a.apply(ctx, c, func(_ *opened, next *keyset.Document, stamp func() keyset.Note) error {
		entries := wrappedEntries(next)
		c.Summary = fmt.Sprintf("%s %s anew under the newest version of each key service", a.did("wrap", "wrapped"), count(len(entries), "key"))
		c.Then = "nothing: servers go on with what they have, and open the new wrappings in the background"
		if a.flags.dryRun {
			return nil
		}
		each, err := a.eachService(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = each.Close() }()
		all := make(map[string][]keyset.WrappedKey)
		for _, e := range entries {
			if all[e.kid], err = rewrap(ctx, each, e); err != nil {
				return fmt.Errorf("%s: %w; nothing was changed", e.name(), err)
			}
		}
		return next.Rewrap(stamp(), all)
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
			return nil, misconfigured(err)
		}
		each = append(each, s...)
	}
	return each, nil
}

// rewrap wraps an entry anew, by each service under whose key it is. A wrapping of
// another service stays as it is.
func rewrap(ctx context.Context, each keyset.Services, e wrappedEntry) ([]keyset.WrappedKey, error) {
	all := slices.Clone(e.wrapped)
	for i, w := range all {
		s := slices.IndexFunc(each, func(s keyset.KeyService) bool { return s.Opens(w.Service) })
		if s < 0 {
			continue
		}
		anew, err := keyset.Services{each[s]}.Rewrap(ctx, []keyset.WrappedKey{w}, e.context)
		if err != nil {
			return nil, err
		}
		if anew.Service == w.Service {
			all[i] = anew
		}
	}
	return all, nil
}

// rewrapAdd wraps each entry under one more service.
func (a *app) rewrapAdd(ctx context.Context, uri string) error {
	added, err := a.KeyServices.Open(ctx, uri)
	if err != nil {
		return misconfigured(fmt.Errorf("--add: %w", err))
	}
	defer func() { _ = added.Close() }()
	c := &change{Action: "rewrap-add"}
	return a.apply(ctx, c, func(o *opened, next *keyset.Document, stamp func() keyset.Note) error {
		entries := wrappedEntries(next)
		c.Summary = fmt.Sprintf("%s %s under %s as well", a.did("wrap", "wrapped"), count(len(entries), "key"), uri)
		c.Then = "give the servers " + uri + " as a key service, too; then: keytool rewrap --drop OLD"
		if a.flags.dryRun {
			return nil
		}
		all := make(map[string][]keyset.WrappedKey)
		for _, e := range entries {
			w, err := append(slices.Clone(added), o.services...).Rewrap(ctx, e.wrapped, e.context)
			if err != nil {
				return fmt.Errorf("%s: %w; nothing was changed", e.name(), err)
			}
			others := slices.DeleteFunc(slices.Clone(e.wrapped), func(old keyset.WrappedKey) bool { return old.Service == w.Service })
			all[e.kid] = append(others, w)
		}
		return next.Rewrap(stamp(), all)
	})
}

// rewrapDrop takes the wrappings of a service out, once every live instance has opened
// every key with another.
func (a *app) rewrapDrop(ctx context.Context, uri string) error {
	o, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	services, err := o.named(ctx, uri)
	if err != nil {
		return err
	}
	if err := a.confirm("Dropping the wrappings under " + list(services)); err != nil {
		return err
	}
	c := &change{Action: "rewrap-drop"}
	if !a.flags.force {
		now := a.Now()
		obs := o.observe(ctx)
		if step := rotation.Dropped(without(o.doc, services[1:]), obs, now, services[0]); step.Kind != rotation.Done {
			c.outlook = judge{o.doc, &obs, a.Now()}.outlook(step)
			c.Then = "give the servers the other key service and run it again; keytool fleet -o json shows what each has opened"
			c.Name, c.Store, c.Revision = o.doc.Name, o.place(), o.doc.Revision
			a.report = c
			return exit(blocked)
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
