// Package keyring is the live ring of a server: a [codec.Codec] whose keys are those of
// a keyset (package keyset), wrapped by key services, and which follows the keyset
// without a restart.
//
//	ring, err := keyring.Open(ctx, keyring.Config{Name: "billing", Source: file, Services: keyset.Services{kms}})
//	defer ring.Close()
//	policy, err := binding.New(ring, binding.Options{Audience: "billing"})
//
// A ring trusts its own configuration first. The keyset's name and the key services are
// configured; a document only selects among those services, and any other that it names
// is never contacted. Whoever can write the document without a key service gets no key
// of theirs into a ring. Whoever has read a server's memory and also writes the document
// is stopped by nothing but disabling the version of the key-encryption key, and the
// same holds for old copies of the document after a key was revoked.
//
// # Following
//
// A ring reads its source every 15 seconds, at once when a source that is a
// [keyset.Watcher] tells of a change, and once when it is shown a token under a key id
// that it does not know. Content decides, and neither file times nor events. What fails
// its checks never replaces what is good: the ring goes on with what it has, says in its
// status why it is degraded, and is healed by the next good revision.
//
// A revision that is good takes keys away at once, whatever else fails. Keys that it
// brings are unwrapped in the background; one that cannot be unwrapped is left out and
// named in the status, and is tried again. A key that was unwrapped once is kept as long
// as the keyset has it, so that key services are not called at all while nothing
// changes. Each wrapping is opened once, so that the status tells before it matters
// which service would fail; one that failed is tried again, after ever longer waits.
//
// # Ready
//
// A ring is ready when it holds every key of its keyset, staged ones included. Once it
// was, it stays ready as long as it holds the primary and all retiring keys, and has read
// its keyset within the keyset's max_stale. Where it reports to a registry, the last
// report that was accepted is younger than that as well. A ring that has not read, or
// was not heard, for so long neither is ready nor seals, by the clock of the host and not
// by a timer, so a process that was stopped wakes up as not ready. Then it starts again:
// it reports, then reads, then is ready. It goes on unsealing all the while.
//
// [Ring.Readiness] answers probes, [Ring.Status] tells everything, and [Ring.Report]
// makes the signed report that package fleet collects, so that a key is promoted only
// when every instance has it:
//
//	mux.Handle("/ready", ring.Readiness())
//	operators.Handle("/report", fleet.Handler(ring.Report)) // never on the public port
//
// # Frozen platforms
//
// Where a process runs only while it answers a request, as functions do, nothing happens
// in the background. Call [Ring.Refresh] first when the last read is too long ago, and
// let the keyset's policy have the proof "settle":
//
//	if ring.Status().Age > time.Minute {
//		err = ring.Refresh(ctx)
//	}
//
// # Limits
//
// A ring stops sealing with a key after 2^32 tokens, the most that random nonces allow
// (NIST SP 800-38D, section 8.3), and warns from 7/8 of that on. The limit holds for all
// processes together, so rotate long before.
package keyring
