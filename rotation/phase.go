package rotation

import (
	"slices"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

// A Phase is one of the three parts that a rotation has for people.
type Phase struct {
	Name  string // "distribute", "promote", "retire"
	State PhaseState

	// Since is when the phase began; zero while it is Ahead.
	Since time.Time

	// At is when it ended, if it is Over. Otherwise it is the earliest time at which it
	// can end, if all goes well; zero: not known yet.
	At time.Time
}

// A PhaseState is how far a [Phase] is.
type PhaseState string

// The states of a phase.
const (
	Over    PhaseState = "over"
	Running PhaseState = "running"
	Stuck   PhaseState = "stuck" // blocked
	Ahead   PhaseState = "ahead"
)

// Phases returns the phases of the rotation that is unfinished in d: distribute, which
// is over once the new key is staged; promote; and retire, which is over with the
// rotation. It is nil if none is. s is the step that [Next] gave at that time.
func Phases(d *keyset.Document, now time.Time, s Step) []Phase {
	primary := d.Primary()
	if primary == nil || !d.Unfinished() {
		return nil
	}
	distribute, promote, retire := Phase{Name: "distribute"}, Phase{Name: "promote"}, Phase{Name: "retire"}
	p, floor := counting(d, now)
	rules := safe()
	staged := false
	for _, k := range d.Keys {
		switch k.State {
		case keyset.Staged:
			staged = true
			distribute.over(k.Staged)
			promote.runs(k.Staged, latest(floor, k.Staged.Add(rules.promote(p))))
		case keyset.Retiring:
			drained := k.Drained
			if drained.IsZero() {
				drained = latest(now, latest(floor, k.Demoted.Add(rules.drain(p))))
				if s.Goal == Drain && s.KID == k.KID {
					drained = latest(drained, s.NotBefore)
				}
			}
			retire.runs(k.Demoted, drained.Add(rules.retire(p, k.MaxTTL)))
		}
	}
	if !staged {
		distribute.over(primary.Staged)
		promote.over(primary.Promoted)
	}
	for _, phase := range []*Phase{&promote, &retire} {
		if phase.State == "" {
			phase.State = Ahead
		}
		if phase.State != Running {
			continue
		}
		phase.At = latest(phase.At, now)
		if (s.Goal == Promote) != (phase == &promote) {
			continue
		}
		if s.Goal != Drain { // whose time is not the end of its phase
			phase.At = latest(phase.At, s.NotBefore)
		}
		if s.Kind == Blocked {
			phase.State = Stuck
			if !slices.ContainsFunc(s.Reasons, Reason.time) {
				phase.At = time.Time{}
			}
		}
	}
	phases := []Phase{distribute, promote, retire}
	for i := range phases {
		phases[i].At = tellable(phases[i].At)
	}
	return phases
}

func (p *Phase) over(at time.Time) { p.State, p.Since, p.At = Over, at, at }

// runs notes that the phase runs; of several keys it lasts from the first to the last.
func (p *Phase) runs(since, at time.Time) {
	p.State, p.At = Running, latest(p.At, at)
	if p.Since.IsZero() || since.Before(p.Since) {
		p.Since = since
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
