package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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
	cmd.AddCommand(a.forgetCommand())
	return cmd
}

func (a *app) forgetCommand() *cobra.Command {
	cmd := &cobra.Command{
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
			if err := a.confirm("Forgetting the instance " + args[0]); err != nil {
				return err
			}
			ctx, cancel := a.context(cmd)
			defer cancel()
			return a.forget(ctx, args[0])
		},
	}
	a.writeFlags(cmd)
	a.yesFlag(cmd)
	return cmd
}

// forget records that an instance is forgotten, and then forgets it: whoever is
// interrupted in between runs it again.
func (a *app) forget(ctx context.Context, id string) error {
	o, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	if len(o.sources) == 0 {
		return usagef("set --fleet or ECHOSEAL_FLEET: the registry that the instance is in")
	}
	obs := o.observe(ctx)
	found := slices.IndexFunc(obs.Instances, func(i fleet.Instance) bool {
		return i.Registered && (i.Err == nil && i.Report.ID == id || i.Address == id)
	})
	if found < 0 {
		for _, i := range obs.Instances {
			if i.Err == nil && i.Report.ID == id || i.Address == id {
				return usagef("the instance %s is listed by its address: take the address off the list", id)
			}
		}
		return fmt.Errorf("no registry has an instance %.64q; keytool fleet -o json shows the ids", id)
	}
	instance := obs.Instances[found]
	c := &change{Action: "forget-instance"}
	c.Summary = fmt.Sprintf("%s the instance %s (%s)", a.did("forget", "forgot"), id, instance.Name())
	c.Then = "nothing waits for it any more"
	if err := o.apply(ctx, c, func(_ *opened, next *keyset.Document, stamp func() keyset.Note) error {
		n := stamp()
		n.Reason = cut(id + ": " + n.Reason)
		return next.Record(n, "forget-instance")
	}); err != nil || a.flags.dryRun {
		return err
	}
	for _, s := range o.sources {
		if r, ok := s.(fleet.Registry); ok && s.String() == instance.Source {
			if err := r.Forget(ctx, instance.Address); err != nil {
				a.report = nil
				return fmt.Errorf("the history has it, but the registry still has the instance: %w; run the command again", err)
			}
		}
	}
	return nil
}

// cut shortens a text to what the history takes, between two characters.
func cut(text string) string {
	for len(text) > maxText {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
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
	header := []string{"INSTANCE", ">REV", "SEALS WITH"}
	if staged != "" {
		header = append(header, "VERIFIES "+staged)
	}
	header = append(header, "LOADED", "SEEN", "HEALTH")
	var rows [][]string
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
		p.table(header, rows...)
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
