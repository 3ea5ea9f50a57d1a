package keyset_test

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/keyset"
)

func TestDefaultPolicy(t *testing.T) {
	d, _ := initKeyset(t, keyset.Services{memkek.New("a")})
	if want := (keyset.Policy{MaxAge: 720 * time.Hour, Settle: 2 * time.Minute, MaxStale: time.Hour, MaxSkew: time.Minute, Proof: "reports"}); d.Policy != want || d.TTL != 10*time.Minute {
		t.Errorf("%v, %+v", d.TTL, d.Policy)
	}
}

func policy(settle, maxStale, maxSkew time.Duration) keyset.Policy {
	p := keyset.DefaultPolicy()
	p.Settle, p.MaxStale, p.MaxSkew = settle, maxStale, maxSkew
	return p
}

// A set is one change of the policy, and what counts directly after it and when that
// ends.
type set struct {
	after  time.Duration
	to     keyset.Policy
	counts [3]time.Duration // settle, max_stale, max_skew
	until  time.Duration    // since start; 0: nothing former counts
}

func TestSetPolicyKeepsFormerValues(t *testing.T) {
	const s, m, h = time.Second, time.Minute, time.Hour
	for name, sets := range map[string][]set{
		"raised": {
			{0, policy(5*m, 2*h, m), [3]time.Duration{5 * m, 2 * h, m}, 0},
		},
		"nothing of it changed": {
			{0, policy(2*m, h, m), [3]time.Duration{2 * m, h, m}, 0},
		},
		"settle lowered": {
			{0, policy(m, h, m), [3]time.Duration{2 * m, h, m}, h + 3*m},
		},
		"max_stale lowered": {
			{0, policy(2*m, m, m), [3]time.Duration{2 * m, h, m}, h + 3*m},
		},
		"max_skew lowered": {
			{0, policy(2*m, h, s), [3]time.Duration{2 * m, h, m}, h + 3*m},
		},
		"one lowered, the others raised": {
			{0, policy(m, 3*h, m), [3]time.Duration{2 * m, 3 * h, m}, h + 3*m},
		},
		"max_stale raised to for ever": {
			{0, policy(2*m, 0, m), [3]time.Duration{2 * m, 0, m}, 0},
		},
		"max_stale lowered from for ever": {
			{0, policy(2*m, 0, m), [3]time.Duration{2 * m, 0, m}, 0},
			{h, policy(2*m, 3*h, m), [3]time.Duration{2 * m, 0, m}, h + 3*h + 3*m},
		},
		"max_stale lowered from for ever, and again": {
			{0, policy(2*m, 0, m), [3]time.Duration{2 * m, 0, m}, 0},
			{h, policy(2*m, 9*h, m), [3]time.Duration{2 * m, 0, m}, h + 9*h + 3*m},
			{2 * h, policy(2*m, h, m), [3]time.Duration{2 * m, 0, m}, h + 9*h + 3*m},
		},
		"lowered twice, the second time by a clock that is behind": {
			{h, policy(m, h, m), [3]time.Duration{2 * m, h, m}, h + h + 3*m},
			{m, policy(s, h, m), [3]time.Duration{2 * m, h, m}, h + h + 3*m},
		},
		"lowered twice: what counted first counts from the second on": {
			{0, policy(m, h, m), [3]time.Duration{2 * m, h, m}, h + 3*m},
			{30 * m, policy(s, h, m), [3]time.Duration{2 * m, h, m}, 30*m + h + 3*m},
		},
		"lowered twice, the second time after the end of the first": {
			{0, policy(m, h, m), [3]time.Duration{2 * m, h, m}, h + 3*m},
			{h + 3*m, policy(s, h, m), [3]time.Duration{m, h, m}, h + 3*m + h + 2*m},
		},
		"lowered, then raised but not as high": {
			{0, policy(m, h, m), [3]time.Duration{2 * m, h, m}, h + 3*m},
			{30 * m, policy(90*s, h, m), [3]time.Duration{2 * m, h, m}, h + 3*m},
		},
		"lowered, then raised beyond": {
			{0, policy(m, h, m), [3]time.Duration{2 * m, h, m}, h + 3*m},
			{30 * m, policy(5*m, h, m), [3]time.Duration{5 * m, h, m}, h + 3*m},
		},
		"lowered, then something else changed": {
			{0, policy(m, h, m), [3]time.Duration{2 * m, h, m}, h + 3*m},
			{30 * m, policy(m, h, m), [3]time.Duration{2 * m, h, m}, h + 3*m},
			{2 * h, policy(m, h, m), [3]time.Duration{m, h, m}, 0},
		},
		"lowered in one, then in another": {
			{0, policy(m, h, m), [3]time.Duration{2 * m, h, m}, h + 3*m},
			{m, policy(m, 10*m, m), [3]time.Duration{2 * m, h, m}, m + h + 3*m},
			{2 * m, policy(m, 10*m, s), [3]time.Duration{2 * m, h, m}, 2*m + h + 3*m},
		},
		"rounded up": {
			{1, policy(m, h, m), [3]time.Duration{2 * m, h, m}, h + 3*m + time.Millisecond},
		},
	} {
		d, _ := initKeyset(t, keyset.Services{memkek.New("a")})
		for i, c := range sets {
			c.to.MaxAge += time.Duration(i) * h
			if err := d.SetPolicy(at(c.after), c.to); err != nil {
				t.Errorf("%s, %d: %v", name, i, err)
				break
			}
			now := d.Policy.At(start.Add(c.after))
			if got := [3]time.Duration{now.Settle, now.MaxStale, now.MaxSkew}; got != c.counts || now.Was != nil || now.MaxAge != c.to.MaxAge {
				t.Errorf("%s, %d: %v counts", name, i, got)
			}
			bare := d.Policy
			bare.Was = nil
			switch {
			case bare != c.to:
				t.Errorf("%s, %d: it is set to %+v", name, i, bare)
			case c.until == 0 && d.Policy.Was != nil:
				t.Errorf("%s, %d: it was %+v", name, i, d.Policy.Was)
			case c.until == 0:
			case d.Policy.Was == nil || !d.Policy.Was.Until.Equal(start.Add(c.until)):
				t.Errorf("%s, %d: it was %+v", name, i, d.Policy.Was)
			case d.Policy.At(start.Add(c.until-1)) != now:
				t.Errorf("%s, %d: it does not count until the end", name, i)
			case d.Policy.At(start.Add(c.until)) != bare:
				t.Errorf("%s, %d: it counts after its end", name, i)
			}
		}
	}
}

