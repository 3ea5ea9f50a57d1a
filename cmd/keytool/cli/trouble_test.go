package cli

import (
	"slices"
	"testing"
	"time"

	"github.com/echoseal/echoseal/fleet"
)

// What is found at two places is one process. Whether somebody else should have been at one
// of them, only people know; where it is as it should be, they are not asked.
func TestListedTwice(t *testing.T) {
	const id = "5b1d7c0e9f2a4d36a1c48e07d2b95f13"
	const a, b, other = "http://a:1/report", "http://b:1/report", "http://a:1/other"
	const name, registry = "dns+http://fleet:1/report", "etcd://e:1/fleet"
	now := time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC)
	for what, c := range map[string]struct {
		sources         []string
		source, address string
		also            []string
		want            []string
	}{
		"one":                      {[]string{a}, a, "a:1", nil, nil},
		"two":                      {[]string{a, b}, a, "a:1", []string{"b:1"}, []string{"a:1 and b:1 are answered by one process"}},
		"one, typed twice":         {[]string{a, a}, a, "a:1", nil, nil},
		"two paths":                {[]string{a, other}, a, "a:1", nil, []string{a + " and " + other + " are answered by one process"}},
		"two addresses of a name":  {[]string{name}, name, "10.0.0.1:1", []string{"[fd00::1]:1"}, nil},
		"an address, and a name's": {[]string{a, name}, a, "a:1", []string{"10.0.0.1:1"}, []string{"a:1 and 10.0.0.1:1 are answered by one process"}},
		"a name's, and an address": {[]string{name, a}, name, "10.0.0.1:1", []string{"a:1"}, []string{"10.0.0.1:1 and a:1 are answered by one process"}},
		"in a registry as well":    {[]string{registry, a}, a, "a:1", []string{id}, nil},
		"by name and registry":     {[]string{name, registry}, name, "10.0.0.1:1", []string{id}, nil},
	} {
		obs := fleet.Observation{Began: now, Ended: now, Sources: c.sources, Instances: []fleet.Instance{{
			Source: c.source, Address: c.address, Also: c.also, Report: fleet.Report{ID: id, Host: "mcp-a", Now: now, Every: time.Second, Ready: true},
		}}}
		var got []string
		for _, r := range (judge{nil, &obs, now}).twice() {
			if got = append(got, saidOf(r.Text, r.Instance)); r.Code != codeTwice || r.Fix == "" || !r.said {
				t.Errorf("%s: %+v", what, r)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}
