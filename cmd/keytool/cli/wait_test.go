package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

// Where some are left out it is at least two: the line that says so would have named the one.
func TestAtLeastTwoAreLeftOut(t *testing.T) {
	step := func(n int) rotation.Step {
		s := rotation.Step{Kind: rotation.Blocked, Goal: rotation.Promote, KID: exampleKID}
		for i := range n {
			s.Reasons = append(s.Reasons, rotation.Reason{Code: rotation.PeerUnconfirmed, Peer: fmt.Sprintf("peer-%02d", i)})
		}
		return s
	}
	j := judge{&keyset.Document{}, &fleet.Observation{}, time.Time{}}
	named := func(text string) int {
		n := 0
		for i := range 30 {
			if strings.Contains(text, fmt.Sprintf("peer-%02d", i)) {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		what string
		most int
		text func(n int) string
		says string
	}{
		{"the log of a wait", maxCulprits, func(n int) string {
			var turn turn
			turn.tell(j, step(n))
			return strings.Join(turn.culprits, "\n")
		}, "  and %d more, see keytool status"},
		{"a verdict", maxReasons, func(n int) string {
			var out printer
			o := j.outlook(step(n))
			o.text(&out, false)
			return out.String()
		}, "%d others; -o json has them all"},
		{"a list", 3, func(n int) string {
			var all []string
			for _, r := range step(n).Reasons {
				all = append(all, r.Peer)
			}
			return list(few(all))
		}, "and %d others"},
		{"the table of keys", maxRevoked, func(n int) string {
			var out printer
			r := &statusReport{}
			for i := range n {
				r.Keys = append(r.Keys, keyJSON{KID: fmt.Sprintf("peer-%02d", i), State: string(keyset.Revoked)})
			}
			r.keys(&out)
			return out.String()
		}, "and %d revoked keys more; -o json has them"},
	} {
		for n := range c.most + 4 {
			text, want, left := c.text(n), n, 0
			if n > c.most+1 {
				want, left = c.most, n-c.most
			}
			if got := named(text); got != want {
				t.Errorf("%s: %d of %d are named:\n%s", c.what, got, n, text)
			}
			if says := fmt.Sprintf(c.says, left); (left > 0) != strings.Contains(text, says) {
				t.Errorf("%s of %d: not %q\n%s", c.what, n, says, text)
			}
		}
	}
}