// Whatever the changes, each value that was in force counts until its own policy's settle,
// max_stale and max_skew after it was replaced.
func TestFormerValuesCountLongEnough(t *testing.T) {
	type former struct {
		policy keyset.Policy
		until  time.Time
	}
	d, _ := initKeyset(t, keyset.Services{memkek.New("a")})
	fresh := d.Policy
	for range 300 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		d.Policy = fresh
		now := start
		var formers []former
		for range 20 {
			now = now.Add(time.Duration(r.Int64N(int64(time.Hour))))
			old := d.Policy
			old.Was = nil
			p := policy(time.Duration(r.IntN(30))*time.Minute, time.Duration(1+r.IntN(90))*time.Minute, time.Duration(1+r.IntN(60))*time.Second)
			must(t, d.SetPolicy(keyset.Note{At: now}, p))
			formers = append(formers, former{old, now.Add(old.Settle + old.MaxStale + old.MaxSkew)})
			for _, f := range formers {
				for _, when := range []time.Time{now, f.until.Add(-1)} {
					if when.Before(now) || !when.Before(f.until) {
						continue
					}
					if c := d.Policy.At(when); c.Settle < f.policy.Settle || c.MaxStale < f.policy.MaxStale || c.MaxSkew < f.policy.MaxSkew {
						t.Fatalf("seed %d: at %v %+v counts, though until %v it was %+v", seed, when, c, f.until, f.policy)
					}
				}
			}
		}
	}
}

