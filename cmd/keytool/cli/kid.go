package cli

import (
	"regexp"
	"slices"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

var kidPattern = regexp.MustCompile(`^[0-9a-f]{8}$`)

func checkKID(kid string) error {
	if !kidPattern.MatchString(kid) {
		return usagef("a key id is 8 hex digits in lower case, as keytool status shows them, not %s", shown(kid))
	}
	return nil
}

// had is the error of a key id that the keyset neither has nor, as far as its history goes,
// had: whoever mistypes one must not be told that the key is gone.
func (o *opened) had(kid string) error {
	d := o.doc
	if kid == "" || d.Key(kid) != nil || slices.ContainsFunc(d.History, func(e keyset.Event) bool { return e.KID == kid }) {
		return nil
	}
	var kids []string
	for _, k := range d.Keys {
		if k.Unseals() {
			kids = append(kids, k.KID+" ("+string(k.State)+")")
		}
	}
	history := "its history"
	if h := d.History; len(h) > 0 && h[0].Action != "init" {
		history += ", which goes back to " + formatTime(h[0].At) + ","
	}
	return usagef("the keyset %s has no key %s, and %s knows of none; it has %s", d.Name, kid, history, list(kids))
}

// whereabouts says what has become of a key.
func whereabouts(d *keyset.Document, kid string) string {
	if k := d.Key(kid); k != nil && k.Unseals() {
		return kid + " is " + string(k.State)
	}
	if f := fateOf(d, kid); f.name != "" {
		return kid + " was " + f.name + " " + formatTime(f.at)
	}
	return kid + " is not primary"
}

// A fate is how the life of a key has ended; its name is "" if that is not known.
type fate struct {
	name   string
	at     time.Time
	reason string
}

// fateOf tells it by the mark that a revoked key leaves, which is kept longer than the line
// of the history, or by the history.
func fateOf(d *keyset.Document, kid string) fate {
	if k := d.Key(kid); k != nil && k.State == keyset.Revoked {
		return fate{string(k.State), k.Revoked, k.Reason}
	}
	names := map[string]string{"retire": "retired", "abort": "aborted", "revoke": "revoked"}
	for _, e := range slices.Backward(d.History) {
		if e.KID == kid && names[e.Action] != "" {
			return fate{names[e.Action], e.At, e.Reason}
		}
	}
	return fate{}
}
