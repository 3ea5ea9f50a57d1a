package keyset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// check reports the first thing that a document of the right form must not be. It goes
// for what is read and for what is written, so it leaves alone what is odd and harms
// nobody: a reader that stops is an outage. Stamps may be in any order, since the hosts
// that made them have clocks of their own; several keys may be staged; a peer may hold
// keys that the keyset has no more.
func (d *Document) check() error {
	if err := d.checkHead(); err != nil {
		return err
	}
	if err := checkWrapped(d.Auth.Wrapped); err != nil {
		return fmt.Errorf("auth.%w", err)
	}
	if err := d.checkKeys(); err != nil {
		return err
	}
	if err := d.checkPeers(); err != nil {
		return err
	}
	for i, e := range d.History {
		if err := e.check(); err != nil {
			return fmt.Errorf("history[%d].%w", i, err)
		}
	}
	return nil
}

const maxInt = 1<<53 - 1

// checkHead checks what a keyset has before it has a key.
func (d *Document) checkHead() error {
	switch {
	case !isName(d.Name):
		return errors.New("name: it is not [a-z0-9][a-z0-9._-]{0,62}")
	case !isUUID(d.Lineage):
		return errors.New("lineage: it is not a UUID of version 4 in lower case")
	case d.Revision < 1 || d.Revision > maxInt:
		return errors.New("revision: it is not in [1, 2^53)")
	case !isSpan(d.TTL):
		return errSpan("ttl")
	case !isUUID(d.Auth.ID):
		return errors.New("auth.id: it is not a UUID of version 4 in lower case")
	}
	if err := d.Policy.check(); err != nil {
		return fmt.Errorf("policy.%w", err)
	}
	return nil
}

func (d *Document) checkPeers() error {
	names := make(map[string]bool)
	for i, p := range d.Peers {
		if err := p.check(); err != nil {
			return fmt.Errorf("peers[%d].%w", i, err)
		}
		if names[p.Name] {
			return fmt.Errorf("peers[%d].name: another peer has it", i)
		}
		names[p.Name] = true
	}
	return nil
}

func (d *Document) checkKeys() error {
	ids := map[string]bool{d.Auth.ID: true}
	kids := make(map[string]bool)
	primaries, ceiling := 0, d.ceiling()
	for i, k := range d.Keys {
		if err := k.check(); err != nil {
			return fmt.Errorf("keys[%d].%w", i, err)
		}
		// The key would leave while tokens under it live.
		if k.Unseals() && k.MaxTTL < ceiling {
			return fmt.Errorf("keys[%d].max_ttl: it is less than the ttl of the keyset or of a peer", i)
		}
		if ids[k.ID] {
			return fmt.Errorf("keys[%d].id: another entry has it", i)
		}
		if kids[k.KID] {
			return fmt.Errorf("keys[%d].kid: another key has it", i)
		}
		ids[k.ID], kids[k.KID] = true, true
		if k.State == Primary {
			primaries++
		}
	}
	if primaries != 1 {
		return fmt.Errorf("keys: %d are primary, and exactly one must be", primaries)
	}
	return nil
}

func (k Key) check() error {
	switch {
	case !isUUID(k.ID):
		return errors.New("id: it is not a UUID of version 4 in lower case")
	case !isKID(k.KID):
		return errors.New("kid: it is not 8 lower-case hex digits")
	case !isText(k.Reason):
		return errText("reason")
	case k.Format != "" && !isWord(k.Format):
		return errWord("format")
	}
	if k.State == Revoked {
		switch {
		case len(k.Wrapped) > 0:
			return errors.New("wrapped: a revoked key has none")
		case k.Revoked.IsZero():
			return errors.New("revoked: a revoked key has that time")
		}
		return nil
	}
	switch {
	case k.Format == "":
		return errors.New("format: it is empty")
	case !isSpan(k.MaxTTL):
		return errSpan("max_ttl")
	case k.Created.IsZero():
		return errors.New("created: it is missing")
	case !k.Revoked.IsZero():
		return fmt.Errorf("revoked: a key that is %s has no such time", k.State)
	}
	if err := k.checkTimes(); err != nil {
		return err
	}
	return checkWrapped(k.Wrapped)
}

