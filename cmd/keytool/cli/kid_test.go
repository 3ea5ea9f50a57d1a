package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

// What has become of a key is told by its mark for as long as that is there, and the history
// says how far back it goes.
func TestWhatHasBecomeOfAKey(t *testing.T) {
	at := time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC)
	d := &keyset.Document{
		Name: "fleet",
		Keys: []keyset.Key{
			{KID: "00000001", State: keyset.Primary, Promoted: at}, {KID: "00000002", State: keyset.Staged},
			{KID: "00000003", State: keyset.Revoked, Revoked: at, Reason: "leaked"},
		},
		History: []keyset.Event{
			{At: at, Action: "retire", KID: "00000004"}, {At: at, Action: "stage", KID: "00000005"}, {At: at.Add(time.Minute), Action: "abort", KID: "00000005"},
			{At: at.Add(time.Hour), Action: "policy"},
		},
	}
	for kid, want := range map[string]string{
		"00000001": "is primary", "00000002": "is staged", "00000003": "was revoked 2026-12-02T03:00:00Z",
		"00000004": "was retired 2026-12-02T03:00:00Z", "00000005": "was aborted 2026-12-02T03:01:00Z", "00000006": "is not primary",
	} {
		if got := whereabouts(d, kid); got != kid+" "+want {
			t.Errorf("%s, want %s", got, want)
		}
		missing := (&opened{doc: d}).had(kid)
		if (missing != nil) != (kid == "00000006") {
			t.Errorf("%s: %v", kid, missing)
		}
		if missing != nil && fmt.Sprint(missing) != "the keyset fleet has no key 00000006, and its history, which goes back to 2026-12-02T03:00:00Z, knows of none; it has 00000001 (primary) and 00000002 (staged)" {
			t.Error(missing)
		}
	}
	d.History = nil
	if err := (&opened{doc: d}).had("00000006"); err == nil {
		t.Error("without a history it had every key")
	}
	if r := (&inspection{doc: d, tag: tagNotChecked}).key("00000003"); !strings.HasPrefix(r.line(), "revoked since 2026-12-02T03:00:00Z: leaked") {
		t.Error(r.line())
	}
}

// A key id is what it is in a token, and nothing near it.
func TestCheckKID(t *testing.T) {
	for kid, ok := range map[string]bool{
		"4c11d0e2": true, "4C11D0E2": false, "4c11d0e": false, "4c11d0e2\n": false, "4c11d0e2 x": false, "": false, "٤c11d0e2": false, "4c11d0e2\xff": false,
	} {
		if err := checkKID(kid); (err == nil) != ok || err != nil && exitOf(err) != usage {
			t.Errorf("%q: %v", kid, err)
		}
	}
}
