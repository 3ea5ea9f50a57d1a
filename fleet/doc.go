// Package fleet lets the instances of a server prove which keys they hold, so that a
// rotation moves on only when every one of them is ready for it.
//
// An instance makes a [Report] of its ring, with no secret in it, and signs it with a
// [Key] that is derived from the keyset's authentication key. It serves the report at
// an address of its own ([Handler]), or pushes it to a [Registry] ([Publisher]). Whoever
// rotates asks the [Source] of each, a URI:
//
//	http://HOST:PORT/PATH      one instance, not a balancer
//	dns+http://NAME:PORT/PATH  every address of the name
//	etcd://…                   a registry, package keyset/etcdstore
//
// [Collect] asks them all and gives an [Observation]: reports that are proven to come
// from a holder of the key, and what else was found. It decides nothing. What blocks a
// rotation is decided by package rotation, on the terms that are defined here:
//
//   - A report is fresh for three of the instance's own intervals: [Report.FreshUntil].
//   - Live is every listed address, and every report in a registry that is not marked
//     stopped: [Instance.Live].
//   - A report in a registry lapses max_stale, twice max_skew and three intervals after
//     the last one was accepted, and never while max_stale is 0: [Keep] and
//     [Instance.Lapses]. A listed address never lapses.
//   - One process that is found twice counts once. One id with two starting times is two
//     processes that cannot be told apart: [Observation.Clashes].
package fleet
