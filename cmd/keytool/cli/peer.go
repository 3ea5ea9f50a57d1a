package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/keyset"
)

func (a *app) exportCommand() *cobra.Command {
	var e export
	cmd := &cobra.Command{
		Use:   "export --peer NAME --ttl D --out FILE",
		Short: "Writes the keys as secrets for a Python service",
		Long: `export writes the data keys to a new file, mode 0600: a JSON list of base64, the
primary first, never a revoked one. The Python SDK takes the decoded list as its ring:

  import base64, json
  keys = [base64.b64decode(k) for k in json.load(open("FILE"))]
  RequestStateSecurity(keys=keys, ttl=600, audience="billing")

The audience is that of the Go servers; with another one each refuses the other's tokens.

It records in the keyset what was handed over. Until keytool confirm says that the peer
runs with it, a promotion waits; --ttl is how long the peer's tokens live, and counts
in every wait.

It is blocked if a server holds a later revision than the store, or the same with another
content: the store has an old copy then; or if this clock is behind the last change: see
keytool policy --help.

Whoever has the file has the keys: hand it over in a safe way, and delete it.`,
		Example: "  keytool export --peer python-a --ttl 10m --out python-a.json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if e.peer == "" || e.path == "" || e.ttl <= 0 {
				return usagef("export needs --peer, --ttl and --out")
			}
			if !peerPattern.MatchString(e.peer) {
				return usagef("--peer is a name of small letters, digits, and .-_ behind the first, at most 63, not %s", shown(e.peer))
			}
			if err := a.roomFor(e.peer); err != nil {
				return err
			}
			if err := a.reasoned(); err != nil {
				return err
			}
			return a.export(cmd, e)
		},
	}
	a.writeFlags(cmd)
	a.forceFlags(cmd)
	cmd.Flags().StringVar(&e.peer, "peer", "", "the `NAME` of the peer")
	cmd.Flags().DurationVar(&e.ttl, "ttl", 0, "how long the peer's tokens live, such as 10m: the ttl of its RequestStateSecurity")
	cmd.Flags().StringVar(&e.path, "out", "", "the `FILE` to write; it must not be there yet")
	return cmd
}

// peerPattern is what package keyset takes as the name of a peer.
var peerPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

type export struct {
	peer, path string
	ttl        time.Duration
}

func (a *app) export(cmd *cobra.Command, e export) error {
	path, err := absolute(e.path)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		left := ""
		if _, err := os.Lstat(draftOf(path)); err == nil {
			left = "; and " + draftOf(path) + " is left of an export that was killed: delete it, for it may hold keys"
		}
		return usagef("%s is there already, and is not replaced: choose a new file%s", path, left)
	}
	c := &change{Action: "export"}
	var file *draft
	err = a.onNewest(cmd, c, func(ctx context.Context, o *opened) error {
		return o.apply(ctx, c, func(o *opened, next *keyset.Document, stamp func() keyset.Note) error {
			keys := exported(next)
			c.Summary = fmt.Sprintf("%s %s to the peer %s in %s", a.did("hand", "handed"), count(len(keys), "key"), e.peer, path)
			c.Then = fmt.Sprintf("start the peer with it, delete the file, and: keytool confirm --peer %s", e.peer)
			if !a.flags.dryRun {
				var err error
				if file, err = o.draft(ctx, path, keys); err != nil {
					return err
				}
			}
			return next.Export(naming(stamp(), e.peer), e.peer, e.ttl)
		})
	})
	switch {
	case file == nil:
		return err
	case err != nil:
		return file.discard(err)
	}
	if err = file.publish(); err != nil {
		a.report = nil
	}
	return err
}

// exported returns the keys that a peer is given, the primary first.
func exported(d *keyset.Document) []keyset.Key {
	keys := []keyset.Key{*d.Primary()}
	for _, k := range d.Keys {
		if k.Unseals() && k.State != keyset.Primary {
			keys = append(keys, k)
		}
	}
	return keys
}

// draft opens the secrets of keys, and takes the room for a new file of them that nobody else
// can read.
func (o *opened) draft(ctx context.Context, path string, keys []keyset.Key) (*draft, error) {
	var secrets [][]byte
	defer func() {
		for _, s := range secrets {
			clear(s)
		}
	}()
	for _, k := range keys {
		secret, err := o.services.OpenSecret(ctx, o.doc.Name, k)
		if err != nil {
			return nil, fmt.Errorf("opening key %s: %w", k.KID, err)
		}
		secrets = append(secrets, secret)
	}
	text, err := json.Marshal(secrets)
	if err != nil {
		return nil, fmt.Errorf("writing the secrets: %w", err)
	}
	return newDraft(path, text)
}

