package keyset

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/echoseal/echoseal/internal/strict"
)

// Encode returns the text of d, indented and with its tag, ready for [Store.Save]; d.Tag
// becomes that tag.
//
// It refuses a document that is not one of this key; [ErrTag], one that was read and does
// not carry the tag of this key; one that has members that this version does not know;
// one that was changed since it was read or written and has no higher revision, see
// [Document.Next], or has another name or lineage; and [ErrDocument], one that [Parse]
// would refuse.
func (k *AuthKey) Encode(d *Document) ([]byte, error) {
	if err := k.mayWrite(d); err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDocument, err)
	}
	w := d.wire()
	w.Tag = make([]byte, sha256.Size)
	draft, err := w.text()
	if err != nil {
		return nil, err
	}
	// What is signed is what a reader will see.
	read, err := Parse(draft)
	if err != nil {
		return nil, err
	}
	if d.Revision == d.read.revision && !bytes.Equal(read.read.signed, d.read.signed) {
		return nil, fmt.Errorf("the keyset %s was changed and still has revision %d: change what Next returns", d.Name, d.Revision)
	}
	w.Tag = k.mac(read.read.signed)
	text, err := w.text()
	if err != nil {
		return nil, err
	}
	d.Tag, d.read = w.Tag, read.read
	return text, nil
}

// mayWrite refuses what must not replace the text that d was read from.
func (k *AuthKey) mayWrite(d *Document) error {
	read := d.read
	switch {
	case d.Auth.ID != k.id:
		return fmt.Errorf("the keyset %s has the auth key %s, not %s", d.Name, d.Auth.ID, k.id)
	case read.signed == nil:
		return nil
	case k.Verify(d) != nil:
		return ErrTag
	case read.unknown:
		return fmt.Errorf("the keyset %s has members that this version does not know and would lose: use the version that wrote them", d.Name)
	case d.Name != read.name || d.Lineage != read.lineage:
		return fmt.Errorf("the keyset %s was read as %s: the name and the lineage of a keyset never change", d.Name, read.name)
	case d.Revision < read.revision:
		return fmt.Errorf("the keyset %s has revision %d and was read at %d: a revision only grows", d.Name, d.Revision, read.revision)
	}
	return nil
}

// The wire types have the members of the text in the order in which they are written.
type (
	wireDocument struct {
		Version  int         `json:"version"`
		Name     string      `json:"name"`
		Lineage  string      `json:"lineage"`
		Revision int64       `json:"revision"`
		TTL      duration    `json:"ttl"`
		Policy   wirePolicy  `json:"policy"`
		Auth     wireAuth    `json:"auth"`
		Keys     []wireKey   `json:"keys"`
		Peers    []wirePeer  `json:"peers,omitempty"`
		History  []wireEvent `json:"history"`
		Tag      []byte      `json:"tag"`
	}
	wirePolicy struct {
		MaxAge       duration    `json:"max_age"`
		Settle       duration    `json:"settle"`
		MaxStale     duration    `json:"max_stale"`
		MaxSkew      duration    `json:"max_skew"`
		MinInstances int         `json:"min_instances"`
		Proof        Proof       `json:"proof"`
		Was          *wireFormer `json:"was,omitempty"`
	}
	wireFormer struct {
		Settle   duration `json:"settle"`
		MaxStale duration `json:"max_stale"`
		MaxSkew  duration `json:"max_skew"`
		Until    stamp    `json:"until"`
	}
	wireAuth struct {
		ID      string       `json:"id"`
		Wrapped []WrappedKey `json:"wrapped"`
	}
	wireKey struct {
		ID       string       `json:"id"`
		KID      string       `json:"kid"`
		Format   string       `json:"format,omitempty"`
		State    State        `json:"state"`
		MaxTTL   duration     `json:"max_ttl,omitzero"`
		Created  stamp        `json:"created,omitzero"`
		Staged   stamp        `json:"staged,omitzero"`
		Promoted stamp        `json:"promoted,omitzero"`
		Demoted  stamp        `json:"demoted,omitzero"`
		Drained  stamp        `json:"drained,omitzero"`
		Revoked  stamp        `json:"revoked,omitzero"`
		Reason   string       `json:"reason,omitempty"`
		Wrapped  []WrappedKey `json:"wrapped,omitempty"`
	}
	wirePeer struct {
		Name      string   `json:"name"`
		KIDs      []string `json:"kids"`
		Primary   string   `json:"primary"`
		Confirmed bool     `json:"confirmed"`
		TTL       duration `json:"ttl"`
	}
	wireEvent struct {
		At     stamp  `json:"at"`
		Action string `json:"action"`
		KID    string `json:"kid,omitempty"`
		Actor  string `json:"actor,omitempty"`
		Reason string `json:"reason,omitempty"`
	}
)

type duration time.Duration

// MarshalText writes a duration as time.Duration.String does.
func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

type stamp time.Time

// IsZero reports whether there is no such time, which omits the member.
func (t stamp) IsZero() bool { return time.Time(t).IsZero() }

// MarshalText writes a time as strict.FormatTime does.
func (t stamp) MarshalText() ([]byte, error) { return []byte(strict.FormatTime(time.Time(t))), nil }

func (w *wireDocument) text() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(w); err != nil {
		return nil, fmt.Errorf("writing the keyset %s: %w", w.Name, err)
	}
	return b.Bytes(), nil
}

func (d *Document) wire() *wireDocument {
	p := d.Policy
	w := &wireDocument{
		Version: formatVersion, Name: d.Name, Lineage: d.Lineage, Revision: d.Revision, TTL: duration(d.TTL),
		Policy: wirePolicy{
			MaxAge: duration(p.MaxAge), Settle: duration(p.Settle), MaxStale: duration(p.MaxStale),
			MaxSkew: duration(p.MaxSkew), MinInstances: p.MinInstances, Proof: p.Proof,
		},
		Auth: wireAuth(d.Auth),
		Keys: []wireKey{}, History: []wireEvent{},
	}
	if was := p.Was; was != nil {
		w.Policy.Was = &wireFormer{Settle: duration(was.Settle), MaxStale: duration(was.MaxStale), MaxSkew: duration(was.MaxSkew), Until: stamp(was.Until)}
	}
	for _, k := range d.Keys {
		w.Keys = append(w.Keys, wireKey{
			ID: k.ID, KID: k.KID, Format: k.Format, State: k.State, MaxTTL: duration(k.MaxTTL),
			Created: stamp(k.Created), Staged: stamp(k.Staged), Promoted: stamp(k.Promoted), Demoted: stamp(k.Demoted),
			Drained: stamp(k.Drained), Revoked: stamp(k.Revoked), Reason: k.Reason, Wrapped: k.Wrapped,
		})
	}
	for _, p := range d.Peers {
		w.Peers = append(w.Peers, wirePeer{p.Name, p.KIDs, p.Primary, p.Confirmed, duration(p.TTL)})
	}
	for _, e := range d.History {
		w.History = append(w.History, wireEvent{stamp(e.At), e.Action, e.KID, e.Actor, e.Reason})
	}
	return w
}
