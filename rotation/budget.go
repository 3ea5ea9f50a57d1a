package rotation

import (
	"math"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// Seals that a key is good for, over the whole fleet: NIST SP 800-38D, section 8.3, for
// AES-256-GCM with random nonces of 96 bits.
const (
	Budget      = 1 << 32
	BudgetDue   = Budget / 2     // beyond it a rotation does not wait for max_age
	BudgetAlarm = Budget / 8 * 7 // beyond it somebody has to be woken
)

// shortest is the least time that a rate of seals is measured over: the first burst of a
// process that has just started says nothing.
const shortest = time.Minute

// Seals estimates how many tokens the fleet has sealed under a key: the larger of what the
// reports count together, and of their rates over the whole time since the key was
// promoted, which stands for the counts of processes that are gone.
func Seals(d *keyset.Document, o fleet.Observation, kid string, now time.Time) int64 {
	k := d.Key(kid)
	if k == nil || k.Promoted.IsZero() {
		return 0
	}
	var counted, rate float64 // rate: per second
	for i := range o.Instances {
		r := &o.Instances[i].Report
		if o.Instances[i].Err != nil || r.Lineage != d.Lineage {
			continue
		}
		for _, use := range r.Keys {
			if use.KID == kid {
				counted += float64(use.Seals)
				rate += float64(use.Seals) / max(r.Now.Sub(use.Since), shortest).Seconds()
			}
		}
	}
	estimate := max(counted, rate*max(now.Sub(k.Promoted), 0).Seconds())
	return int64(min(estimate, math.MaxInt64/2))
}