func (a *app) confirmCommand() *cobra.Command {
	var peer string
	cmd := &cobra.Command{
		Use:   "confirm --peer NAME",
		Short: "Notes that a peer runs with what was exported to it last",
		Long: `confirm notes that the peer runs with the keys of its last export. Make sure of it first: a
peer that runs with an older export refuses tokens after the next promotion.`,
		Example: "  keytool confirm --peer python-a",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if peer == "" {
				return usagef("confirm needs --peer")
			}
			ctx, cancel := a.context(cmd)
			defer cancel()
			c := &change{Action: "confirm"}
			c.Summary, c.Then = a.did("note", "noted")+" that the peer "+peer+" runs with its last export", "keytool rotate --wait, if a rotation is open"
			return a.apply(ctx, c, func(o *opened, next *keyset.Document, stamp func() keyset.Note) error {
				if err := o.hasPeer(peer); err != nil {
					return err
				}
				if err := a.roomFor(peer); err != nil {
					return err
				}
				return next.Confirm(naming(stamp(), peer), peer)
			})
		},
	}
	a.writeFlags(cmd)
	cmd.Flags().StringVar(&peer, "peer", "", "the `NAME` of the peer")
	return cmd
}

func (a *app) peerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "peer",
		Short: "Forgets a peer that runs no more",
		Long: `A peer is a server that cannot report, and is given the keys as secrets: keytool export
makes one, keytool confirm notes that it runs with them, and keytool status shows them all.`,
		RunE: a.needsCommand,
		Args: usageArgs(cobra.NoArgs),

		Annotations: map[string]string{groupMark: "it needs a command"},
	}
	forget := &cobra.Command{
		Use:   "forget NAME --reason TEXT",
		Short: "Notes that a peer is no more, so that nothing waits for it",
		Long: `forget notes that a peer runs no more, so that nothing waits for it. If it still runs, it
refuses tokens after the next promotion, and its own are refused when its key retires.
The keys that it was given stay good until each retires: if they leaked, keytool revoke.
keytool status shows the peers.`,
		Example: "  keytool peer forget python-a --reason \"moved to Go\"",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.forgetPeer(cmd, args[0]) },
	}
	a.writeFlags(forget)
	a.yesFlag(forget)
	cmd.AddCommand(forget)
	return cmd
}

func (a *app) forgetPeer(cmd *cobra.Command, peer string) error {
	ctx, cancel := a.context(cmd)
	defer cancel()
	o, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	// Whoever has mistyped a name is told so before anything is asked.
	if err := o.hasPeer(peer); err != nil {
		return err
	}
	if a.flags.reason == "" {
		return usagef("peer forget needs --reason")
	}
	if err := a.roomFor(peer); err != nil {
		return err
	}
	if err := o.foretell(ctx); err != nil {
		return err
	}
	ctx, cancel, err = a.confirm(ctx, cmd, "Forgetting the peer "+peer)
	if err != nil {
		return err
	}
	defer cancel()
	c := &change{Action: "forget-peer"}
	c.Summary = a.did("note", "noted") + " that the peer " + peer + " is no more"
	return o.apply(ctx, c, func(_ *opened, next *keyset.Document, stamp func() keyset.Note) error {
		return next.ForgetPeer(naming(stamp(), peer), peer)
	})
}

// hasPeer is the error of a name that no peer has. One that had it was forgotten, as far
// as the history goes; any other is a mistake.
func (o *opened) hasPeer(name string) error {
	d := o.doc
	var names []string
	for _, p := range d.Peers {
		names = append(names, p.Name)
	}
	if slices.Contains(names, name) {
		return nil
	}
	if e := lastOf(d, "forget", name); e != nil {
		return fmt.Errorf("the peer %s was forgotten %s by %s; if it runs again, give it the keys: keytool export --peer %s --ttl D --out FILE", name, formatTime(e.At), e.Actor, name)
	}
	if len(names) == 0 {
		return usagef("the keyset %s has no peer, and its history knows of none that is called %s; keytool export --peer NAME --ttl D --out FILE makes one", d.Name, shown(name))
	}
	slices.Sort(names)
	return usagef("the keyset %s has no peer %s%s, and its history knows of none; it has %s", d.Name, shown(name), meant(name, names...), list(few(names)))
}

// naming begins the reason of a change with the name of what it is about: the history has
// no other place for one that is no key.
func naming(n keyset.Note, name string) keyset.Note {
	n.Reason = strings.TrimSuffix(name+aboutSep+n.Reason, aboutSep)
	return n
}

// aboutSep stands between that name and what the operator has to say.
const aboutSep = ": "

// roomFor sees that the history has room for the name and for --reason, see [naming].
func (a *app) roomFor(name string) error {
	room := max(0, maxText-len(name+aboutSep))
	if len(a.flags.reason) > room {
		return usagef("--reason is at most %d bytes here, not %d: in the history the name stands in front of it", room, len(a.flags.reason))
	}
	return nil
}

// lastOf returns the last change of a kind that is about what has a name, nil if the history
// has none, see [naming].
func lastOf(d *keyset.Document, action, name string) *keyset.Event {
	for i, e := range slices.Backward(d.History) {
		if about, _, _ := strings.Cut(e.Reason, aboutSep); e.Action == action && about == name {
			return &d.History[i]
		}
	}
	return nil
}
