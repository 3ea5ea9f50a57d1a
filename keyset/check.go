package keyset

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// check reports the first thing that a document of the right form must not be.
func (d *Document) check() error {
	switch {
	case !isName(d.Name):
		return errors.New("name: it is not [a-z0-9][a-z0-9._-]{0,62}")
	case !isUUID(d.Lineage):
		return errors.New("lineage: it is not a UUID of version 4 in lower case")
	case d.Revision < 1 || d.Revision > maxInt:
		return errors.New("revision: it is not in [1, 2^53)")
	case d.TTL < time.Second:
		return errors.New("ttl: it is less than 1s")
	case !isUUID(d.Auth.ID):
		return errors.New("auth.id: it is not a UUID of version 4 in lower case")
	}
	if err := d.Policy.check(); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	if err := checkWrapped(d.Auth.Wrapped); err != nil {
		return fmt.Errorf("auth.%w", err)
	}
	if err := d.checkKeys(); err != nil {
		return err
	}
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
	for i, e := range d.History {
		if err := e.check(); err != nil {
			return fmt.Errorf("history[%d].%w", i, err)
		}
	}
	return nil
}

const maxInt = 1<<53 - 1

func (d *Document) checkKeys() error {
	ids := map[string]bool{d.Auth.ID: true}
	kids := make(map[string]bool)
	primaries := 0
	for i, k := range d.Keys {
		if err := k.check(); err != nil {
			return fmt.Errorf("keys[%d].%w", i, err)
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
	case k.Format == "" || len(k.Format) > 32 || !isText(k.Format):
		return errors.New("format: it is missing or longer than 32 bytes")
	case k.MaxTTL < time.Second:
		return errors.New("max_ttl: it is less than 1s")
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
		return errors.Join(want("staged", k.Staged, true), want("promoted", k.Promoted, false),
			want("demoted", k.Demoted, false), want("drained", k.Drained, false))
	case Primary:
		return errors.Join(want("promoted", k.Promoted, true), want("demoted", k.Demoted, false),
			want("drained", k.Drained, false))
	case Retiring:
		return errors.Join(want("promoted", k.Promoted, true), want("demoted", k.Demoted, true))
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
		case w.Service == "":
			return fmt.Errorf("wrapped[%d].service: it is empty", i)
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
	if p.TTL <= 0 {
		return errors.New("ttl: it is not positive")
	}
	primary := false
	for _, kid := range p.KIDs {
		if !isKID(kid) {
			return errors.New("kids: one is not 8 lower-case hex digits")
		}
		primary = primary || kid == p.Primary
	}
	if !primary {
		return errors.New("primary: it is not one of kids")
	}
	return nil
}

func (e Event) check() error {
	switch {
	case e.At.IsZero():
		return errors.New("at: it is missing")
	case e.Action == "" || len(e.Action) > 32 || !isText(e.Action):
		return errors.New("action: it is missing or longer than 32 bytes")
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

// isText reports whether s may be an actor or a reason, or anything else that is shown.
func isText(s string) bool {
	return len(s) <= maxText && utf8.ValidString(s) && !strings.ContainsFunc(s, isControl)
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
