// Package keyset wraps the data keys from which token keys are made, so that they can
// be stored where others may read: in a file, a ConfigMap, an environment variable.
//
// A [KeyService] wraps a data key under a key-encryption key that it never shows. Each
// service is a module of its own (codec/awskms, codec/gcpkms, codec/vault,
// codec/localkek), has an [Opener], and passes the tests of package keysettest.
// [Services] are those that a process is configured with: a stored [WrappedKey] only
// selects one of them, and no other is ever called, whatever is stored.
//
// A key service is called when a data key is made or loaded, never for a token.
package keyset
