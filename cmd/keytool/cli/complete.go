package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/keyset"
)

// completeKIDs offers a shell the key ids of the keys in some states. It reads the
// store, and calls no key service.
func (a *app) completeKIDs(states ...keyset.State) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const within = 2 * time.Second
		ctx, cancel := context.WithTimeout(cmd.Context(), within)
		defer cancel()
		a.settings()
		source, err := a.Stores.Open(ctx, a.flags.store)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer closeSource(source)
		text, _, err := source.Load(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		doc, err := keyset.Parse(text)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var kids []cobra.Completion
		for _, k := range doc.Keys {
			if slices.Contains(states, k.State) && !slices.Contains(given, k.KID) {
				kids = append(kids, cobra.CompletionWithDesc(k.KID, string(k.State)))
			}
		}
		return kids, cobra.ShellCompDirectiveNoFileComp
	}
}
