package rotation_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
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
		History: times(d, 2, func() keyset.Event { return keyset.Event{At: d.time()} }),
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
					ID: pick(d, "", "one", "two"), Host: pick(d, "", "mcp-a"), Started: d.time(), Now: d.time(), Every: d.duration(), Stopped: d.IntN(4) == 0,
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

// Whatever it is given, Next decides, says why in words, and changes nothing.
func TestNextDecidesWhateverItIsGiven(t *testing.T) {
	d := dice{rand.New(rand.NewPCG(1, 2))}
	kinds := make(map[rotation.Kind]int)
	for n := range 50_000 {
		doc, o, now := d.document(), d.observation(), d.time()
		policy := d.policy()
		request := rotation.Request{Replace: d.kid(), Policy: pick(d, nil, &policy), Force: d.IntN(4) == 0}
		if d.IntN(4) > 0 { // most documents have exactly one primary
			for i := range doc.Keys {
				if doc.Keys[i].State == keyset.Primary {
					doc.Keys[i].State = keyset.Staged
				}
			}
			doc.Keys = append(doc.Keys, keyset.Key{KID: "00000009", State: keyset.Primary, Promoted: d.time()})
		}
		before := ""
		if n%16 == 0 {
			before = fmt.Sprintf("%+v %+v", *doc, o)
		}
		step := rotation.Next(doc, o, now, request)
		kinds[step.Kind]++
		rotation.Phases(doc, now, step)
		steps := []rotation.Step{step, rotation.Obeyed(doc, o, now), rotation.Dropped(doc, o, now, "a")}
		if n%16 == 0 {
			if after := fmt.Sprintf("%+v %+v", *doc, o); after != before {
				t.Fatalf("%s\nbecame\n%s", before, after)
			}
		}
		for _, s := range steps {
			for _, r := range s.Reasons {
				if r.String() == "" || r.String() == string(r.Code) || r.Fault() && r.Fix() == "" {
					t.Fatalf("%+v: %q, fix %q", r, r, r.Fix())
				}
			}
			switch s.Kind {
			case rotation.Wait:
				if s.NotBefore.IsZero() || len(s.Reasons) == 0 {
					t.Fatalf("nobody knows until when: %+v", s)
				}
			case rotation.Blocked:
				if len(s.Reasons) == 0 {
					t.Fatalf("nobody knows by what: %+v", s)
				}
			}
		}
	}
	for _, kind := range []rotation.Kind{rotation.Stage, rotation.Promote, rotation.Drain, rotation.Retire, rotation.Wait, rotation.Blocked, rotation.Done} {
		if kinds[kind] == 0 {
			t.Errorf("never: %s", kind)
		}
	}
	t.Log(kinds)
}
