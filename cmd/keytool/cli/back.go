package cli

import (
	"context"
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
token is lost. It needs no report from the servers; but if one of them holds a later
revision than the store, or the same with another content, abort is blocked: the store has
an old copy then. So it is if this clock is behind the last change: see keytool policy
--help.`,
		Example: "  keytool abort --dry-run\n  keytool abort --reason \"mcp-c cannot open it\"",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.reasoned(); err != nil {
				return err
			}
			c := &change{Action: "abort"}
			return a.onNewest(cmd, c, func(ctx context.Context, o *opened) error {
				return o.apply(ctx, c, func(_ *opened, next *keyset.Document, stamp func() keyset.Note) error {
					kid := keyIn(next, keyset.Staged)
					if kid == "" {
						return fmt.Errorf("no key of %s is staged, so there is nothing to abort", next.Name)
					}
					c.KID, c.Summary = kid, a.did("drop", "dropped")+" the staged key "+kid
					c.Then = "nothing; keytool rotate begins anew when it is due"
					return next.Abort(stamp(), kid)
				})
			})
		},
	}
	a.writeFlags(cmd)
	a.forceFlags(cmd)
	return cmd
}

func (a *app) rollbackCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Swaps the primary back while the old one is still retiring",
		Long: `rollback makes the key that was promoted before the present primary primary again; the
present one becomes retiring. Every server still has both, so no token is lost, and no
report from the servers is needed; but if one of them holds a later revision than the
store, or the same with another content, rollback is blocked: the store has an old copy
then. So it is if this clock is behind the last change: see keytool policy --help. Run
again it changes nothing, but where it was dated by a clock that was ahead: then it is
dated anew by this one. The way forward is keytool rotate --replace, with a new key.`,
		Example: "  keytool rollback --dry-run\n  keytool rollback --reason \"refused tokens since the promotion\"",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.reasoned(); err != nil {
				return err
			}
			c := &change{Action: "rollback"}
			return a.onNewest(cmd, c, func(ctx context.Context, o *opened) error {
				if o.rolledBack(c) {
					return nil
				}
				return o.apply(ctx, c, func(_ *opened, next *keyset.Document, stamp func() keyset.Note) error {
					from, to := next.Primary().KID, lastDemoted(next)
					if to == "" {
						return fmt.Errorf("no key of %s is retiring, so there is none to go back to", next.Name)
					}
					if wentBack(next) != nil {
						c.KID, c.counted, c.Summary = from, from, fmt.Sprintf("%s anew by this clock that %s is primary again, and %s retiring", a.did("date", "dated"), from, to)
						c.Then = "keytool rotate --wait retires " + to + " in time"
						return backAnew(next, stamp(), from, to)
					}
					c.KID, c.counted, c.Summary = to, to, fmt.Sprintf("%s primary again, and %s retiring", a.did("make "+to, to+" is"), from)
					c.Then = "keytool rotate --wait retires " + from + " in time"
					return next.Rollback(stamp(), to)
				})
			})
		},
	}
	a.writeFlags(cmd)
	a.forceFlags(cmd)
	return cmd
}

// backAnew dates a rollback from a key, to the primary, anew. There and back is one
// revision: nobody sees another primary meanwhile.
func backAnew(next *keyset.Document, n keyset.Note, primary, from string) error {
	if err := next.Rollback(n, from); err != nil {
		return err
	}
	return next.Rollback(n, primary)
}

// wentBack returns the rollback by which the primary is one, nil if there is none, or if the
// key that it has replaced is gone.
func wentBack(d *keyset.Document) *keyset.Event {
	if lastDemoted(d) == "" {
		return nil
	}
	for i, e := range slices.Backward(d.History) {
		switch {
		case e.Action == "rollback" && e.KID == d.Primary().KID:
			return &d.History[i]
		case e.Action == "rollback", e.Action == "promote":
			return nil
		}
	}
	return nil
}

// rolledBack reports whether the primary is one by a rollback already, with the key that
// it has replaced still there: whoever does not know whether the first run came to its end
// runs it again, and must not go forward by that. One that is to be dated anew is not done.
func (o *opened) rolledBack(c *change) bool {
	d, back := o.doc, wentBack(o.doc)
	if back == nil {
		return false
	}
	kid, from := d.Primary().KID, lastDemoted(d)
	// By a clock that is behind it would get the date that it has.
	if at, _ := waitsFrom(*d.Key(from)); o.behindHistory() == "" && ahead(at, o.app.Now(), d.Policy) {
		return false
	}
	c.KID, c.Verdict, c.DryRun, c.Name, c.Store, c.Revision = kid, verdictOK, o.app.flags.dryRun, d.Name, o.place(), d.Revision
	c.Summary = fmt.Sprintf("%s is primary again since the rollback of %s by %s; nothing was changed", kid, formatTime(back.At), back.Actor)
	c.Then = fmt.Sprintf("keytool rotate --wait retires %s in time; to go forward, with a new key: keytool rotate --replace %s --wait", from, kid)
	o.app.report = c
	return true
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
