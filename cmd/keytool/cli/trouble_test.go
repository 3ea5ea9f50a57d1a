package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/echoseal/echoseal/fleet"
)

// An instance that starts is left in peace for as long as a rotation waits for it, and no longer,
// whatever time it says that it began at.
func TestStartingForTooLong(t *testing.T) {
	now := time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC)
	for what, c := range map[string]struct {
		started time.Time
		ready   bool
		reason  string
		want    string // "": nothing to complain of
	}{
		"just now":                  {now.Add(-time.Second), false, fleet.Starting, ""},
		"nearly too long":           {now.Add(time.Nanosecond - 2*time.Minute), false, fleet.Starting, ""},
		"too long":                  {now.Add(-2 * time.Minute), false, fleet.Starting, "starts since 02:58:00Z"},
		"its clock has been set":    {now.Add(24 * time.Hour), false, fleet.Starting, "not ready: starting"},
		"it has been ready":         {now.Add(-time.Second), false, "stale", "not ready: stale"},
		"it is ready":               {now.Add(24 * time.Hour), true, "", ""},
		"it is ready, and says why": {now.Add(-time.Second), true, "stale", "degraded: stale"},
	} {
		i := fleet.Instance{Source: "http://a:1/report", Address: "a:1", Report: fleet.Report{
			ID: "5b1d7c0e9f2a4d36a1c48e07d2b95f13", Host: "mcp-a", Started: c.started, Now: now, Every: time.Second, Ready: c.ready, Reason: c.reason,
		}}
		obs := fleet.Observation{Began: now, Ended: now, Sources: []string{i.Source}, Instances: []fleet.Instance{i}}
		got := ""
		for _, r := range (judge{nil, &obs, now}).complaints(&i) {
			got += saidOf(r.Text, r.Instance)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

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

// Whoever reads the codes in the schema finds each that keytool has beside those of package
// rotation.
func TestSchemaNamesTheCodes(t *testing.T) {
	schema, err := os.ReadFile(filepath.Join("..", "schema", "common.json"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range sources(t, "*.go") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range regexp.MustCompile(`rotation\.Code\("([a-z_]+)"\)`).FindAllStringSubmatch(string(text), -1) {
			if found++; !regexp.MustCompile(`[ ,.]` + code[1] + `[,.]`).Match(schema) {
				t.Errorf("%s: %s is not there", file, code[1])
			}
		}
	}
	if found < 6 {
		t.Errorf("only %d codes", found)
	}
}
