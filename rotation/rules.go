package rotation

import (
	"math"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

// rules are what the guarantee rests on, each as a value, so that the model test can take
// out or shorten any one of them and show that it is needed. [Next] applies all.
type rules struct {
	// How long after a stamp of the document a change is safe, by clocks that may be
	// max_skew apart.
	promote func(keyset.Policy) time.Duration                // after staged
	drain   func(keyset.Policy) time.Duration                // after demoted
	retire  func(keyset.Policy, time.Duration) time.Duration // after drained, given the key's MaxTTL

	drained func(keyset.Key) time.Time // what retire counts from

	firstReading bool // compare with the clock as it was before the first source was asked
	oldestReport bool // or as it was when the oldest report was made
	zeroReports  bool // no report is a fault
	silence      bool // a report that is not fresh is a fault
	verifies     bool // promote: every instance verifies the key
	sealsOther   bool // drain: every instance seals with another key
}

func safe() rules {
	return rules{
		promote:      changed,
		drain:        changed,
		retire:       expired,
		drained:      func(k keyset.Key) time.Time { return k.Drained },
		firstReading: true,
		oldestReport: true,
		zeroReports:  true,
		silence:      true,
		verifies:     true,
		sealsOther:   true,
	}
}

// changed is how long after a change's stamp no server can come by an older revision:
// settle, in which the change is saved and the store ceases to give what was there
// before; and max_skew, since the clock that is compared may be ahead of the one that
// made the stamp. Without reports a server may go on with an older revision that it has
// for max_stale, which is for ever if that is 0.
func changed(p keyset.Policy) time.Duration {
	switch {
	case p.Proof != keyset.ProofSettle:
		return sum(p.Settle, p.MaxSkew)
	case p.MaxStale == 0:
		return math.MaxInt64
	default:
		return sum(p.Settle, p.MaxSkew, p.MaxStale)
	}
}

// expired is how long after the last seal its token is dead: the longest life that any
// token under the key has; max_skew, by which the clock that dated the token may be
// ahead of the one that stamped the drain; and once more, by which the clock that is
// compared may be ahead of that of a server that still accepts the token.
func expired(p keyset.Policy, maxTTL time.Duration) time.Duration {
	return sum(maxTTL, p.MaxSkew, p.MaxSkew)
}

// sum is the longest duration there is, some 292 years, if the sum is longer: what ran
// over would be no wait at all.
func sum(all ...time.Duration) time.Duration {
	var total time.Duration
	for _, d := range all {
		if d > math.MaxInt64-max(total, 0) {
			return math.MaxInt64
		}
		total += d
	}
	return total
}
