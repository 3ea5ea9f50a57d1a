package main

import (
	"strings"
	"testing"
)

func TestQuickstartShowsWhatItSays(t *testing.T) {
	says := []string{`{"invoice":"A-17","amount":20000}`, "on the wire  v1.", "-32602 Invalid or expired requestState", "reason=seal", "reason=request", "reason=principal", "reason=expired", "finished on"}
	for name, more := range map[string][]string{
		"secret": {"with the same secret"},
		"keyset": {"with the same keyset", "both servers accept it after", "both servers seal with it after", "a round that began with key"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := run(t.Context(), &out, name == "keyset"); err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			for _, want := range append(more, says...) {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in\n%s", want, out.String())
				}
			}
		})
	}
}
