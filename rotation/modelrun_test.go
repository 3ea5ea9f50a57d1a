//go:build !race

package rotation

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

func good(instances int) params {
	return params{
		instances: instances, settle: 2, stale: 3, skew: 2, ttl: [2]uint8{1, 4}, revisions: 4,
		proof: keyset.ProofReports, rules: safe(),
	}
}

var shapes = []struct {
	name  string
	shape func(*params)
}{
	{"at once", func(*params) {}},
	{"apart", func(p *params) { p.apart = true }},
	{"registry", func(p *params) { p.registry = true }},
	{"slow", func(p *params) { p.slow = true }},
	{"settle", func(p *params) { p.proof = keyset.ProofSettle }},
}

// seeds are the worlds that init makes: with one key, or with the keys of a ring that it
// has taken over, and one more that is staged already. Nobody runs yet.
func seeds() []world {
	var one, three world
	one.keys[0].state = primary
	three.keys[0].state, three.keys[1].state, three.keys[2].state = primary, retiring, staged
	return []world{one, three}
}

type mutation struct {
	name   string
	change func(*params)
}

func rule(change func(*rules)) func(*params) { return func(p *params) { change(&p.rules) } }

func wait(cut func(p keyset.Policy) time.Duration) func(keyset.Policy) time.Duration {
	return func(p keyset.Policy) time.Duration { return changed(p) - cut(p) }
}

func settleOf(p keyset.Policy) time.Duration { return p.Settle }
func skewOf(p keyset.Policy) time.Duration   { return p.MaxSkew }
func staleOf(p keyset.Policy) time.Duration  { return p.MaxStale }
func oneTick(keyset.Policy) time.Duration    { return tick }
func retireCut(cut func(p keyset.Policy, maxTTL time.Duration) time.Duration) func(*params) {
	return rule(func(r *rules) {
		r.retire = func(p keyset.Policy, maxTTL time.Duration) time.Duration { return expired(p, maxTTL) - cut(p, maxTTL) }
	})
}

func mutations() []mutation {
	return []mutation{
		{"convergence", rule(func(r *rules) { r.verifies = false })},
		{"settle at promote", rule(func(r *rules) { r.promote = wait(settleOf) })},
		{"a tick of promote", rule(func(r *rules) { r.promote = wait(oneTick) })},
		{"skew at promote", rule(func(r *rules) { r.promote = wait(skewOf) })},
		{"settle at drain", rule(func(r *rules) { r.drain = wait(settleOf) })},
		{"a tick of drain", rule(func(r *rules) { r.drain = wait(oneTick) })},
		{"skew at drain", rule(func(r *rules) { r.drain = wait(skewOf) })},
		{"seals with another", rule(func(r *rules) { r.sealsOther = false })},
		{"from drained", rule(func(r *rules) { r.drained = func(k keyset.Key) time.Time { return k.Demoted } })},
		{"max_ttl", retireCut(func(_ keyset.Policy, maxTTL time.Duration) time.Duration { return maxTTL })},
		{"max_ttl falls", func(p *params) { p.broken.maxFalls = true }},
		{"max_ttl stays", func(p *params) { p.broken.maxStays = true }},
		{"2 skew at retire", retireCut(func(p keyset.Policy, _ time.Duration) time.Duration { return 2 * p.MaxSkew })},
		{"1 skew at retire", retireCut(func(p keyset.Policy, _ time.Duration) time.Duration { return p.MaxSkew })},
		{"a tick of retire", retireCut(func(keyset.Policy, time.Duration) time.Duration { return tick })},
		{"zero reports", rule(func(r *rules) { r.zeroReports = false })},
		{"silence", rule(func(r *rules) { r.silence = false })},
		{"drained stays", func(p *params) { p.broken.drainedStays = true }},
		{"first reading", rule(func(r *rules) { r.firstReading = false })},
		{"stamp first", func(p *params) { p.broken.stampFirst = true }},
		{"oldest report", rule(func(r *rules) { r.oldestReport = false })},
		{"register first", func(p *params) { p.broken.readFirst = true }},
		{"late report", func(p *params) { p.broken.lateReport = true }},
		{"max_stale at promote", rule(func(r *rules) { r.promote = wait(staleOf) })},
		{"max_stale at drain", rule(func(r *rules) { r.drain = wait(staleOf) })},
	}
}

