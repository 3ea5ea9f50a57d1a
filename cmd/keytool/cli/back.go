package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/keyset"
)

func (a *app) abortCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "abort",
		Short: "Drops the staged key, and with it the rotation that has begun",
		Long: `abort takes the staged key out of the keyset. No token was ever sealed with it, so no
token is lost. It needs no report from the servers.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := a.context(cmd)
			defer cancel()
			c := &change{Action: "abort"}
			return a.apply(ctx, c, func(_ *opened, next *keyset.Document, stamp func() keyset.Note) error {
				kid := keyIn(next, keyset.Staged)
				if kid == "" {
					return fmt.Errorf("no key of %s is staged, so there is nothing to abort", next.Name)
				}
				c.KID, c.Summary = kid, a.did("drop", "dropped")+" the staged key "+kid
				c.Then = "nothing; keytool rotate begins anew when it is due"
				return next.Abort(stamp(), kid)
			})
		},
	}
	a.writeFlags(cmd)
	return cmd
}

func (a *app) rollbackCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Swaps the primary back while the old one is still retiring",
		Long: `rollback makes the key that was promoted before the present primary primary again; the
present one becomes retiring. Every server still has both, so no token is lost, and no
report from the servers is needed.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := a.context(cmd)
			defer cancel()
			c := &change{Action: "rollback"}
			return a.apply(ctx, c, func(_ *opened, next *keyset.Document, stamp func() keyset.Note) error {
				from, to := next.Primary().KID, lastDemoted(next)
				if to == "" {
					return fmt.Errorf("no key of %s is retiring, so there is none to go back to", next.Name)
				}
				c.KID, c.counted, c.Summary = to, to, fmt.Sprintf("%s primary again, and %s retiring", a.did("make "+to, to+" is"), from)
				c.Then = "keytool rotate --wait retires " + from + " in time"
				return next.Rollback(stamp(), to)
			})
		},
	}
	a.writeFlags(cmd)
	return cmd
}

// keyIn returns the key id of the first key in a state, or "".
func keyIn(d *keyset.Document, state keyset.State) string {
	i := slices.IndexFunc(d.Keys, func(k keyset.Key) bool { return k.State == state })
	if i < 0 {
		return ""
	}
	return d.Keys[i].KID
}

// lastDemoted returns the key that was primary before the present one, or "".
func lastDemoted(d *keyset.Document) string {
	var last *keyset.Key
	for i := range d.Keys {
		k := &d.Keys[i]
		if k.State == keyset.Retiring && (last == nil || k.Demoted.After(last.Demoted)) {
			last = k
		}
	}
	if last == nil {
		return ""
	}
	return last.KID
}
