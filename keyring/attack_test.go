package keyring

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/internal/strict"
	"github.com/echoseal/echoseal/keyset"
)

// An attacker can write the store, and has data keys that were retired or exported, with
// their wrappings: everything but a key service and the auth key.
type attacker struct {
	w       *world
	secret  []byte         // of a data key that was retired
	retired keyset.Key     // as it stood in the keyset
	old     []byte         // the document from when it was the primary
	own     *counting      // a key service of the attacker's own
	auth    []byte         // an auth key of the attacker's own
	wrapped []strict.Value // and that wrapped by the own service
	evil    *local.Ring    // with what the attacker seals
}

func newAttacker(t *testing.T) *attacker {
	w := newWorld(t)
	a := &attacker{w: w, retired: *w.doc.Primary(), old: w.encode(w.doc), own: newKEK("evil"), auth: []byte("32 bytes that the attacker knows")}
	services := keyset.Services{w.kek}
	secret, err := services.OpenSecret(t.Context(), "billing", a.retired)
	if err != nil {
		t.Fatal(err)
	}
	a.secret = secret
	if a.evil, err = local.New(secret); err != nil {
		t.Fatal(err)
	}
	w.promote(w.stage())
	w.retire(a.retired.KID)
	wrapped, err := a.own.Wrap(t.Context(), a.auth, keyset.EncryptionContext("billing", w.doc.Auth.ID, keyset.Auth))
	if err != nil {
		t.Fatal(err)
	}
	a.wrapped = wrappedBy(wrapped)
	return a
}

// good is the document that the attacker begins with.
func (a *attacker) good() []byte { return a.w.encode(a.w.doc) }

// withKey returns a change that brings the retired key back in, as a key that unseals.
func (a *attacker) withKey(doc object) {
	doc["revision"] = a.w.doc.Revision + 1
	key := entryOf(parse(a.w.t, a.old), a.retired.KID)
	key["state"] = "staged"
	delete(key, "promoted")
	doc["keys"] = append(doc["keys"].([]strict.Value), key)
}

// withAuth returns a change that makes an auth key of the attacker's the keyset's, too.
func (a *attacker) withAuth(wrapped ...strict.Value) func(object) {
	return func(doc object) {
		a.withKey(doc)
		doc["auth"].(object)["wrapped"] = wrapped
	}
}

