package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/keyset"
)

func (a *app) rewrapCommand() *cobra.Command {
	var add, drop string
	cmd := &cobra.Command{
		Use:   "rewrap [--add URI] [--drop URI]",
		Short: "Wraps the same data keys anew; tokens are not touched",
		Long: `rewrap wraps every data key, and the auth key, anew under the newest version of each key
service that wraps it. The data keys stay the same, so no token is touched; to replace
the keys themselves use keytool rotate.

  --add URI    wraps them under one more key service, beside those that are there
  --drop URI   takes that service's wrappings out. It waits for proof: every live
               instance must have opened all keys with another service

To move a keyset to another service: rewrap --add NEW, give the servers NEW as well, wait
until keytool rewrap --drop OLD is no longer blocked, take OLD from the servers.`,
		Example: "  keytool rewrap\n  keytool rewrap --add awskms:///arn:aws:kms:…\n  keytool rewrap --drop localkek:///etc/echoseal/kek.key",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if add != "" && drop != "" {
				return usagef("--add and --drop are two steps: add, let every server open it, then drop")
			}
			ctx, cancel := a.context(cmd)
			defer cancel()
			switch {
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
	cmd.Flags().StringVar(&add, "add", "", "URI of a key service to wrap with as well")
	cmd.Flags().StringVar(&drop, "drop", "", "URI of a key service whose wrappings are taken out")
	cmd.Flags().BoolVar(&a.flags.force, "force", false, "drop without proof; needs --reason")
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
	c := &change{Action: "rewrap", Then: "nothing: servers go on with what they have, and open the new wrappings in the background"}
	return a.apply(ctx, c, func(o *opened, next *keyset.Document) error {
		entries := wrappedEntries(next)
		c.Did = fmt.Sprintf("wrap %s anew under the newest version of its key services", count(len(entries), "key"))
		if a.flags.dryRun {
			return nil
		}
		all := make(map[string][]keyset.WrappedKey)
		for _, e := range entries {
			var err error
			if all[e.kid], err = o.rewrap(ctx, e); err != nil {
				return fmt.Errorf("%s: %w", e.name(), err)
			}
		}
		return next.Rewrap(o.stamp(), all)
	})
}

func (o *opened) rewrap(ctx context.Context, e wrappedEntry) ([]keyset.WrappedKey, error) {
	var all []keyset.WrappedKey
	for _, w := range e.wrapped {
		i := slices.IndexFunc(o.services, func(s keyset.KeyService) bool { return s.Opens(w.Service) })
		if i < 0 {
			all = append(all, w) // of a service that is not configured here
			continue
		}
		anew, err := keyset.Services{o.services[i]}.Rewrap(ctx, []keyset.WrappedKey{w}, e.context)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(all, func(other keyset.WrappedKey) bool { return other.Service == anew.Service }) {
			all = append(all, anew)
		}
	}
	return all, nil
}

// rewrapAdd wraps each entry under one more service.
func (a *app) rewrapAdd(ctx context.Context, uri string) error {
	added, err := keyServiceOpeners().Open(ctx, uri)
	if err != nil {
		return err
	}
	defer func() { _ = added.Close() }()
	c := &change{Action: "rewrap", Then: "give the servers " + uri + " as a key service, too, and then: keytool rewrap --drop OLD"}
	return a.apply(ctx, c, func(o *opened, next *keyset.Document) error {
		entries := wrappedEntries(next)
		c.Did = fmt.Sprintf("wrap %s under %s as well", count(len(entries), "key"), uri)
		if a.flags.dryRun {
			return nil
		}
		all := make(map[string][]keyset.WrappedKey)
		for _, e := range entries {
			w, err := append(slices.Clone(added), o.services...).Rewrap(ctx, e.wrapped, e.context)
			if err != nil {
				return fmt.Errorf("%s: %w", e.name(), err)
			}
			wrapped := slices.DeleteFunc(slices.Clone(e.wrapped), func(old keyset.WrappedKey) bool { return old.Service == w.Service })
			all[e.kid] = append(wrapped, w)
		}
		return next.Rewrap(o.stamp(), all)
	})
}

// rewrapDrop takes the wrappings of a service out, once every live instance has opened
// all keys with another.
func (a *app) rewrapDrop(ctx context.Context, uri string) error {
	dropped, err := keyServiceOpeners().Open(ctx, uri)
	if err != nil {
		return err
	}
	defer func() { _ = dropped.Close() }()
	if err := a.confirm("dropping " + uri); err != nil {
		return err
	}
	if a.flags.force && a.flags.reason == "" {
		return usagef("rewrap --drop --force needs --reason")
	}
	c := &change{Action: "rewrap", Then: "take " + uri + " from the servers"}
	return a.apply(ctx, c, func(o *opened, next *keyset.Document) error {
		var services []string
		all := make(map[string][]keyset.WrappedKey)
		for _, e := range wrappedEntries(next) {
			kept := slices.DeleteFunc(slices.Clone(e.wrapped), func(w keyset.WrappedKey) bool {
				if dropped.Opens(w.Service) {
					services = append(services, w.Service)
					return true
				}
				return false
			})
			if len(kept) == len(e.wrapped) {
				continue
			}
			if len(kept) == 0 {
				return fmt.Errorf("%s is wrapped by nothing but %s: keytool rewrap --add another service first", e.name(), uri)
			}
			all[e.kid] = kept
		}
		services = uniq(services)
		if len(services) == 0 {
			return fmt.Errorf("nothing in the keyset is wrapped by %s", uri)
		}
		c.Did = "drop the wrappings under " + strings.Join(services, ", ")
		if !a.flags.force {
			if err := o.mayDrop(ctx, services); err != nil {
				return err
			}
		}
		return next.Rewrap(o.stamp(), all)
	})
}

func uniq(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}

// count writes a number of things.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
