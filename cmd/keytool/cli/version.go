package cli

import (
	"crypto/fips140"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

type versionReport struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	FIPS    bool   `json:"fips,omitempty"` // FIPS 140-3 mode is on
}

func (r *versionReport) text(p *printer) { p.linef("keytool %s (%s)", r.Version, r.Go) }

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Prints the version",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			r := &versionReport{Version: "(devel)", Go: runtime.Version(), FIPS: fips140.Enabled()}
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
				r.Version = info.Main.Version
			}
			a.report = r
			return nil
		},
	}
}
