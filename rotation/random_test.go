package rotation_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// A dice makes documents and observations that nobody would, out of few values, so that
// they meet.
type dice struct{ *rand.Rand }

func pick[T any](d dice, all ...T) T { return all[d.IntN(len(all))] }

func (d dice) time() time.Time {
	return pick(d, time.Time{}, start, start.Add(time.Hour), start.Add(-1), time.Unix(math.MaxInt64/2, 0), time.Unix(-1<<62, 0), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
}

func (d dice) duration() time.Duration {
	return pick(d, 0, 1, -1, time.Minute, time.Hour, math.MaxInt64, math.MinInt64)
}

func (d dice) kid() string { return pick(d, "", "00000001", "00000002", "00000003", "auth", "\x00") }

func (d dice) number() int64 { return pick[int64](d, 0, 1, 7, -1, math.MaxInt64, math.MinInt64) }

func times[T any](d dice, most int, f func() T) []T {
	var all []T
	for range d.IntN(most + 1) {
		all = append(all, f())
	}
	return all
}

func (d dice) wrapped() []keyset.WrappedKey {
	return times(d, 2, func() keyset.WrappedKey { return keyset.WrappedKey{Service: pick(d, "", "a", "b")} })
}

func (d dice) policy() keyset.Policy {
	p := keyset.Policy{MaxAge: d.duration(), Settle: d.duration(), MaxStale: d.duration(), MaxSkew: d.duration(), MinInstances: int(d.number()), Proof: pick(d, keyset.ProofReports, keyset.ProofSettle, "")}
	if d.IntN(2) == 0 {
		p.Was = &keyset.FormerPolicy{Settle: d.duration(), MaxStale: d.duration(), MaxSkew: d.duration(), Until: d.time()}
	}
	return p
}

func (d dice) document() *keyset.Document {
	return &keyset.Document{
		Name: pick(d, "", "fleet"), Lineage: pick(d, "", "one", "two"), Revision: d.number(), TTL: d.duration(), Policy: d.policy(),
		Auth: keyset.AuthEntry{Wrapped: d.wrapped()},
		Keys: times(d, 4, func() keyset.Key {
			return keyset.Key{
				KID: d.kid(), State: pick(d, keyset.Staged, keyset.Primary, keyset.Primary, keyset.Retiring, keyset.Retiring, keyset.Revoked, ""),
				MaxTTL: d.duration(), Staged: d.time(), Promoted: d.time(), Demoted: d.time(), Drained: d.time(), Wrapped: d.wrapped(),
			}
		}),
		Peers: times(d, 2, func() keyset.Peer {
			return keyset.Peer{Name: "p", KIDs: times(d, 3, d.kid), Primary: d.kid(), Confirmed: d.IntN(2) == 0, TTL: d.duration()}
		}),
		History: times(d, 2, func() keyset.Event { return keyset.Event{At: d.time(), Action: pick(d, "rewrap", "stage")} }),
	}
}

func (d dice) observation() fleet.Observation {
	return fleet.Observation{
		Began: d.time(), Ended: d.time(), Sources: times(d, 2, func() string { return source }),
		Failures: times(d, 1, func() fleet.SourceError { return fleet.SourceError{Source: source, Err: fleet.ErrUnreachable} }),
		Instances: times(d, 4, func() fleet.Instance {
			return fleet.Instance{
				Source: source, Address: pick(d, "", "one", "two"), Registered: d.IntN(2) == 0,
				Err: pick(d, nil, nil, nil, fleet.ErrMAC, fleet.ErrUnreachable, errors.New("odd")),
				Report: fleet.Report{
					ID: pick(d, "", "one", "two"), Host: pick(d, "", "mcp-a"), Started: d.time(), Now: d.time(), Every: d.duration(), Stopped: d.IntN(4) == 0, Reason: pick(d, "", fleet.Starting, "stale"),
					Services: times(d, 2, func() string { return pick(d, "a", "b") }), Loaded: d.time(),
					Keyset: pick(d, "", "fleet"), Lineage: pick(d, "", "one", "two"), Revision: d.number(), Primary: d.kid(), Verifies: times(d, 3, d.kid), TTL: d.duration(), Ready: d.IntN(2) == 0,
					Failed: times(d, 2, func() fleet.Failure { return fleet.Failure{KID: d.kid(), Kind: pick(d, "", "denied", "throttled")} }),
					Keys: times(d, 2, func() fleet.KeyUse {
						return fleet.KeyUse{KID: d.kid(), Seals: d.number(), Since: d.time(), LiveUntil: d.time()}
					}),
				},
			}
		}),
	}
}