func TestSetPolicyWhileARotationIsUnfinished(t *testing.T) {
	d, kids, _ := everyState(t)
	must(t, d.Abort(at(time.Hour), kids["staged"]))
	staged := d.Clone()
	must(t, staged.Retire(at(time.Hour), kids["retiring"]), staged.Retire(at(time.Hour), kids["drained"]), staged.Stage(at(time.Hour), newKeys(t, d, 1)[0]))
	for _, d := range []*keyset.Document{d, staged} {
		before := d.Clone()
		for _, p := range []keyset.Policy{policy(time.Minute, time.Hour, time.Minute), policy(2*time.Minute, time.Minute, time.Minute), policy(2*time.Minute, time.Hour, time.Second)} {
			if err := d.SetPolicy(at(time.Hour), p); err == nil || !strings.Contains(err.Error(), "finish or abort it first") || !reflect.DeepEqual(d, before) {
				t.Errorf("%+v: %v", p, err)
			}
		}
		must(t, d.SetPolicy(at(time.Hour), policy(3*time.Minute, 0, time.Minute)))
	}
	// What was lowered before it began does not stand in the way of another change.
	d, _ = initKeyset(t, keyset.Services{memkek.New("a")})
	must(t, d.SetPolicy(at(0), policy(time.Minute, time.Hour, time.Minute)), d.Stage(at(1), newKeys(t, d, 1)[0]))
	was := *d.Policy.Was
	p := policy(time.Minute, time.Hour, time.Minute)
	p.MinInstances = 3
	must(t, d.SetPolicy(at(time.Minute), p))
	if d.Policy.Was == nil || *d.Policy.Was != was || d.Policy.MinInstances != 3 {
		t.Errorf("%+v", d.Policy)
	}
}

func TestSetPolicyRefuses(t *testing.T) {
	d, _ := initKeyset(t, keyset.Services{memkek.New("a")})
	before := d.Clone()
	for says, spoil := range map[string]func(*keyset.Policy){
		"policy.max_age: ":       func(p *keyset.Policy) { p.MaxAge = 0 },
		"policy.settle: ":        func(p *keyset.Policy) { p.Settle = -1 },
		"policy.max_stale: it":   func(p *keyset.Policy) { p.MaxStale = 200_000 * time.Hour },
		"policy.max_skew: ":      func(p *keyset.Policy) { p.MaxSkew = time.Minute + 1 },
		"policy.min_instances: ": func(p *keyset.Policy) { p.MinInstances = -1 },
		"policy.proof: ":         func(p *keyset.Policy) { p.Proof = "" },
		"policy.max_stale: 0":    func(p *keyset.Policy) { p.MaxStale, p.Proof = 0, keyset.ProofSettle },
	} {
		p := keyset.DefaultPolicy()
		spoil(&p)
		if err := d.SetPolicy(at(0), p); err == nil || !strings.Contains(err.Error(), says) || !reflect.DeepEqual(d, before) {
			t.Errorf("%s: %v", says, err)
		}
	}
	// What the caller says was in force does not count.
	p := policy(time.Hour, time.Hour, time.Minute)
	p.Was = &keyset.FormerPolicy{}
	must(t, d.SetPolicy(at(0), p))
	if d.Policy.Was != nil {
		t.Errorf("%+v", d.Policy.Was)
	}
}

// The ceiling raises what each live key's MaxTTL is, and never lowers it.
func TestSetTTL(t *testing.T) {
	d, kids, _ := everyState(t)
	live := []string{"staged", "primary", "retiring", "drained"}
	for _, c := range []struct{ ttl, want time.Duration }{
		{20 * time.Minute, 20 * time.Minute},
		{5 * time.Minute, 20 * time.Minute},
		{20 * time.Minute, 20 * time.Minute},
		{time.Hour, time.Hour},
		{time.Second, time.Hour},
	} {
		must(t, d.SetTTL(at(time.Hour), c.ttl))
		for _, state := range live {
			if got := d.Key(kids[state]).MaxTTL; got != c.want || d.TTL != c.ttl {
				t.Errorf("ttl %v: the %s key has %v", c.ttl, state, got)
			}
		}
		if got := d.Key(kids["revoked"]).MaxTTL; got != 0 {
			t.Errorf("ttl %v: the revoked key has %v", c.ttl, got)
		}
	}
	// A key that comes later begins with what is in force then.
	must(t, d.Abort(at(time.Hour), kids["staged"]))
	k := newKeys(t, d, 1)[0]
	must(t, d.Stage(at(time.Hour), k))
	if got := d.Key(k.KID).MaxTTL; got != time.Second {
		t.Errorf("a new key has %v", got)
	}
	before := d.Clone()
	for _, ttl := range []time.Duration{0, -time.Second, time.Second - 1, 87_600*time.Hour + 1} {
		if err := d.SetTTL(at(time.Hour), ttl); err == nil || !strings.Contains(err.Error(), "ttl: it is not in [1s, 87600h0m0s]") || !reflect.DeepEqual(d, before) {
			t.Errorf("%v: %v", ttl, err)
		}
	}
}
