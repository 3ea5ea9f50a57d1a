package main

import (
	"os"
	"strings"
	"testing"
)

// The test binary is one of the servers, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serverRole {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestRotationLosesNoRound(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"promoted", "rounds refused    0", "key now"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
