// Package kmsfake is a small Cloud KMS for tests: the vendor's own gRPC service
// definition, with keys, versions and their states, permissions, checksums of every
// field in both directions, the routing header, the real error codes, messages and
// details, and faults on demand.
//
// It is there since no emulator that can be had does that. It does not check access
// tokens; it keeps what it was shown.
//
// The contract test of this package runs against the real service too, see there.
package kmsfake
