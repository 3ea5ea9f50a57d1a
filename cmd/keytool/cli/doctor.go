package cli

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Tries everything that a rotation needs, and says what to fix",
		Long: `doctor reads the store, wraps and unwraps a test key with every key service, opens every
key of the keyset, asks every instance, compares clocks, ages and budgets. It changes
nothing. It exits 4 if something has to be fixed now, and 0 if there are only warnings. If
the keyset cannot be read, it tells what the instances say, which nothing can check then.`,
		Example: "  keytool doctor\n  keytool doctor -o json --timeout 2m",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := a.context(cmd)
			defer cancel()
			return a.doctor(ctx)
		},
	}
	a.keysetFlags(cmd)
	return cmd
}

// A finding is one thing that doctor has looked at.
type finding struct {
	What   string `json:"what"`
	Result string `json:"result"` // ok, warning or failed
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

const (
	isOK      = "ok"
	isWarning = "warning"
	isFailed  = "failed"
)

type doctorReport struct {
	Verdict  string    `json:"verdict"` // healthy, warnings or unhealthy
	Findings []finding `json:"findings"`
	With     string    `json:"with,omitempty"` // the flags that every command above needs
}

func (r *doctorReport) needs(flags string) {
	for _, f := range r.Findings {
		if namesCommand(f.Detail, f.Fix) {
			r.With = flags
		}
	}
}

func (r *doctorReport) add(what, result, detail, fix string) {
	r.Findings = append(r.Findings, finding{what, result, detail, fix})
}

// try adds what came of a test.
func (r *doctorReport) try(what string, err error, good, fix string) bool {
	if err != nil {
		r.add(what, isFailed, err.Error(), fix)
		return false
	}
	r.add(what, isOK, good, "")
	return true
}

func (r *doctorReport) worst() string {
	worst := isOK
	for _, f := range r.Findings {
		if f.Result == isFailed || f.Result == isWarning && worst == isOK {
			worst = f.Result
		}
	}
	return worst
}

func (r *doctorReport) text(p *printer) {
	switch r.Verdict {
	case "healthy":
		p.linef("%s  nothing to fix", p.paint(green, "HEALTHY"))
	case "warnings":
		p.linef("%s  it works, and something will not for ever", p.paint(yellow, "WARNINGS"))
	default:
		p.linef("%s  something has to be fixed", p.paint(red, "UNHEALTHY"))
	}
	for _, f := range r.Findings {
		mark := map[string]painted{isOK: "ok     ", isWarning: p.paint(yellow, "warning"), isFailed: p.paint(red, "FAILED ")}[f.Result]
		p.linef("  %s  %s: %s", mark, f.What, f.Detail)
		if f.Fix != "" {
			p.linef("           fix  %s", f.Fix)
		}
	}
	if r.With != "" {
		p.linef("  with     %s", r.With)
	}
}

func (a *app) doctor(ctx context.Context) error {
	if err := a.required(); err != nil {
		return err
	}
	r, o := &doctorReport{}, &opened{app: a}
	defer o.close()
	reading, cancel := a.sparing(ctx)
	defer cancel()
	if err := a.doctorServices(reading, r, o); err != nil {
		return err
	}
	there, err := a.doctorStore(reading, r, o)
	if err != nil {
		return err
	}
	if there {
		a.doctorKeys(ctx, r, o)
		err = a.doctorFleet(ctx, r, o)
	} else {
		err = a.doctorHearsay(ctx, r, o)
	}
	if err != nil {
		return err
	}
	a.report = r
	r.Verdict = map[string]string{isOK: "healthy", isWarning: "warnings", isFailed: "unhealthy"}[r.worst()]
	if r.Verdict == "unhealthy" {
		return exit(refused)
	}
	return nil
}

// opens adds that something cannot be opened. A setting that is wrong in itself is an
// error of whoever typed it.
func (r *doctorReport) opens(what string, err error) error {
	if err = misconfigured(err); exitOf(err) != usage {
		r.add(what, isFailed, err.Error(), "")
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// doctorServices opens each service by itself, and wraps and unwraps a test key with it.
func (a *app) doctorServices(ctx context.Context, r *doctorReport, o *opened) error {
	for _, uri := range a.flags.keyServices {
		what := "key service " + uri
		services, err := a.KeyServices.Open(ctx, uri)
		if err != nil {
			if err := r.opens("key service", err); err != nil {
				return err
			}
			continue
		}
		o.services = append(o.services, services...)
		for _, s := range services {
			a.doctorService(ctx, r, what, s)
		}
	}
	return nil
}

func (a *app) doctorService(ctx context.Context, r *doctorReport, what string, s keyset.KeyService) {
	r.try(what, tryService(ctx, s, a.flags.name), "a test key was wrapped and unwrapped", "")
	d, ok := s.(keyset.Describer)
	if !ok {
		return
	}
	keys, err := d.Describe(ctx)
	if err != nil {
		r.add(what, isWarning, "it does not tell of its keys: "+err.Error(), "allow it, to be warned before a key or a credential ends")
		return
	}
	for _, k := range keys {
		a.doctorDescription(r, k)
	}
}

func (a *app) doctorDescription(r *doctorReport, k keyset.KeyDescription) {
	what := "key " + k.Service
	for _, s := range k.Settings {
		a.detail("%s: %s", what, s)
	}
	if k.Err != nil {
		r.add(what, isFailed, k.Err.Error(), "")
	}
	for _, w := range k.Warnings {
		r.add(what, isWarning, w, "")
	}
	if t := k.CredentialExpires; !t.IsZero() {
		left := t.Sub(a.Now())
		switch {
		case left <= 0:
			r.add(what, isFailed, "the credential ended "+formatTime(t), "renew it")
		case left < 24*time.Hour:
			r.add(what, isWarning, "the credential ends in "+shortDuration(left), "see that something renews it")
		}
	}
}

// tryService wraps and unwraps a key of no use, in a context of no keyset's.
func tryService(ctx context.Context, s keyset.KeyService, name string) error {
	key := make([]byte, 32)
	defer clear(key)
	_, _ = rand.Read(key) // never fails: it ends the process instead
	encryptionContext := keyset.EncryptionContext(name, "doctor", keyset.Data)
	w, err := s.Wrap(ctx, key, encryptionContext)
	if err != nil {
		return fmt.Errorf("wrapping: %w", err)
	}
	again, err := s.Unwrap(ctx, w, encryptionContext)
	defer clear(again)
	if err != nil {
		return fmt.Errorf("unwrapping: %w", err)
	}
	if subtle.ConstantTimeCompare(again, key) != 1 {
		return errors.New("what was wrapped unwraps to something else")
	}
	return nil
}

// doctorStore reads and verifies the document.
func (a *app) doctorStore(ctx context.Context, r *doctorReport, o *opened) (there bool, err error) {
	if o.source, err = a.Stores.Open(ctx, a.flags.store); err != nil {
		return false, r.opens("store", err)
	}
	if len(o.services) == 0 {
		r.add("store "+o.place(), isWarning, "not read: there is no key service to open it with", "")
		return false, nil
	}
	what := "store " + o.place()
	began := a.Now()
	err = o.load(ctx)
	took := a.Now().Sub(began)
	if exitOf(err) == usage {
		return false, err
	}
	if err != nil {
		err = inTime(ctx, errors.New(strings.TrimPrefix(err.Error(), o.place()+": "))) // which is said before it
	}
	if !r.try(what, err, fmt.Sprintf("read and verified in %s", shortDuration(took)), "") {
		return false, nil
	}
	if _, err := o.store(); err != nil {
		r.add(what, isWarning, "it can only be read from here", "write the keyset where it comes from")
	}
	d := o.doc
	if size := d.Size(); size > keyset.LargeBytes {
		r.add(what, isWarning, fmt.Sprintf("the keyset is %d bytes large; some places hold no more than %d", size, keyset.LargeBytes), "")
	}
	if d.HasUnknownMembers() {
		r.add("keyset "+d.Name, isWarning, "it has members that this version does not know, so this version cannot change it", "use the newer keytool that wrote it")
	}
	if took > d.Policy.Settle/4 && d.Policy.Settle > 0 {
		r.add(what, isWarning, fmt.Sprintf("a read took %s, and settle is %s", shortDuration(took), shortDuration(d.Policy.Settle)), "a longer one: keytool policy --settle D")
	}
	return true, nil
}

// doctorKeys opens every key, under each of its wrappings.
func (a *app) doctorKeys(ctx context.Context, r *doctorReport, o *opened) {
	for _, e := range wrappedEntries(o.doc) {
		var good []string
		for _, w := range e.wrapped {
			if !o.services.Opens(w.Service) {
				r.add(e.name(), isWarning, "it is also wrapped by "+w.Service+", which is not configured here", "add it with --key-service to have it checked")
				continue
			}
			key, err := o.services.Unwrap(ctx, []keyset.WrappedKey{w}, e.context)
			clear(key)
			if err != nil {
				r.add(e.name(), isFailed, err.Error(), "")
				continue
			}
			good = append(good, shortService(w.Service))
		}
		if len(good) > 0 {
			r.add(e.name(), isOK, "opened with "+strings.Join(good, " and "), "")
		}
	}
	now := a.Now()
	o.doctorClock(r, now)
	if p := o.doc.Primary(); now.Sub(p.Promoted) > o.doc.Policy.MaxAge {
		r.add("key "+p.KID, isWarning, fmt.Sprintf("it is primary for %s, and max-age is %s", shortDuration(now.Sub(p.Promoted)), shortDuration(o.doc.Policy.MaxAge)), "keytool rotate --wait")
	}
	for _, k := range o.doc.Keys {
		if k.State == keyset.Staged && now.Sub(k.Staged) > 24*time.Hour {
			r.add("key "+k.KID, isWarning, "it is staged for "+shortDuration(now.Sub(k.Staged)), "keytool rotate --wait      or give up: keytool abort")
		}
	}
}

// doctorClock compares this clock with what the document is dated.
func (o *opened) doctorClock(r *doctorReport, now time.Time) {
	clocks := o.clocks()
	for _, c := range clocks {
		if c.Code == codeClockBehind {
			r.add("clock of this host", isFailed, "it "+strings.TrimPrefix(c.Text, "the clock of this host "), c.Fix)
			continue
		}
		r.add("key "+c.KID, isFailed, "it"+strings.TrimPrefix(c.Text, c.KID), c.Fix)
	}
	if len(clocks) > 0 && clocks[0].Code == codeClockBehind {
		return // then everything since may be later than it shows
	}
	if stamps := pastAhead(o.doc, now); len(stamps) > 0 {
		r.add("keyset "+o.doc.Name, isWarning, "later than this clock shows, by more than max-skew, and nothing waits for it: "+list(few(stamps)),
			"see whether this clock is right; if it is, nothing: a host was ahead then")
	}
}

// doctorFleet asks every instance, compares clocks, and adds up what was sealed.
func (a *app) doctorFleet(ctx context.Context, r *doctorReport, o *opened) (err error) {
	if len(a.flags.fleet) == 0 {
		if o.doc.Policy.Proof == keyset.ProofReports {
			r.add("fleet", isWarning, "no --fleet is given, and the policy asks for reports: a promotion would be blocked", "set --fleet, or where servers cannot report: keytool policy --proof settle --force --reason TEXT")
		}
		return nil
	}
	if o.sources, err = a.Fleets.Open(ctx, a.flags.fleet...); err != nil {
		return r.opens("fleet", err)
	}
	at, obs, err := o.look(ctx)
	if err != nil {
		r.add("store "+o.place(), isFailed, err.Error(), "")
		return nil
	}
	j := judge{o.doc, &obs, a.Now()}
	ill := make(map[spot]bool)
	for _, f := range j.troubles(at) {
		what, result := "fleet", isFailed
		if f.Instance != "" {
			what = "instance " + f.label
			ill[f.spot()] = true
		}
		if f.said {
			result = isWarning
		}
		r.add(what, result, f.line, f.Fix)
	}
	clashes := obs.Clashes()
	for n := range obs.Instances {
		i := &obs.Instances[n]
		if ill[spotOf(i)] {
			continue
		}
		in := newInstance(o.doc, &obs, i, clashes)
		detail := fmt.Sprintf("revision %d, seals with %s", in.Revision, orDash(in.SealsWith))
		if in.Health != "ok" { // it starts, or has stopped: nobody has to do anything
			detail += "; " + in.Health
		}
		r.add("instance "+in.label, isOK, detail, "")
	}
	j.doctorBudget(r)
	return nil
}

// doctorHearsay asks every instance where there is no keyset to check reports with.
func (a *app) doctorHearsay(ctx context.Context, r *doctorReport, o *opened) (err error) {
	if o.sources, err = a.Fleets.Open(ctx, a.flags.fleet...); err != nil {
		return r.opens("fleet", err)
	}
	obs := o.hear(ctx)
	for n := range obs.Instances {
		in := newInstance(nil, &obs, &obs.Instances[n], nil)
		what := "instance " + in.label
		if in.Seen == "" {
			r.add(what, isWarning, in.Health, "")
			continue
		}
		r.add(what, isWarning, fmt.Sprintf("it says, and nothing can check it: revision %d, seals with %s; %s", in.Revision, orDash(in.SealsWith), in.Health), "")
	}
	for _, f := range obs.Failures {
		r.add("fleet", isFailed, f.Error(), "")
	}
	return nil
}

// doctorBudget warns before a key has sealed all that it may.
func (j judge) doctorBudget(r *doctorReport) {
	for _, k := range j.doc.Keys {
		if k.State != keyset.Primary {
			continue
		}
		seals := rotation.Seals(j.doc, *j.obs, k.KID, j.now)
		detail := fmt.Sprintf("about %s tokens were sealed with it, %s of what a key may seal", shortCount(seals), shareOfBudget(seals))
		switch {
		case seals > rotation.BudgetAlarm:
			r.add("key "+k.KID, isFailed, detail, "now: keytool rotate --wait")
		case seals > rotation.Budget/2:
			r.add("key "+k.KID, isWarning, detail, "keytool rotate --wait")
		}
	}
}
