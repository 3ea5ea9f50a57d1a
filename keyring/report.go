package keyring

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// Report returns the signed report of this instance as it is now, for [fleet.Handler].
// It holds no secret. After [Ring.Close] it is marked stopped. ctx is not used.
func (r *Ring) Report(context.Context) ([]byte, error) {
	if r == nil || r.config.Now == nil {
		return nil, errNotARing
	}
	r.mu.Lock()
	report := r.report(r.closed)
	r.mu.Unlock()
	return r.reports.Sign(report)
}

// report takes the snapshot of which a report is made.
func (r *Ring) report(stopped bool) fleet.Report {
	now := r.config.Now() // before anything that it tells of
	s := r.current.Load()
	d := r.doc
	report := fleet.Report{
		ID: r.id, Host: r.config.Host, Started: r.started, Now: now, Every: r.config.Every, Stopped: stopped,
		Keyset: d.Name, Lineage: d.Lineage, Revision: d.Revision, Tag: base64.StdEncoding.EncodeToString(d.Tag), Loaded: r.loaded,
		TTL: d.TTL, Software: r.version,
	}
	why := s.notReady(now)
	switch {
	case stopped:
		report.Reason = "stopped"
	case why == "":
		report.Ready, report.Reason, r.wasReady = true, r.degraded(), true
	case !r.wasReady:
		report.Reason = fleet.Starting
	default:
		report.Reason = joined(why, r.degraded())
	}
	if s.sealing != nil {
		report.Primary = s.sealing.kid.String()
	}
	for _, id := range slices.Sorted(maps.Keys(s.keys)) {
		report.Verifies = append(report.Verifies, id.String())
	}
	for e := range r.wrapped {
		r.reportEntry(&report, e)
	}
	for _, id := range slices.Sorted(maps.Keys(r.uses)) {
		if u := r.uses[id]; u.sealed() > 0 {
			report.Keys = append(report.Keys, fleet.KeyUse{KID: id.String(), Seals: int64(u.sealed()), Since: u.since, LiveUntil: u.until()})
		}
	}
	return report
}

// joined adds the cause to what has come of it.
func joined(why, cause string) string {
	if strings.Contains(why, cause) { // as when there is none
		return why
	}
	return why + "; " + cause
}

func (r *Ring) reportEntry(report *fleet.Report, e *entry) {
	if e.out.kind != "" {
		report.Failed = append(report.Failed, fleet.Failure{KID: e.name, Kind: e.out.kind})
	}
	for _, w := range e.wraps {
		if !slices.Contains(report.Services, w.Service) {
			report.Services = append(report.Services, w.Service)
		}
		switch {
		case w.opened:
			report.Opened = append(report.Opened, fleet.Opened{KID: e.name, Service: w.Service, Version: w.Version})
		case w.err != nil:
			kind, operation := kindOf(w.err)
			report.Failed = append(report.Failed, fleet.Failure{KID: e.name, Service: w.Service, Kind: kind, Operation: operation})
		}
	}
}

// kindOf returns why a key service failed, in a word, and at what.
func kindOf(err error) (kind, operation string) {
	var failed *keyset.KeyError
	if errors.As(err, &failed) {
		return string(failed.Kind), failed.Operation
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return string(keyset.Unavailable), ""
	}
	return "error", ""
}

// sign makes a signed report for the registry, and says how long that keeps it.
func (r *Ring) sign(stopped bool) (signed []byte, keep time.Duration, err error) {
	r.mu.Lock()
	report, policy := r.report(stopped), r.doc.Policy
	r.pushing = pushing{made: report.Now, silence: policy.MaxStale}
	r.mu.Unlock()
	signed, err = r.reports.Sign(report)
	return signed, fleet.Keep(r.config.Every, policy.MaxStale, policy.MaxSkew), err
}

// pushing is the report that is on its way to the registry. It counts for as long as the
// policy has it under which the registry keeps it: another one may be in force later.
type pushing struct {
	made    time.Time
	silence time.Duration
}

// A registry notes which reports were accepted.
type registry struct {
	fleet.Registry
	ring *Ring
}

// Publish publishes what sign has made last.
func (g registry) Publish(ctx context.Context, id string, signed []byte, keep time.Duration) error {
	r := g.ring
	r.mu.Lock()
	p := r.pushing
	r.mu.Unlock()
	r.pushed.Store(true)
	err := g.Registry.Publish(ctx, id, signed, keep)
	switch {
	case err == nil:
		r.noteAccepted(p.made, p.silence)
	case errors.Is(ctx.Err(), context.Canceled): // that says nothing of the registry
	default:
		r.mu.Lock()
		r.pushErr = err
		r.noteError(err)
		r.mu.Unlock()
	}
	r.tell(ctx)
	return err
}

const modulePath = "github.com/echoseal/echoseal"

// version returns the version of this module in the program, "" if that is not known.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == modulePath {
			return m.Version
		}
	}
	return ""
}
