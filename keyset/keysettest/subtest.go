package keysettest

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"
)

type subtest struct {
	run   func(*testing.T)
	needs string // the fields that are missing, if any
}

// runSubtests runs those that are not left out.
func runSubtests(t *testing.T, without map[string]string, tests map[string]subtest) {
	for name := range without {
		if _, ok := tests[name]; !ok {
			t.Errorf("Without: there is no subtest %q", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) {
			test := tests[name]
			if why := without[name]; why != "" {
				t.Log("left out: " + why)
				return
			}
			if test.needs != "" {
				t.Fatalf("the harness lacks %s: set it, or say in Without why it cannot be", test.needs)
			}
			test.run(t)
		})
	}
}

func missing(is bool, fields string) string {
	if is {
		return fields
	}
	return ""
}

// patience bounds what should take no time at all.
const patience = 30 * time.Second

// within returns a context for a call that should succeed.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
