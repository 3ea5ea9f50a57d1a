package keyset

import (
	"errors"
	"fmt"
	"time"

	"github.com/echoseal/echoseal/internal/strict"
)

// A Policy says how a keyset is rotated, and what the servers of a fleet and the tools
// that change it can rely on.
type Policy struct {
	// MaxAge is the age at which the primary is due to be replaced. 30 days by default.
	MaxAge time.Duration

	// Settle bounds, together, how long a store may still give a revision after it was
	// replaced, and how long a save may take. 2 minutes by default.
	Settle time.Duration

	// MaxStale is how long a server goes on sealing without a successful read of the
	// store. 1 hour by default; 0 means for ever.
	MaxStale time.Duration

	// MaxSkew bounds how far the clocks of any two hosts are apart. It is positive and
	// at most 1 minute, the default.
	MaxSkew time.Duration

	// MinInstances is how many instances have to report before a key is promoted.
	MinInstances int

	// Proof is what a promotion waits for; [ProofReports] by default.
	Proof Proof

	// Was holds the larger values that were in force before the policy was changed. They
	// count until Was.Until; nil if there are none.
	Was *FormerPolicy
}

// A FormerPolicy is what of a policy still counts after it was lowered.
type FormerPolicy struct {
	Settle, MaxStale, MaxSkew time.Duration
	Until                     time.Time
}

// A Proof is what tells that every instance has got a key.
type Proof string

// The proofs.
const (
	ProofReports Proof = "reports" // every instance says so
	ProofSettle  Proof = "settle"  // time alone, where instances cannot report
)

// DefaultPolicy returns the policy of a new keyset.
func DefaultPolicy() Policy {
	return Policy{
		MaxAge: 30 * 24 * time.Hour, Settle: 2 * time.Minute, MaxStale: time.Hour, MaxSkew: time.Minute,
		Proof: ProofReports,
	}
}

func (p Policy) check() error {
	switch {
	case !isSpan(p.MaxAge):
		return errSpan("max_age")
	case p.MinInstances < 0 || p.MinInstances > maxInstances:
		return errors.New("min_instances: " + errInstances)
	case p.Proof != ProofReports && p.Proof != ProofSettle:
		return errors.New("proof: it is neither reports nor settle")
	case p.Proof == ProofSettle && p.MaxStale == 0:
		return errors.New("max_stale: 0 means for ever, and proof settle waits that long")
	}
	if err := checkReach(p.Settle, p.MaxStale, p.MaxSkew); err != nil || p.Was == nil {
		return err
	}
	if p.Was.Until.IsZero() {
		return errors.New("was.until: it is missing")
	}
	if err := checkReach(p.Was.Settle, p.Was.MaxStale, p.Was.MaxSkew); err != nil {
		return fmt.Errorf("was.%w", err)
	}
	return nil
}

const (
	// maxInstances is the largest int on every platform.
	maxInstances = 1<<31 - 1
	errInstances = "it is not in [0, 2^31)"
)

// checkReach checks what a policy and a former one have in common.
func checkReach(settle, maxStale, maxSkew time.Duration) error {
	switch {
	case settle < 0 || settle > maxDuration:
		return fmt.Errorf("settle: it is not in [0s, %v]", maxDuration)
	case maxStale < 0 || maxStale > maxDuration:
		return fmt.Errorf("max_stale: it is not in [0s, %v]", maxDuration)
	case maxSkew <= 0 || maxSkew > time.Minute:
		return errors.New("max_skew: it is not in (0s, 1m0s]; a token may be dated 60 s ahead at most")
	}
	return nil
}

// At returns the policy as it counts at a time: with the larger of each former and
// present value while the former ones still do. Its Was is nil.
func (p Policy) At(now time.Time) Policy {
	if was := p.Was; was != nil && now.Before(was.Until) {
		p.Settle = max(p.Settle, was.Settle)
		p.MaxSkew = max(p.MaxSkew, was.MaxSkew)
		p.MaxStale = longer(p.MaxStale, was.MaxStale)
	}
	p.Was = nil
	return p
}

// until returns when former values stop counting, the zero time if there are none.
func (p Policy) until() time.Time {
	if p.Was == nil {
		return time.Time{}
	}
	return p.Was.Until
}

// longer returns the longer of two times after which a server is stale, 0 being for ever.
func longer(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

// SetPolicy changes the policy; p.Was is ignored. Lowering Settle, MaxStale or MaxSkew is
// refused while a rotation is unfinished, and what counted until then goes on counting
// until the sum of the three after n.At.
//
// After a MaxStale of 0 that sum has the new MaxStale. No time bounds how long an instance
// that does not see the change goes on, so see to it that every one has read the new
// revision by then.
func (d *Document) SetPolicy(n Note, p Policy) error {
	return d.change(n, func(d *Document) error {
		now, old := d.Policy, d.Policy.At(n.At)
		switch lowered := p.Settle < now.Settle || p.MaxSkew < now.MaxSkew || longer(p.MaxStale, now.MaxStale) != p.MaxStale; {
		case lowered && d.Unfinished():
			return fmt.Errorf("keyset %s: settle, max_stale and max_skew are not lowered while a rotation is unfinished: finish or abort it first", d.Name)
		case lowered:
			stale := old.MaxStale
			if stale == 0 {
				stale = p.MaxStale
			}
			until := n.At.Add(old.Settle + stale + old.MaxSkew)
			if was := now.Was; was != nil && was.Until.After(until) {
				until = was.Until
			}
			p.Was = &FormerPolicy{Settle: old.Settle, MaxStale: old.MaxStale, MaxSkew: old.MaxSkew, Until: strict.CeilTime(until)}
		case n.At.Before(now.until()):
			p.Was = now.Was
		default:
			p.Was = nil
		}
		d.Policy = p
		d.note(n, "policy", "")
		return nil
	})
}

// SetTTL changes the ceiling. It raises what every key's MaxTTL is below it; lowering it
// lowers none, since tokens of the old length are there.
func (d *Document) SetTTL(n Note, ttl time.Duration) error {
	return d.change(n, func(d *Document) error {
		d.TTL = ttl
		d.raise()
		d.note(n, "ttl", "")
		return nil
	})
}

// Unfinished reports whether a rotation has begun and not ended: a key is staged or
// retiring.
func (d *Document) Unfinished() bool {
	for _, k := range d.Keys {
		if k.State == Staged || k.State == Retiring {
			return true
		}
	}
	return false
}
