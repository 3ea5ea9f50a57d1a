// Package rotation replaces the key of a fleet while rounds are in flight, and drops
// none: every token inside its TTL is accepted by every ready instance, at every moment.
//
// [Next] is a pure function from a keyset, what was observed of the fleet, and the time,
// to the one [Step] that is safe now. Nothing else is remembered, so whoever was
// interrupted runs it again, and of two who run it at once one wins.
package rotation
