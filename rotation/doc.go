// Package rotation replaces the key of a fleet while rounds are in flight, and drops
// none: every token inside its TTL is accepted by every ready instance, at every moment.
//
// [Next] is a pure function from a keyset, what was observed of the fleet, and the time,
// to the one [Step] that is safe now. Nothing else is remembered, so whoever was
// interrupted runs it again, and of two who run it at once one wins.
//
// # The steps
//
//	stage    add a key that only verifies
//	promote  seal with it: every live instance verifies it, and now ≥ staged + settle + max_skew
//	drain    note that nobody seals with the old one: every live instance seals with another,
//	         and now ≥ demoted + settle + max_skew
//	retire   drop the old one: now ≥ drained + max_ttl + 2 × max_skew
//
// Where the policy has the proof "settle" there are no reports, and promote and drain wait
// max_stale longer.
//
// # Why each wait is there
//
// A report is about the moment at which it was made. An instance that starts later may
// still be given an old revision by the store, for as long as settle, and would lack the
// new key, or seal with the old one: so reports alone are not enough, and neither is time.
// Each comparison with settle adds max_skew, since the stamp and the reading may be of two
// hosts. The last token under a key is sealed before it is drained, and lives at most
// max_ttl by its sealer's clock: one max_skew is for that clock, the other for the clock
// by which it is accepted.
//
// Whoever runs Next reads the clock twice: before the first source is asked, for every
// comparison, and after the last answer, for the stamp. In between the fleet may change,
// and this way every change counts against the rotation.
//
// An instance that is starting verifies nothing yet. It is waited for, and blocks only when
// it has had its time, see [StartsUntil]: a rolling deployment is nothing out of order.
//
// Staging, aborting and rolling back need no proof: a staged key never sealed a token, and
// every ready instance holds all retiring keys. Retiring needs none either. But nothing is
// staged or retired in a document that an instance has left behind, nor retired by a clock
// that is ahead of an instance's, see [Next]. Revoking a key, and [Request] with Force,
// are outside the guarantee.
//
// The tests walk through every world that a model of the fleet can reach, and through it
// again with each of these guards taken out, until a token is lost.
package rotation
