// Package vault is a key service on the Transit secrets engine of Vault and OpenBao, and
// a store of keysets in their KV secrets engine. Either can be used without the other.
//
// The key service wraps data keys under a Transit key, with the encryption context as
// associated data. Servers list the keys that they may unwrap with, and nothing else is ever asked for,
// whatever a keyset says:
//
//	service, err := vault.Open(ctx, "hashivault://orders?mount=transit")
//
// A client of one's own goes into [New]. [Open] says what a URI may hold, and where
// address, namespace, CA and token come from. Stored is hashivault://KEY?mount=M with
// the version of the key, and nothing of how it is reached.
//
// # The key
//
// A symmetric one of a type that takes associated data, such as the default,
// aes256-gcm96; neither exportable nor open to plaintext backup, which is the default,
// too. Vault 1.13 or any OpenBao is needed. With vault in place of bao:
//
//	bao secrets enable transit
//	bao write -f transit/keys/orders
//
// A derived key (derived=true) works as well. Rotating the key (bao write -f
// transit/keys/orders/rotate) needs nothing here; before min_decryption_version is
// raised, wrap anew what is older.
//
// # Permissions
//
// We neither log in nor renew a token: Vault Agent, OpenBao Agent or the owner of the
// client does. A server unwraps, with this policy:
//
//	path "transit/decrypt/orders" { capabilities = ["update"] }
//
// Whoever changes the keyset has these as well. The capability create is in none of
// them, since with it a misspelt name makes a new key:
//
//	path "transit/datakey/plaintext/orders" { capabilities = ["update"] }
//	path "transit/encrypt/orders"           { capabilities = ["update"] }
//	path "transit/keys/orders"              { capabilities = ["read"] }
//
// The last one is for [Service.Wrap] and [Service.Describe]. When a token expires is told
// where it may be looked up, which the policy default allows.
//
// # The store
//
// [Store] keeps a keyset in one field of a secret in a KV engine of version 2, which each
// dev server has at secret:
//
//	store, err := vault.OpenStore(ctx, "hashivault-kv:///echoseal/orders?mount=secret")
//
// Address, namespace, CA and token come from where [Open] takes them. A server reads,
// with the first of these lines; whoever changes the keyset has the second one instead:
//
//	path "secret/data/echoseal/orders" { capabilities = ["read"] }
//	path "secret/data/echoseal/orders" { capabilities = ["read", "create", "update"] }
//
// Nothing else is needed: that the engine is one of version 2 is told by the endpoint
// sys/internal/ui/mounts, to everybody who may use a path in it. An engine of version 1 is
// refused before anything is written, since it heeds no check-and-set.
//
// Whoever may delete, patch or write without cas is not stopped here: set cas_required on
// the secret or the mount, and no delete_version_after. A secret whose newest version
// was deleted is an error that tells how to take it back, for reading and for writing:
// no keyset is begun anew because somebody has deleted the old one. What is deleted in
// the moment between the reading that [Store.Save] begins with and its writing is
// written over, since KV cannot tell; and so is a secret that in this moment is removed
// with its metadata and made anew, if it comes to the same number.
//
// A server with raft storage takes 1 MiB at once, with what JSON and encryption add to
// the document, unless its max_entry_size is raised.
//
// # Errors
//
// Every error of a call of Transit is a [keyset.KeyError], which names key, path and
// remedy and holds the words of the server. By kind:
//
//   - not_found: no such key, no Transit engine at the mount, or no such namespace.
//   - disabled: the key is soft-deleted (OpenBao); restore it.
//   - denied: a policy is missing, or the token is expired, revoked or not there; which
//     of them, and where the token came from, the error says. A token that is replaced
//     in its file, or in the client, is used at once.
//   - throttled: a quota; unavailable: no answer, a fault, a standby or a secondary. Both
//     are tried again, as often and at the pace that the client is set to, as long as the
//     context allows: also 412, and the permanent errors that a server sends as 500.
//   - sealed: unseal the server. It is not tried again.
//   - context_mismatch: another keyset's name, an entry that was moved or edited, or a
//     ciphertext of another key, which Transit cannot tell apart.
//   - wrong_key: the key is not listed or of a type that cannot be used, or the version of
//     the ciphertext is not the one stored, or is not known to the server.
//   - corrupt: what cannot be a ciphertext of Transit.
//   - version_too_old: min_decryption_version is above the version, or that was trimmed.
//     [Service.Describe] warns of it before, from the versions that were unwrapped.
//
// Those of a store are no [keyset.KeyError], but have the same kinds for errors.Is, and
// name the store, the path and a remedy. A failure to get an answer is never
// [keyset.ErrNotExist] or [keyset.ErrConflict].
//
// # Secrets
//
// The vendor's client logs methods and paths at most. Buffers that hold a data key, of
// requests and of answers, are zeroed, except those in which net/http and TLS write. The
// server's certificate is always verified.
package vault
