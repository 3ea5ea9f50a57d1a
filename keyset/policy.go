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
	case p.MaxAge < time.Second:
		return errors.New("max_age: it is less than 1s")
	case p.Settle < 0 || p.MaxStale < 0:
		return errors.New("settle, max_stale: they are not negative")
	case p.MaxSkew <= 0 || p.MaxSkew > time.Minute:
		return errors.New("max_skew: it is not in (0s, 1m0s]; a token may be dated 60 s ahead at most")
	case p.MinInstances < 0 || p.MinInstances > maxInt:
		return errors.New("min_instances: it is not in [0, 2^53)")
	case p.Proof != ProofReports && p.Proof != ProofSettle:
		return errors.New("proof: it is neither reports nor settle")
	case p.Proof == ProofSettle && p.MaxStale == 0:
		return errors.New("max_stale: 0 means for ever, and proof settle waits that long")
	case p.Was != nil && (p.Was.Until.IsZero() || p.Was.Settle < 0 || p.Was.MaxStale < 0 || p.Was.MaxSkew <= 0 || p.Was.MaxSkew > time.Minute):
		return errors.New("was: it is no policy that was in force")
	}
	return nil
}

// At returns the policy as it counts at a time: with the larger of each former and
// present value while the former ones still do.
func (p Policy) At(now time.Time) Policy {
	if p.Was == nil || !now.Before(p.Was.Until) {
		p.Was = nil
		return p
	}
	p.Settle = max(p.Settle, p.Was.Settle)
	p.MaxSkew = max(p.MaxSkew, p.Was.MaxSkew)
	p.MaxStale = longer(p.MaxStale, p.Was.MaxStale)
	return p
}

// longer returns the longer of two times after which a server is stale, 0 being for ever.
func longer(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

// SetPolicy changes the policy; p.Was is ignored. Lowering Settle, MaxStale or MaxSkew is
// refused while a rotation is unfinished, and the old values count until their sum
// after n.At.
func (d *Document) SetPolicy(n Note, p Policy) error {
	return d.change(func(d *Document) error {
		old := d.Policy.At(n.At)
		p.Was = nil
		lowered := p.Settle < old.Settle || p.MaxSkew < old.MaxSkew || longer(p.MaxStale, old.MaxStale) != p.MaxStale
		if lowered && d.Unfinished() {
			return fmt.Errorf("keyset %s: settle, max_stale and max_skew are not lowered while a rotation is unfinished: finish or abort it first", d.Name)
		}
		if lowered {
			stale := old.MaxStale
			if stale == 0 { // an instance that was told to go on for ever leaves only by being forgotten
				stale = p.MaxStale
			}
			until := n.At.Add(old.Settle + stale + old.MaxSkew)
			p.Was = &FormerPolicy{Settle: old.Settle, MaxStale: old.MaxStale, MaxSkew: old.MaxSkew, Until: strict.CeilTime(until)}
		}
		d.Policy = p
		d.note(n, "policy", "")
		return nil
	})
}

// SetTTL changes the ceiling. It raises what every key's MaxTTL is below it; lowering it
// lowers none, since tokens of the old length are there.
func (d *Document) SetTTL(n Note, ttl time.Duration) error {
	return d.change(func(d *Document) error {
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
