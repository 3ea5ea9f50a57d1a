package cli

import (
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/codec/localkek"
)

type kekReport struct {
	Path    string `json:"path"`
	Service string `json:"service"`

	uri    string
	second bool // another key service is configured
}

func (r *kekReport) text(p *printer) {
	p.linef("%s  a new key file, readable by you alone: %s", p.paint(green, "DONE"), r.Path)
	p.linef("  it is   %s", r.Service)
	if r.second {
		p.linef("  then    keytool rewrap --add %s   to move a keyset to it, or have it wrapped by both", quoted(r.uri))
	} else {
		p.linef("  then    export ECHOSEAL_KEY_SERVICES=%s   and keytool init", quoted(r.uri))
	}
	p.linef("  keep    a copy in a safe place: without it nobody can open what it wraps")
}

func (a *app) kekCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kek",
		Short: "Makes a local key-encryption key",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(*cobra.Command, []string) error { return usagef("say: keytool kek new FILE") },

		Annotations: map[string]string{groupMark: "it needs a command"},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "new FILE",
		Short: "Makes a key file of 32 random bytes, mode 0600; refuses if the file is there",
		Long: `kek new makes a key file of 32 random bytes, which nobody but its owner may read (mode
0600), and refuses if the file is there. Keep a copy in a safe place: without the key
nobody can open what it wraps.`,
		Example: `  keytool kek new /etc/echoseal/kek.key`,
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := absolute(args[0])
			if err != nil {
				return err
			}
			service, err := localkek.NewKeyFile(path)
			if err != nil {
				return err
			}
			a.settings()
			a.made = "the key file is there: " + path
			a.report = &kekReport{
				Path: path, Service: service, uri: (&url.URL{Scheme: "localkek", Path: path}).String(),
				second: len(a.flags.keyServices) > 0 && !slices.ContainsFunc(a.flags.keyServices, func(uri string) bool { return isKeyFile(uri, path) }),
			}
			return nil
		},
	})
	return cmd
}

// isKeyFile reports whether a URI names the key file at a path, however it is escaped.
func isKeyFile(uri, path string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.Scheme == "localkek" && u.Path == path
}