// shapeOf names the shape of the model in which a guard that is taken out shows, where it
// is not the plainest one.
var shapeOf = map[string]string{
	"first reading": "apart", "stamp first": "apart", "oldest report": "registry", "late report": "slow",
	"max_stale at promote": "settle", "max_stale at drain": "settle",
}

const maxStates = 6_000_000

func walkThrough(t *testing.T, shape string, instances, limit int, change func(*params)) *walk {
	t.Helper()
	p := good(instances)
	for _, s := range shapes {
		if s.name == shape {
			s.shape(&p)
		}
	}
	change(&p)
	v := newWalk(t, &p, limit)
	v.run(seeds()...)
	return v
}

// A setting is a model that is walked through, and how many of its worlds at most: whole,
// if there must not be more.
type setting struct {
	shape            string
	instances, limit int
	whole            bool
}

// settings are the shapes, with two instances and with three, that are walked whole within
// half a minute each. If ECHOSEAL_MODEL_STATES is a number (make model), they are all shapes
// with two and with three instances, as far as that many states go, nearest first. A state
// takes up to 60 bytes while the walk makes room for more: 80 million stay below 6 GB.
func settings(t *testing.T) []setting {
	t.Helper()
	number := os.Getenv("ECHOSEAL_MODEL_STATES")
	if number == "" {
		return []setting{{"at once", 2, maxStates, true}, {"settle", 2, maxStates, true}, {"at once", 3, maxStates, true}}
	}
	limit, err := strconv.Atoi(number)
	if err != nil || limit < 1 {
		t.Fatalf("ECHOSEAL_MODEL_STATES is %q, not a number of states", number)
	}
	var all []setting
	for _, s := range shapes {
		all = append(all, setting{s.name, 2, limit, false})
		if s.name != "apart" { // three that are asked one by one do not fit into a word
			all = append(all, setting{s.name, 3, limit, false})
		}
	}
	return all
}

// Every token inside its TTL is accepted by every ready instance, in every world that can
// be reached; and a whole rotation, a rollback and an abort can be reached.
func TestEveryTokenIsAccepted(t *testing.T) {
	for _, s := range settings(t) {
		t.Run(fmt.Sprintf("%s, %d instances", s.shape, s.instances), func(t *testing.T) {
			v := walkThrough(t, s.shape, s.instances, s.limit, func(*params) {})
			if v.violation >= 0 {
				t.Fatalf("a token is refused:\n%s", v.story(v.violation))
			}
			if v.full && s.whole {
				t.Fatalf("there are more than %d states, so not all were seen", s.limit)
			}
			for move, n := range v.moves {
				if move > 0 && n == 0 {
					t.Errorf("no world is reached by %s", moveNames[move])
				}
			}
			if v.full {
				t.Logf("%d states, INCOMPLETE: there are more, see MODEL_STATES in the Makefile", len(v.states))
				return
			}
			t.Logf("%d states, which are all that there are", len(v.states))
		})
	}
}

// Each guard is needed: without it a token is refused somewhere.
func TestEveryGuardIsNeeded(t *testing.T) {
	for _, m := range mutations() {
		t.Run(m.name, func(t *testing.T) {
			shape := "at once"
			if other, ok := shapeOf[m.name]; ok {
				shape = other
			}
			v := walkThrough(t, shape, 2, maxStates, m.change)
			if v.violation < 0 {
				t.Fatalf("nothing is lost without it, in %d states", len(v.states))
			}
			t.Logf("a token is refused after %d states:\n%s", len(v.states), v.story(v.violation))
		})
	}
}
