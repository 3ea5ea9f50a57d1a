package keyset

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/echoseal/echoseal/internal/strict"
)

// ErrDocument is what every error about the text of a keyset document has in common: it
// is not one, or not one that this version reads.
var ErrDocument = errors.New("not a usable keyset document")

// formatVersion is the version of the document format.
const formatVersion = 1

// Parse reads a document and checks all that can be checked without a key. Nothing in it
// is to be trusted before [AuthKey.Verify].
//
// It refuses a text of more than [MaxBytes], duplicate members, numbers that are not
// integers in [0, 2^53), lone surrogates and trailing data. Members that it does not
// know are ignored, see [Document.HasUnknownMembers]. The error is [ErrDocument]; it
// names the member, and never repeats what stands there.
func Parse(doc []byte) (*Document, error) {
	d, err := parse(doc)
	if err == nil {
		err = d.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDocument, err)
	}
	return d, nil
}

func parse(doc []byte) (*Document, error) {
	if len(doc) > MaxBytes {
		return nil, fmt.Errorf("it is larger than %d bytes", MaxBytes)
	}
	v, err := strict.Parse(doc)
	if err != nil {
		return nil, err
	}
	o := strict.Read(v)
	if version := o.Int("version"); o.Err() == nil && version != formatVersion {
		return nil, fmt.Errorf("version: it is %d, and this program reads %d: use the one that wrote it", version, formatVersion)
	}
	d := &Document{
		Name: o.String("name"), Lineage: o.String("lineage"), Revision: o.Int("revision"),
		TTL: o.Duration("ttl"), Policy: readPolicy(o.Object("policy")), Auth: readAuth(o.Object("auth")),
	}
	for _, k := range o.Objects("keys") {
		d.Keys = append(d.Keys, readKey(k))
	}
	for _, p := range o.Objects("peers?") {
		d.Peers = append(d.Peers, readPeer(p))
	}
	for _, e := range o.Objects("history?") {
		d.History = append(d.History, readEvent(e))
	}
	if d.Tag = o.Bytes("tag"); len(d.Tag) != sha256.Size {
		o.Fail("tag", fmt.Sprintf("it is not %d bytes long", sha256.Size))
	}
	o.Done()
	if err := o.Err(); err != nil {
		return nil, err
	}
	d.read = origin{name: d.Name, lineage: d.Lineage, revision: d.Revision, signed: signedText(v), size: len(doc), unknown: o.Unknown()}
	return d, nil
}

// signedText returns the text that the tag is over: canonical JSON without the tag.
func signedText(v strict.Value) []byte {
	members := v.(map[string]strict.Value)
	delete(members, "tag")
	return strict.Append(nil, members)
}

func readPolicy(o *strict.Object) Policy {
	p := Policy{
		MaxAge: o.Duration("max_age"), Settle: o.Duration("settle"), MaxStale: o.Duration("max_stale"),
		MaxSkew: o.Duration("max_skew"), Proof: Proof(o.String("proof")),
	}
	n := o.Int("min_instances")
	if n > maxInstances {
		o.Fail("min_instances", errInstances)
	}
	p.MinInstances = int(n)
	if o.Has("was") {
		was := o.Object("was")
		p.Was = &FormerPolicy{Settle: was.Duration("settle"), MaxStale: was.Duration("max_stale"), MaxSkew: was.Duration("max_skew"), Until: was.Time("until")}
		was.Done()
	}
	o.Done()
	return p
}

func readAuth(o *strict.Object) AuthEntry {
	defer o.Done()
	return AuthEntry{ID: o.String("id"), Wrapped: readWrapped(o, "wrapped")}
}

func readWrapped(o *strict.Object, name string) (all []WrappedKey) {
	for _, w := range o.Objects(name) {
		all = append(all, WrappedKey{Service: w.String("service"), Version: w.String("version?"), Ciphertext: w.Bytes("ciphertext")})
		w.Done()
	}
	return all
}

func readKey(o *strict.Object) Key {
	defer o.Done()
	k := Key{ID: o.String("id"), KID: o.String("kid"), State: State(o.String("state"))}
	if k.State == Revoked {
		k.Format, k.MaxTTL = readFilled(o, "format"), o.Duration("max_ttl?")
		k.Created, k.Wrapped = o.Time("created?"), readWrapped(o, "wrapped?")
	} else {
		k.Format, k.MaxTTL = o.String("format"), o.Duration("max_ttl")
		k.Created, k.Wrapped = o.Time("created"), readWrapped(o, "wrapped")
	}
	k.Staged, k.Promoted, k.Demoted = o.Time("staged?"), o.Time("promoted?"), o.Time("demoted?")
	k.Drained, k.Revoked, k.Reason = o.Time("drained?"), o.Time("revoked?"), o.String("reason?")
	return k
}

func readPeer(o *strict.Object) Peer {
	defer o.Done()
	return Peer{Name: o.String("name"), KIDs: o.Strings("kids"), Primary: o.String("primary"), Confirmed: o.Bool("confirmed"), TTL: o.Duration("ttl")}
}

func readEvent(o *strict.Object) Event {
	defer o.Done()
	return Event{At: o.Time("at"), Action: o.String("action"), KID: readFilled(o, "kid"), Actor: o.String("actor?"), Reason: o.String("reason?")}
}

// readFilled reads a string that is not empty where it is there.
func readFilled(o *strict.Object, name string) string {
	s := o.String(name + "?")
	if s == "" && o.Has(name) {
		o.Fail(name, "it is empty")
	}
	return s
}
