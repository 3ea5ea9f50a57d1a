package main

import (
	"strings"
	"testing"
)

func TestQuickstartShowsWhatItSays(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{`{"invoice":"A-17","amount":20000}`, "on the wire  v1.", "-32602 Invalid or expired requestState", "reason=seal", "reason=request", "reason=principal", "reason=expired", "finished on"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