// checkTimes checks the stamps that the state of a key stands for.
func (k Key) checkTimes() error {
	want := func(name string, t time.Time, there bool) error {
		switch {
		case there && t.IsZero():
			return fmt.Errorf("%s: a key that is %s has that time", name, k.State)
		case !there && !t.IsZero():
			return fmt.Errorf("%s: a key that is %s has no such time", name, k.State)
		}
		return nil
	}
	switch k.State {
	case Staged:
		return cmp.Or(want("staged", k.Staged, true), want("promoted", k.Promoted, false),
			want("demoted", k.Demoted, false), want("drained", k.Drained, false))
	case Primary:
		return cmp.Or(want("promoted", k.Promoted, true), want("demoted", k.Demoted, false),
			want("drained", k.Drained, false))
	case Retiring:
		return cmp.Or(want("promoted", k.Promoted, true), want("demoted", k.Demoted, true))
	default:
		return errors.New("state: it is none of staged, primary, retiring and revoked")
	}
}

func checkWrapped(wrapped []WrappedKey) error {
	if len(wrapped) == 0 {
		return errors.New("wrapped: it is empty, so that nothing could unwrap the key")
	}
	if len(wrapped) > maxTries {
		return fmt.Errorf("wrapped: there are %d, and at most %d are possible", len(wrapped), maxTries)
	}
	for i, w := range wrapped {
		switch {
		case w.Service == "" || !isShown(w.Service, maxService):
			return fmt.Errorf("wrapped[%d].service: it is empty, longer than %d bytes or has a control character", i, maxService)
		case !isShown(w.Version, maxService):
			return fmt.Errorf("wrapped[%d].version: it is longer than %d bytes or has a control character", i, maxService)
		case len(w.Ciphertext) == 0:
			return fmt.Errorf("wrapped[%d].ciphertext: it is empty", i)
		}
	}
	return nil
}

func (p Peer) check() error {
	if !isName(p.Name) {
		return errors.New("name: it is not [a-z0-9][a-z0-9._-]{0,62}")
	}
	if !isSpan(p.TTL) {
		return errSpan("ttl")
	}
	for i, kid := range p.KIDs {
		if !isKID(kid) {
			return fmt.Errorf("kids[%d]: it is not 8 lower-case hex digits", i)
		}
	}
	if !slices.Contains(p.KIDs, p.Primary) {
		return errors.New("primary: it is not one of kids")
	}
	return nil
}

func (e Event) check() error {
	switch {
	case e.At.IsZero():
		return errors.New("at: it is missing")
	case !isWord(e.Action):
		return errWord("action")
	case e.KID != "" && !isKID(e.KID):
		return errors.New("kid: it is not 8 lower-case hex digits")
	case !isText(e.Actor):
		return errText("actor")
	case !isText(e.Reason):
		return errText("reason")
	}
	return nil
}

func errText(member string) error {
	return fmt.Errorf("%s: it is longer than %d bytes or has a control character", member, maxText)
}

func errWord(member string) error {
	return fmt.Errorf("%s: it is empty, longer than %d bytes or has a control character", member, maxWord)
}

func errSpan(member string) error {
	return fmt.Errorf("%s: it is not in [1s, %v]", member, maxDuration)
}

// isSpan reports whether tokens may live, or a key may last, that long.
func isSpan(d time.Duration) bool { return time.Second <= d && d <= maxDuration }

// isText reports whether s may be an actor or a reason.
func isText(s string) bool { return isShown(s, maxText) }

// isWord reports whether s may be an action or a format.
func isWord(s string) bool { return s != "" && isShown(s, maxWord) }

// isShown reports whether s is at most so many bytes of text that can be shown as it is.
func isShown(s string, size int) bool {
	return len(s) <= size && utf8.ValidString(s) && !strings.ContainsFunc(s, isControl)
}

func isName(s string) bool {
	for i, c := range []byte(s) {
		if !isLowerAlnum(c) && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return s != "" && len(s) <= 63
}

func isKID(s string) bool {
	for _, c := range []byte(s) {
		if !isHex(c) {
			return false
		}
	}
	return len(s) == 8
}

func isUUID(s string) bool {
	const form = "xxxxxxxx-xxxx-4xxx-Vxxx-xxxxxxxxxxxx"
	if len(s) != len(form) {
		return false
	}
	for i, c := range []byte(s) {
		switch want := form[i]; want {
		case 'x':
			if !isHex(c) {
				return false
			}
		case 'V':
			if !strings.ContainsRune("89ab", rune(c)) {
				return false
			}
		default:
			if c != want {
				return false
			}
		}
	}
	return true
}

func isHex(c byte) bool        { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }
func isLowerAlnum(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' }
