package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/keyset"
)

func (a *app) exportCommand() *cobra.Command {
	var peer, out string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "export --peer NAME --ttl D --out FILE",
		Short: "Writes the keys as secrets for a Python service",
		Long: `export writes the data keys to a new file, mode 0600: a JSON list of base64, the
primary first, never a revoked one. The Python SDK takes the decoded list as its ring:

  import base64, json
  keys = [base64.b64decode(k) for k in json.load(open("FILE"))]
  RequestStateSecurity(keys=keys, ttl=600)

It records in the keyset what was handed over. Until keytool confirm says that the peer
runs with it, a promotion waits; --ttl is how long the peer's tokens live, and counts
in every wait.

Whoever has the file has the keys: hand it over on a safe way, and delete it.`,
		Example: "  keytool export --peer python-a --ttl 10m --out python-a.json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if peer == "" || out == "" || ttl == 0 {
				return usagef("export needs --peer, --ttl and --out")
			}
			path, err := absolute(out)
			if err != nil {
				return err
			}
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				return usagef("%s is there already, and is not replaced: choose a new file", path)
			}
			ctx, cancel := a.context(cmd)
			defer cancel()
			c := &change{Action: "export"}
			var text []byte
			defer func() { clear(text) }()
			written := false
			err = a.apply(ctx, c, func(o *opened, next *keyset.Document) error {
				if err := next.Export(o.stamp(), peer, ttl); err != nil {
					return err
				}
				c.Did = fmt.Sprintf("hand %d keys to the peer %s in %s", len(exported(next)), peer, path)
				c.Then = fmt.Sprintf("start the peer with it, delete the file, and: keytool confirm --peer %s", peer)
				if a.flags.dryRun {
					return nil
				}
				var secrets [][]byte
				defer func() {
					for _, s := range secrets {
						clear(s)
					}
				}()
				keys := exported(next)
				for _, k := range keys {
					secret, err := o.services.OpenSecret(ctx, next.Name, k)
					if err != nil {
						return err
					}
					secrets = append(secrets, secret)
				}
				var err error
				if text, err = json.Marshal(secrets); err != nil {
					return fmt.Errorf("writing the secrets: %w", err)
				}
				// Written first: a record of what was never handed over would only make the
				// next promotion wait, but a file of keys that no record tells of must not be.
				if err := writeSecret(path, text); err != nil {
					return err
				}
				written = true
				return nil
			})
			if err != nil && written {
				if removeErr := os.Remove(path); removeErr != nil {
					return fmt.Errorf("%w; and %s with the keys could not be deleted: delete it", err, path)
				}
			}
			return err
		},
	}
	a.writeFlags(cmd)
	cmd.Flags().StringVar(&peer, "peer", "", "the name of the peer")
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "how long the peer's tokens live")
	cmd.Flags().StringVar(&out, "out", "", "the file to write; it must not be there")
	return cmd
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

// writeSecret makes a new file that nobody else can read.
func writeSecret(path string, text []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(path)
		}
	}()
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return nil
}

func (a *app) confirmCommand() *cobra.Command {
	var peer string
	cmd := &cobra.Command{
		Use:   "confirm --peer NAME",
		Short: "Notes that a peer runs with what was exported to it last",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if peer == "" {
				return usagef("confirm needs --peer")
			}
			ctx, cancel := a.context(cmd)
			defer cancel()
			c := &change{Action: "confirm", Did: "note that the peer " + peer + " runs with its last export", Then: "keytool rotate goes on"}
			return a.apply(ctx, c, func(o *opened, next *keyset.Document) error { return next.Confirm(o.stamp(), peer) })
		},
	}
	a.writeFlags(cmd)
	cmd.Flags().StringVar(&peer, "peer", "", "the name of the peer")
	return cmd
}

func (a *app) peerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "peer",
		Short: "Ends what was handed to a peer",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(*cobra.Command, []string) error { return usagef("say: keytool peer forget NAME --reason TEXT") },
	}
	forget := &cobra.Command{
		Use:   "forget NAME --reason TEXT",
		Short: "Notes that a peer is no more, so that nothing waits for it",
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.flags.reason == "" {
				return usagef("peer forget needs --reason")
			}
			ctx, cancel := a.context(cmd)
			defer cancel()
			c := &change{Action: "forget", Did: "note that the peer " + args[0] + " is no more"}
			return a.apply(ctx, c, func(o *opened, next *keyset.Document) error { return next.ForgetPeer(o.stamp(), args[0]) })
		},
	}
	a.writeFlags(forget)
	cmd.AddCommand(forget)
	return cmd
}
