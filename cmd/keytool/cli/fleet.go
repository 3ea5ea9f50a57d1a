package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

func (a *app) fleetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Shows every instance and what it reports",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := a.context(cmd)
			defer cancel()
			o, err := a.open(ctx)
			if err != nil {
				return err
			}
			defer o.close()
			if len(o.sources) == 0 {
				return usagef("set --fleet or ECHOSEAL_FLEET: where the servers report")
			}
			obs := o.observe(ctx)
			a.report = &fleetReport{newFleet(o.doc, &obs)}
			return nil
		},
	}
	a.keysetFlags(cmd)
	forget := &cobra.Command{
		Use:   "forget ID --reason TEXT",
		Short: "Takes an instance that died out of the registry, so that nothing waits for it",
		Long: `forget takes the report of an instance out of the registry, before it lapses by itself.
Make sure that the process is gone: if it still runs, tokens of it may be refused after
the next promotion. An instance that is listed by its address is not forgotten: take
the address off the list.`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.flags.reason == "" {
				return usagef("fleet forget needs --reason")
			}
			ctx, cancel := a.context(cmd)
			defer cancel()
			return a.forget(ctx, args[0])
		},
	}
	a.writeFlags(forget)
	cmd.AddCommand(forget)
	return cmd
}

func (a *app) forget(ctx context.Context, id string) error {
	if err := a.confirm("forgetting the instance " + id); err != nil {
		return err
	}
	c := &change{Action: "forget"}
	return a.apply(ctx, c, func(o *opened, next *keyset.Document) error {
		obs := o.observe(ctx)
		i := slices.IndexFunc(obs.Instances, func(i fleet.Instance) bool {
			return i.Registered && (i.Report.ID == id || i.Address == id)
		})
		if i < 0 {
			if slices.ContainsFunc(obs.Instances, func(i fleet.Instance) bool { return i.Report.ID == id }) {
				return fmt.Errorf("the instance %s is listed by its address: take the address off the list", id)
			}
			return fmt.Errorf("no registry has an instance %.64q; keytool fleet shows them", id)
		}
		c.Did = fmt.Sprintf("forget the instance %s (%s)", id, obs.Instances[i].Name())
		c.Then = "keytool rotate no longer waits for it"
		n := o.stamp()
		n.Reason = strings.ToValidUTF8(id+": "+a.flags.reason, "")
		if len(n.Reason) > 200 {
			n.Reason = n.Reason[:200]
		}
		if err := next.Record(n, "forget-instance"); err != nil || a.flags.dryRun {
			return err
		}
		var all []error
		for _, s := range o.sources {
			if r, ok := s.(fleet.Registry); ok {
				all = append(all, r.Forget(ctx, obs.Instances[i].Address))
			}
		}
		return errors.Join(all...)
	})
}

// fleetJSON is a fleet in every JSON document that has one.
type fleetJSON struct {
	Instances []instanceJSON `json:"instances"`
	Failures  []string       `json:"failures,omitempty"`
}

type instanceJSON struct {
	Name      string   `json:"name"`
	ID        string   `json:"id,omitempty"`
	Address   string   `json:"address"`
	Source    string   `json:"source"`
	Revision  int64    `json:"revision,omitempty"`
	SealsWith string   `json:"seals_with,omitempty"`
	Verifies  []string `json:"verifies"`
	Loaded    string   `json:"loaded,omitempty"`
	Seen      string   `json:"seen,omitempty"`
	Ready     bool     `json:"ready"`
	Stopped   bool     `json:"stopped,omitempty"`
	Health    string   `json:"health"`
	Software  string   `json:"software,omitempty"`
	Unopened  []string `json:"unopened,omitempty"`

	ago time.Duration
}

func newFleet(d *keyset.Document, obs *fleet.Observation) *fleetJSON {
	f := &fleetJSON{Instances: []instanceJSON{}}
	for n := range obs.Instances {
		f.Instances = append(f.Instances, newInstance(d, obs, &obs.Instances[n]))
	}
	for _, failure := range obs.Failures {
		f.Failures = append(f.Failures, failure.Error())
	}
	return f
}

func newInstance(d *keyset.Document, obs *fleet.Observation, i *fleet.Instance) instanceJSON {
	r := i.Report
	j := instanceJSON{Name: i.Name(), ID: r.ID, Address: i.Address, Source: i.Source, Verifies: []string{}}
	if i.Err != nil {
		j.Health = i.Err.Error()
		return j
	}
	j.Revision, j.SealsWith, j.Verifies, j.Software = r.Revision, r.Primary, append(j.Verifies, r.Verifies...), r.Software
	j.Loaded, j.Seen, j.Ready, j.Stopped = formatTime(r.Loaded), formatTime(r.Now), r.Ready, r.Stopped
	j.ago = max(0, obs.Ended.Sub(r.Now))
	for _, f := range r.Failed {
		j.Unopened = append(j.Unopened, f.KID+": "+failedText(f))
	}
	switch {
	case r.Stopped:
		j.Health = "stopped"
	case obs.Ended.After(r.FreshUntil()):
		j.Health = "silent"
	case !r.Ready && r.Reason != "":
		j.Health = r.Reason
	case !r.Ready:
		j.Health = "not ready"
	case len(r.Failed) > 0:
		j.Health = "degraded"
	case r.Lineage != d.Lineage:
		j.Health = "another lineage"
	default:
		j.Health = "ok"
	}
	return j
}

func failedText(f fleet.Failure) string {
	text := strings.ReplaceAll(f.Kind, "_", " ")
	if f.Operation != "" {
		text += ", " + f.Operation
	}
	if f.Service != "" {
		text += " on " + shortService(f.Service)
	}
	return text
}

// text prints the table of the instances; staged is the key that a column is about, or "".
func (f *fleetJSON) text(p *printer, staged string) {
	for _, failure := range f.Failures {
		p.linef("%s", p.paint(red, failure))
	}
	header := []string{"INSTANCE", "REV", "SEALS WITH"}
	if staged != "" {
		header = append(header, "VERIFIES "+staged)
	}
	rows := [][]string{append(header, "LOADED", "SEEN", "HEALTH")}
	for _, i := range f.Instances {
		row := []string{i.Name, "–", orDash(i.SealsWith)}
		seen := "never"
		if i.Revision > 0 {
			row[1], seen = strconv.FormatInt(i.Revision, 10), shortDuration(i.ago)
		}
		if staged != "" {
			row = append(row, map[bool]string{true: "yes", false: "NO"}[slices.Contains(i.Verifies, staged)])
		}
		loaded := "–"
		if _, clock, ok := strings.Cut(i.Loaded, "T"); ok {
			loaded = clock
		}
		rows = append(rows, append(row, loaded, seen, i.Health))
	}
	if len(f.Instances) > 0 {
		p.table(rows...)
	}
}

type fleetReport struct{ *fleetJSON }

func (r *fleetReport) text(p *printer) {
	if len(r.Instances) == 0 && len(r.Failures) == 0 {
		p.linef("no instance reports")
		return
	}
	r.fleetJSON.text(p, "")
}

// closeSource closes a source that holds connections.
func closeSource(s keyset.Source) {
	if c, ok := s.(io.Closer); ok {
		_ = c.Close()
	}
}