// Each way in, tried against a running ring and a fresh start: neither ever accepts
// what the attacker seals, and no service is called but the configured ones.
func TestAttackers(t *testing.T) {
	for name, forge := range map[string]func(*attacker) []byte{
		"a key is added, the tag kept": func(a *attacker) []byte { return edited(a.w.t, a.good(), a.withKey) },
		"re-tagged under another auth key": func(a *attacker) []byte {
			return tagged(a.w.t, a.good(), a.auth, a.withKey)
		},
		"re-tagged under the retired data key": func(a *attacker) []byte {
			return tagged(a.w.t, a.good(), a.secret, a.withKey)
		},
		"auth wrapped by a service of their own": func(a *attacker) []byte {
			return tagged(a.w.t, a.good(), a.auth, a.withAuth(a.wrapped...))
		},
		"auth wrapped by a service of their own, called by ours": func(a *attacker) []byte {
			mine := a.wrapped[0].(object)
			return tagged(a.w.t, a.good(), a.auth, a.withAuth(object{"service": "memkek://a", "ciphertext": mine["ciphertext"]}))
		},
		"auth is the retired data key": func(a *attacker) []byte {
			return tagged(a.w.t, a.good(), a.secret, a.withAuth(wrappedBy(a.retired.Wrapped...)...))
		},
		"auth is the retired data key, with its id": func(a *attacker) []byte {
			return tagged(a.w.t, a.good(), a.secret, func(doc object) {
				a.withAuth(wrappedBy(a.retired.Wrapped...)...)(doc)
				doc["auth"].(object)["id"] = a.retired.ID
				doc["keys"] = doc["keys"].([]strict.Value)[:1] // no two entries with one id
			})
		},
		"wrapped entries are swapped": func(a *attacker) []byte {
			return edited(a.w.t, a.good(), func(doc object) {
				doc["revision"] = a.w.doc.Revision + 1
				entryOf(doc, a.w.doc.Primary().KID)["wrapped"] = wrappedBy(a.retired.Wrapped...)
			})
		},
		"a service that is not configured": func(a *attacker) []byte {
			return edited(a.w.t, a.good(), func(doc object) {
				doc["auth"].(object)["wrapped"] = a.wrapped
				entryOf(doc, a.w.doc.Primary().KID)["wrapped"] = a.wrapped
			})
		},
		"rollback": func(a *attacker) []byte { return a.old },
		"rollback, renumbered": func(a *attacker) []byte {
			return edited(a.w.t, a.old, func(doc object) { doc["revision"] = a.w.doc.Revision + 1 })
		},
		"a life of tokens without end": func(a *attacker) []byte {
			return edited(a.w.t, a.good(), func(doc object) { doc["ttl"] = "87600h0m0s" })
		},
		"a tombstone is taken away": func(a *attacker) []byte {
			a.w.promote(a.w.stage())
			a.w.revoke(a.w.doc.Keys[0].KID)
			return edited(a.w.t, a.good(), func(doc object) { doc["keys"] = doc["keys"].([]strict.Value)[1:] })
		},
		"keyset of another name, by the same service": func(a *attacker) []byte {
			s := keyset.Services{a.w.kek} // of another team, say, that may use the same key service
			doc, auth, err := keyset.Init(a.w.t.Context(), s, keyset.InitOptions{Name: "theirs", Secrets: [][]byte{a.secret}, Note: a.w.note()})
			if err != nil {
				a.w.t.Fatal(err)
			}
			text, err := auth.Encode(doc)
			if err != nil {
				a.w.t.Fatal(err)
			}
			secret, err := s.OpenAuth(a.w.t.Context(), doc)
			if err != nil {
				a.w.t.Fatal(err)
			}
			return tagged(a.w.t, text, secret, func(doc object) { doc["name"] = "billing" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttacker(t)
			text := forge(a)
			a.w.save() // what is good stands there while the ring starts
			running := a.w.open()
			sealing := running.Status().Sealing
			forged, err := a.evil.Seal([]byte("payload"))
			if err != nil {
				t.Fatal(err)
			}
			if opens(t, running, forged) {
				t.Fatal("the retired key is accepted from the start")
			}
			a.w.store.put(text)
			calls := a.w.kek.calls.Load()
			if err := running.Refresh(t.Context()); err == nil {
				t.Error("a running ring took it")
			}
			if n := a.w.kek.calls.Load() - calls; n != 0 {
				t.Errorf("a running ring called a key service %d times", n)
			}
			if s := running.Status(); s.Sealing != sealing || s.Degraded == "" || s.Ceiling != a.w.doc.TTL || !s.Ready() {
				t.Errorf("%+v", s)
			}
			fresh := []*Ring{running}
			config := a.w.config()
			config.MinRevision = a.w.doc.Revision // what tells an old copy from a new one
			if r, err := Open(t.Context(), config); err == nil {
				t.Error("a fresh start took it")
				fresh = append(fresh, r)
				t.Cleanup(func() { _ = r.Close() })
			}
			for _, r := range fresh {
				if opens(t, r, forged) {
					t.Error("what the attacker sealed is accepted")
				}
			}
			if n := a.own.calls.Load(); n != 0 {
				t.Errorf("the attacker's service was called %d times", n)
			}
		})
	}
}

// Even whoever has the auth key, which a server has in memory, cannot move a wrapping to
// another entry: the encryption context holds it there.
func TestWrappingsStayAtTheirEntry(t *testing.T) {
	w := newWorld(t)
	r := w.open()
	kid := w.stage()
	first := w.doc.Primary()
	swap := w.retagged(func(doc object) {
		a, b := entryOf(doc, first.KID), entryOf(doc, kid)
		a["wrapped"], b["wrapped"] = b["wrapped"], a["wrapped"]
	})
	w.store.put(swap)
	_ = r.Refresh(t.Context())
	if k := keyOf(r, kid); k.Held || k.LeftOut == "" {
		t.Errorf("the staged key: %+v", k)
	}
	if _, err := Open(t.Context(), w.config()); err == nil {
		t.Error("a fresh start took it")
	}
	if !opens(t, r, seal(t, r)) {
		t.Error("the ring does not seal any more")
	}
}

// A data key under the id and key id of another, rightly wrapped and tagged, is not the
// one that tokens were sealed with: it is left out.
func TestDataKeyOfAnotherKeyID(t *testing.T) {
	w := newWorld(t)
	r := w.open()
	kid := w.stage()
	k := *w.doc.Key(kid)
	wrapped, err := w.kek.Wrap(t.Context(), bytes.Repeat([]byte{7}, 32), keyset.EncryptionContext("billing", k.ID, keyset.Data))
	if err != nil {
		t.Fatal(err)
	}
	w.store.put(w.retagged(func(doc object) {
		entryOf(doc, kid)["wrapped"] = []strict.Value{object{"service": wrapped.Service, "ciphertext": base64.StdEncoding.EncodeToString(wrapped.Ciphertext)}}
	}))
	_ = r.Refresh(t.Context())
	if k := keyOf(r, kid); k.Held {
		t.Errorf("%+v", k)
	} else {
		contains(t, "left out", k.LeftOut, "corrupt")
	}
}
