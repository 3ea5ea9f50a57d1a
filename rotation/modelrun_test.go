//go:build !race

package rotation

import (
	"testing"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

func good() params {
	return params{
		instances: 3, settle: 2, stale: 3, skew: 2, ttl: [2]uint8{1, 4}, revisions: 4,
		proof: keyset.ProofReports, rules: safe(),
	}
}

// began is the world after init: nobody runs yet.
func began() world {
	var w world
	w.keys[0].state = primary
	return w
}

func TestModelTry(t *testing.T) {
	for name, p := range map[string]func(*params){
		"2 atomic":   func(p *params) { p.instances = 2 },
		"2 apart":    func(p *params) { p.instances, p.apart = 2, true },
		"2 registry": func(p *params) { p.instances, p.registry = 2, true },
		"2 settle":   func(p *params) { p.instances, p.proof = 2, keyset.ProofSettle },
		"3 atomic":   func(p *params) { p.instances = 3 },
		"3 registry": func(p *params) { p.instances, p.registry = 3, true },
		"3 settle":   func(p *params) { p.instances, p.proof = 3, keyset.ProofSettle },
	} {
		t.Run(name, func(t *testing.T) {
			q := good()
			p(&q)
			start := time.Now()
			v := newWalk(t, &q, 20_000_000)
			v.run(began())
			t.Logf("%d states %v moves %v suppressed %d full %v decided %d moved %d", len(v.states), time.Since(start), v.moves, v.suppressed, v.full, len(v.decided), len(v.moved))
			if v.violation >= 0 {
				t.Errorf("\n%s", v.story(v.violation))
			}
		})
	}
}
