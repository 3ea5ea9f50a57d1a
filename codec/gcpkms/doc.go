// Package gcpkms is a key service on Google Cloud KMS: it wraps data keys under a
// symmetric key, with the encryption context as its additional authenticated data.
//
// Servers list the keys that they may unwrap with, and nothing else is ever called,
// whatever a keyset says:
//
//	service, err := gcpkms.Open(ctx, "gcpkms://projects/acme/locations/europe-west3/keyRings/mcp/cryptoKeys/echoseal")
//
// A client of one's own goes into [New]. [Open] says what a URI may hold, and where
// endpoint and credentials come from. What is stored is the key's name, and beside it
// the number of the version that encrypted. Cloud KMS finds the version by itself, so
// that the number is for people and for error messages.
//
// # The key
//
// A key with the purpose of symmetric encryption, in a location near the servers:
//
//	gcloud kms keyrings create mcp --location=europe-west3
//	gcloud kms keys create echoseal --keyring=mcp --location=europe-west3 --purpose=encryption
//
// Rotating it (--rotation-period, --next-rotation-time) needs nothing here: the new
// primary version wraps from then on, and the older ones unwrap as long as they are
// enabled. Before an old version is destroyed, what it has wrapped has to be wrapped
// anew. Disabling a version may take up to three hours to be seen everywhere.
//
// # Permissions
//
// A server only decrypts:
//
//	gcloud kms keys add-iam-policy-binding echoseal --keyring=mcp --location=europe-west3 \
//	    --member=serviceAccount:SERVER --role=roles/cloudkms.cryptoKeyDecrypter
//
// IAM cannot look at the encryption context. If the servers of one keyset must not
// unwrap the data keys of another, even with a program of their own, each keyset takes
// a key of its own.
//
// Whoever changes the keyset has roles/cloudkms.cryptoKeyEncrypterDecrypter, and
// roles/cloudkms.viewer to see states. By permission:
//
//   - cloudkms.cryptoKeyVersions.useToDecrypt unwraps
//   - cloudkms.cryptoKeyVersions.useToEncrypt wraps
//   - cloudkms.cryptoKeys.get and cloudkms.cryptoKeyVersions.get tell states
//   - cloudkms.cryptoKeyVersions.list tells of versions that are going to be destroyed
//
// # Errors
//
// Every error of a call is a [keyset.KeyError], which names key, operation (by the
// permission that it needs) and remedy, and holds what the client said. By kind:
//
//   - not_found: no such key; the name has a typing error, or another project.
//   - disabled: gcloud kms keys versions enable. Or the key has no primary version.
//   - pending_deletion: gcloud kms keys versions restore, then enable, before the time
//     that gcloud kms keys versions describe prints.
//   - destroyed: the material of the version is gone. Another key service, if the data
//     key was wrapped by one, still has it.
//   - denied: the permission that the operation names is missing, the API is not
//     enabled, or the credentials are missing, wrong or expired. Cloud KMS says the same
//     of a key that does not exist to somebody who may not know.
//   - throttled, unavailable: tried up to 6 times, with jittered backoff, as long as the
//     context allows. If it was the search for credentials that took the time, the
//     error says so.
//   - context_mismatch: Cloud KMS gives one answer, INVALID_ARGUMENT, for an encryption
//     context that does not match, a ciphertext of another key and a damaged one: another
//     keyset's name, or an entry that was moved or edited. It is never repeated.
//   - wrong_key: another key or version answered, the key is not listed, or is not there
//     for encryption.
//   - corrupt: a checksum was wrong or missing, in either direction, twice in a row; or
//     what cannot be a wrapped key by its form.
//
// Which of disabled, pending_deletion and destroyed it is, Cloud KMS tells in the details
// of its answer. If it should not, the state is asked for; without the permission to do
// that the kind is disabled.
//
// # Integrity
//
// Every field goes with its CRC32C. That Cloud KMS has checked what it got, and that what
// came back matches, is required; if not, the call is repeated once, and then refused.
//
// # Secrets
//
// The vendor's client writes requests and responses to a log on demand
// (GOOGLE_SDK_GO_LOGGING_LEVEL=debug), data keys included. Calls made here do not, and
// neither does the search for credentials of [Open]; that of a client which was given to
// [New] follows the client's own logger. The logs of gRPC (GRPC_GO_LOG_VERBOSITY_LEVEL,
// GODEBUG=http2debug=2) hold no payload. What does see payloads is what a program
// installs itself: interceptors and stats handlers, a sink for gRPC's binary log,
// grpc.EnableTracing.
//
// A data key that is refused, or comes too late, is zeroed, and so is the copy that is
// sent. The buffers in which gRPC reads and writes messages are its own; it uses them
// again and does not zero them.
package gcpkms
