package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

func (a *app) fleetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Shows every instance and what it reports",
		Long: `fleet asks every source for the reports of the instances, and shows what each of them
holds and whether it can be relied on. -o json shows which wrappings each has opened.

If the keyset cannot be read, because it is lost or damaged or the store does not answer,
fleet exits 1, and shows all the same what the instances say, which nothing can check
then. Half of --timeout is kept for that.`,
		Example: "  keytool fleet\n  keytool fleet -o json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := a.context(cmd)
			defer cancel()
			return a.showFleet(ctx)
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
the next promotion. One whose last report is fresh is alive, and is not forgotten without
--force: stop it, or wait for three times the interval at which it reports. An instance
that is listed by its address cannot be forgotten: take the address off the list. keytool
fleet -o json shows the ids, and so does keytool status of one that is in the way.`,
		Example: "  keytool fleet forget 5b1d7c0e9f2a4d36a1c48e07d2b95f13 --reason \"host is gone\"",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.forget(cmd, args[0]) },
	}
	a.writeFlags(cmd)
	a.yesFlag(cmd)
	cmd.Flags().BoolVar(&a.flags.force, "force", false, "forget it though its last report is fresh; needs --reason")
	return cmd
}

// forget records that an instance is forgotten, and then forgets it: whoever is
// interrupted in between runs it again.
func (a *app) forget(cmd *cobra.Command, id string) error {
	ctx, cancel := a.context(cmd)
	defer cancel()
	o, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	if len(o.sources) == 0 {
		return usagef("set --fleet or ECHOSEAL_FLEET: the registry that the instance is in")
	}
	obs := o.observe(ctx)
	instance, err := o.registered(&obs, id)
	if err != nil {
		return err
	}
	if a.flags.reason == "" {
		return usagef("fleet forget needs --reason")
	}
	if err := a.roomFor(id); err != nil {
		return err
	}
	c := &change{Action: "forget-instance"}
	if err := o.dead(c, instance, &obs); err != nil {
		return err
	}
	others := slices.DeleteFunc(judge{o.doc, &obs, a.Now()}.overtaken(obs.Began), func(r reason) bool { return r.spot() == spotOf(instance) })
	a.expect(expected(o.behindHistory(), others))
	ctx, cancel, err = a.confirm(ctx, cmd, "Forgetting the instance "+id)
	if err != nil {
		return err
	}
	defer cancel()
	if a.asks() { // it may have come back by the answer, or be gone
		obs = o.observe(ctx)
		if instance, err = o.registered(&obs, id); err != nil {
			return err
		}
		if err := o.dead(c, instance, &obs); err != nil {
			return err
		}
	}
	c.Summary = fmt.Sprintf("%s the instance %s (%s)", a.did("forget", "forgot"), id, instance.Name())
	c.Then = "nothing waits for it any more"
	if err := o.apply(ctx, c, func(_ *opened, next *keyset.Document, stamp func() keyset.Note) error {
		return next.Record(naming(stamp(), id), "forget-instance")
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

// dead sees that an instance which is to be forgotten is not alive, without --force.
func (o *opened) dead(c *change, i *fleet.Instance, obs *fleet.Observation) error {
	if o.app.flags.force || !alive(i, obs.Ended) {
		return nil
	}
	c.outlook = judge{o.doc, obs, o.app.Now()}.alive(i)
	o.unchanged(c)
	return exit(blocked)
}

// alive reports whether what an instance has last reported is fresh, and not its end.
func alive(i *fleet.Instance, now time.Time) bool {
	return i.Err == nil && !i.Report.Stopped && i.Report.Fresh(now)
}

// alive says why an instance is not forgotten: until it reports again a promotion would go
// on without it.
func (j judge) alive(i *fleet.Instance) outlook {
	said := rotation.About(codeAlive, i)
	said.Detail = "it is alive, and a promotion would go on without it"
	fix := "stop it first; if it is dead already, its report is not fresh any more " + shortDuration(3*i.Report.Every) + " after it was made"
	if slices.ContainsFunc(rotation.Faults(j.doc, *j.obs, j.obs.Began), func(r rotation.Reason) bool {
		return r.Code == rotation.ClockOff && r.Source == i.Source && r.Address == i.Address
	}) { // its report is fresh until that time has come
		said.Detail = "it may be alive, for its report is dated " + formatTime(i.Report.Now) + "; a promotion would go on without it"
		fix = "stop it first; if it is dead already, the same command with --force"
	}
	r := j.reason(said, rotation.Blocked)
	r.Fix = fix
	return outlook{Verdict: verdictBlocked, Summary: r.head, Reasons: []reason{r}, Then: "the same command again"}
}

// registered returns the instance that a registry has under an id. Of one that it has not,
// the error says what became of it; an id that nobody ever forgot is a mistake.
func (o *opened) registered(obs *fleet.Observation, id string) (*fleet.Instance, error) {
	var ids, called, all []string // the ids, those of what is called so, and each with its name
	for n := range obs.Instances {
		switch i := &obs.Instances[n]; {
		case !i.Registered:
		case i.Address == id, i.Err == nil && i.Report.ID == id:
			return i, nil
		default:
			if i.Err == nil && (i.Name() == id || displayName(obs, i) == id) {
				called = append(called, i.Address)
			}
			what := fmt.Sprintf("%.64s", i.Address)
			if name := i.Name(); name != i.Address {
				what += " (" + name + ")"
			}
			ids, all = append(ids, i.Address), append(all, what)
		}
	}
	for n := range obs.Instances {
		if i := &obs.Instances[n]; !i.Registered && (i.Address == id || i.Err == nil && (i.Report.ID == id || i.Name() == id)) {
			return nil, usagef("the instance %s is listed by its address: take the address off the list", id)
		}
	}
	if e := lastOf(o.doc, "forget-instance", id); e != nil {
		return nil, fmt.Errorf("the instance %s was forgotten %s by %s, and no registry has it any more", id, formatTime(e.At), e.Actor)
	}
	name := shown(id)
	if instanceID.MatchString(id) {
		name = id
	}
	switch {
	case len(obs.Failures) > 0:
		return nil, fmt.Errorf("no registry that answers has an instance %s; and %w", name, obs.Failures[0])
	case !slices.ContainsFunc(o.sources, func(s fleet.Source) bool { _, ok := s.(fleet.Registry); return ok }):
		return nil, usagef("nothing that --fleet names is a registry: what is listed by its address is forgotten by taking the address off the list")
	case len(ids) == 0:
		return nil, usagef("no registry has an instance %s, or any other, and the history knows of none that was forgotten", name)
	case len(called) > 0:
		return nil, usagef("an instance is forgotten by its id, and %s is a name: that of %s", name, list(few(called)))
	default:
		return nil, usagef("no registry has an instance %s%s, and the history knows of none that was forgotten; there are %s", name, meant(id, ids...), list(few(all)))
	}
}

// instanceID is what an id looks like, or its begin: no secret of this program is like it.
var instanceID = regexp.MustCompile(`^[0-9a-f]{4,32}$`)

func (a *app) showFleet(ctx context.Context) error {
	if a.settings(); len(a.flags.fleet) == 0 {
		return usagef("set --fleet or ECHOSEAL_FLEET: where the servers report")
	}
	o, err := a.openOrHear(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	at, obs, err := o.look(ctx)
	if err != nil {
		return err
	}
	j := judge{o.doc, &obs, a.Now()}
	r := &fleetReport{fleetJSON: newFleet(o.doc, &obs)}
	r.Verdict, r.Summary = verdictOK, "every instance can be relied on: "+count(j.live(), "instance")
	if r.Reasons = j.troubles(at); len(r.Reasons) > 0 {
		r.Verdict, r.Summary = alarm(r.Reasons)
	}
	a.report = r
	return nil
}

type fleetReport struct {
	Verdict string   `json:"verdict"`
	Summary string   `json:"summary"`
	Reasons []reason `json:"reasons,omitempty"`
	With    string   `json:"with,omitempty"` // as in an outlook
	*fleetJSON
}

func (r *fleetReport) needs(flags string) {
	o := outlook{Reasons: r.Reasons}
	o.needs(flags)
	r.With = o.With
}

func (r *fleetReport) text(p *printer) {
	o := outlook{Verdict: r.Verdict, Summary: r.Summary, Reasons: r.Reasons, With: r.With}
	o.text(p, false)
	if len(r.Instances) > 0 {
		p.linef("")
		r.fleetJSON.text(p, "")
	}
}

// fleetJSON is a fleet in every JSON document that has one.
type fleetJSON struct {
	Instances []instanceJSON `json:"instances"`
	Failures  []string       `json:"failures,omitempty"`
}

type instanceJSON struct {
	Name      string       `json:"name"`
	ID        string       `json:"id,omitempty"`
	Address   string       `json:"address"`
	Also      []string     `json:"also,omitempty"`
	Source    string       `json:"source"`
	Revision  int64        `json:"revision,omitempty"`
	SealsWith string       `json:"seals_with,omitempty"`
	Verifies  []string     `json:"verifies"`
	Loaded    string       `json:"loaded,omitempty"`
	Seen      string       `json:"seen,omitempty"`
	Every     string       `json:"every,omitempty"`
	Ready     bool         `json:"ready"`
	Stopped   bool         `json:"stopped,omitempty"`
	Health    string       `json:"health"`
	Software  string       `json:"software,omitempty"`
	Opened    []openedJSON `json:"opened,omitempty"`
	Failed    []failedJSON `json:"failed,omitempty"`

	label  string // its name for people
	loaded time.Time
	ago    time.Duration
}

type openedJSON struct {
	KID     string `json:"kid"`
	Service string `json:"service"`
	Version string `json:"version,omitempty"`
}

type failedJSON struct {
	KID       string `json:"kid"`
	Service   string `json:"service,omitempty"`
	Kind      string `json:"kind"`
	Operation string `json:"operation,omitempty"`
}

func newFleet(d *keyset.Document, obs *fleet.Observation) *fleetJSON {
	f := &fleetJSON{Instances: []instanceJSON{}}
	clashes := obs.Clashes() // which goes over all of them
	for n := range obs.Instances {
		f.Instances = append(f.Instances, newInstance(d, obs, &obs.Instances[n], clashes))
	}
	slices.SortStableFunc(f.Instances, func(a, b instanceJSON) int { return strings.Compare(a.label, b.label) })
	for _, failure := range obs.Failures {
		f.Failures = append(f.Failures, failure.Error())
	}
	return f
}

func newInstance(d *keyset.Document, obs *fleet.Observation, i *fleet.Instance, clashes []string) instanceJSON {
	r := &i.Report
	j := instanceJSON{label: displayName(obs, i), Name: i.Name(), ID: r.ID, Address: i.Address, Also: i.Also, Source: i.Source, Verifies: []string{}, Health: health(d, obs, i, clashes)}
	if i.Err != nil {
		return j
	}
	j.Revision, j.SealsWith, j.Verifies, j.Software = r.Revision, r.Primary, append(j.Verifies, r.Verifies...), r.Software
	j.Loaded, j.Seen, j.Every, j.Ready, j.Stopped = formatTime(r.Loaded), formatTime(r.Now), r.Every.String(), r.Ready, r.Stopped
	j.loaded, j.ago = r.Loaded, max(0, obs.Ended.Sub(r.Now)).Truncate(time.Second)
	for _, w := range r.Opened {
		j.Opened = append(j.Opened, openedJSON(w))
	}
	for _, f := range r.Failed {
		j.Failed = append(j.Failed, failedJSON(f))
	}
	return j
}

// displayName names an instance for people, as no other of its observation is named: where
// a name repeats, as of two on one host, with the address beside it, or with the begin of
// the id that a registry has.
func displayName(obs *fleet.Observation, i *fleet.Instance) string {
	name := cmp.Or(i.Name(), "an instance")
	repeats := func(o fleet.Instance) bool {
		return spotOf(&o) != spotOf(i) && cmp.Or(o.Name(), "an instance") == name
	}
	switch {
	case !slices.ContainsFunc(obs.Instances, repeats):
		return name
	case name == i.Address:
		return name + " (" + i.Source + ")"
	case i.Registered && len(i.Address) > shortID:
		return name + " (" + i.Address[:shortID] + ")"
	default:
		return name + " (" + i.Address + ")"
	}
}

// shortID is how much of an id is enough to tell instances apart.
const shortID = 8

// health says in a few words how an instance is; d is nil if the keyset cannot be read, and
// clashes are the ids of more than one.
func health(d *keyset.Document, obs *fleet.Observation, i *fleet.Instance, clashes []string) string {
	r := &i.Report
	switch {
	case errors.Is(i.Err, fleet.ErrMAC):
		return "NOT SIGNED"
	case errors.Is(i.Err, fleet.ErrUnreachable):
		return "UNREACHABLE"
	case i.Err != nil:
		return "NO REPORT"
	case r.Stopped:
		return "stopped"
	case !r.Fresh(obs.Ended):
		return "SILENT"
	case d != nil && r.Lineage != d.Lineage:
		return "OTHER KEYSET"
	case slices.Contains(clashes, r.ID):
		return "DUPLICATE ID"
	case r.Reason != "" && r.Reason != r.Health():
		return r.Health() + ": " + r.Reason
	default:
		return r.Health()
	}
}

// text prints the table of the instances; staged is the key that a column is about, or "".
func (f *fleetJSON) text(p *printer, staged string) {
	header := []string{"INSTANCE", ">REV", "SEALS WITH"}
	if staged != "" {
		header = append(header, "VERIFIES "+staged)
	}
	header = append(header, "LOADED", "SEEN", "HEALTH")
	var rows [][]string
	for _, i := range f.Instances {
		row := []string{i.label, "–", orDash(i.SealsWith)}
		seen, loaded := "–", "–"
		if i.Seen != "" {
			row[1], seen = strconv.FormatInt(i.Revision, 10), shortDuration(i.ago)
		}
		if i.Loaded != "" {
			loaded = clock(i.loaded, i.loaded.Add(i.ago))
		}
		if staged != "" {
			row = append(row, map[bool]string{true: "yes", false: "NO"}[slices.Contains(i.Verifies, staged)])
		}
		rows = append(rows, append(row, loaded, seen, i.Health))
	}
	if len(rows) > 0 {
		p.table(header, rows...)
	}
	for _, failure := range f.Failures {
		p.linef("source  %s", failure)
	}
}
