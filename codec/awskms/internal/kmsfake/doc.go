// Package kmsfake is a small AWS KMS for tests: the real wire protocol (AWS JSON 1.1)
// over HTTP, with key states, aliases, multi-Region keys, permissions by operation and
// key, the real error codes and messages, and faults on demand.
//
// It is there for what no other peer gets right: a ciphertext belongs to one key and
// one encryption context, an encryption context matches exactly or not at all, and a
// key in a wrong state does nothing. It does not check signatures: a caller is who its
// access key says.
//
// The contract test of this package runs against the real service too, see there.
package kmsfake
