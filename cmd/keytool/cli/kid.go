package cli

import (
	"regexp"
	"slices"

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
	return usagef("the keyset %s has no key %s, and its history knows of none; it has %s", d.Name, kid, list(kids))
}

// whereabouts says what has become of a key.
func whereabouts(d *keyset.Document, kid string) string {
	if k := d.Key(kid); k != nil && k.State != keyset.Revoked {
		return kid + " is " + string(k.State)
	}
	words := map[string]string{"retire": "retired", "abort": "aborted", "revoke": "revoked"}
	for _, e := range slices.Backward(d.History) {
		if e.KID == kid && words[e.Action] != "" {
			return kid + " was " + words[e.Action] + " " + formatTime(e.At)
		}
	}
	return kid + " is not primary"
}
