// Package keyset is one document with all the data keys of a fleet, each wrapped by key
// services, and what may be done with them. It holds no plaintext key, so it can sit
// where others read: in a file, a ConfigMap, a repository, an environment variable.
//
//	doc, auth, err := keyset.Init(ctx, services, keyset.InitOptions{Name: "billing", Note: keyset.Note{At: time.Now()}})
//	text, err := auth.Encode(doc)
//	_, err = store.Save(ctx, text, "")
//
// Servers follow it with package keyring. Only tools write it; [Load], a move on
// [Document.Next], [AuthKey.Encode] and [Store.Save] are how.
//
// # Key services
//
// A [KeyService] wraps a data key under a key-encryption key that it never shows. Each
// service is a module of its own (codec/awskms, codec/gcpkms, codec/vault,
// codec/localkek), has an [Opener], and passes the tests of package keysettest.
// [Services] are those that a process is configured with: a stored [WrappedKey] only
// selects one of them, and no other is ever called, whatever is stored.
//
// A key service is called when a data key is made or loaded, never for a token.
//
// # Keys and moves
//
// A key is in one of four states:
//
//	state     seals  unseals
//	staged           yes      it never sealed
//	primary   yes    yes      exactly one
//	retiring         yes      it sealed before
//	revoked                   a tombstone, which explains why a token is refused
//
// A method of [Document] makes each move, and refuses every other with a [*MoveError]
// that names both states:
//
//	Stage     new                → staged
//	Promote   staged             → primary, and primary → retiring
//	Rollback  retiring           → primary, and primary → retiring
//	Drain     retiring           → retiring, with the time from which nobody seals with it
//	Retire    retiring           → gone
//	Abort     staged             → gone
//	Revoke    staged or retiring → revoked
//
// The moves know what a keyset may be, not when it is safe to move on: that every server
// has a key before it seals, and that no token is left under a key that goes. Package
// rotation decides this.
//
// # The tag
//
// The document is authenticated: its tag is an HMAC under the auth key, a wrapped key of
// its own that stays for the keyset's lineage and is never exported. The tag covers all
// members, those too that a reader does not know; [Parse] refuses whatever two readers could
// see differently. The file docs/keyset.md of the repository has the format, with a worked
// example, and keyset.schema.json beside this package is its JSON Schema.
//
// # Stores
//
// A [Source] gives the document; a [Store] also replaces it, by compare-and-swap, so that
// of two writers one is told. [NewFile] is a store, [Bytes], [Env] and [SourceFunc] are
// sources; package codec/vault has a store in Vault's KV version 2, and package
// keyset/etcdstore one in etcd. A store is not trusted to choose keys, and learns none.
//
// # Whom a loader trusts
//
// Its own configuration first: the keyset's name, and the key services. The name is part
// of every encryption context, so that the wrapped keys of another keyset do not open. A
// document is checked before any call of a service but the one that unwraps the auth key,
// and nothing in it is used before its tag is verified. Whoever can write the store can
// at most take it away, or put an old copy there.
//
// Two things no document can protect from. Whoever has read a server's memory has the auth
// key, and if they write the store as well, they can make documents that verify; and an old
// copy of the document still opens keys that were revoked since, for a server that starts
// anew. Both are stopped by disabling the version of the key-encryption key, after
// everything that is still needed was wrapped under another.
package keyset
