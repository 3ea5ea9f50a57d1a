// Bench measures what sealing and unsealing cost, beside the least that anybody could do
// and beside peers, and prints one table.
//
//	go run ./bench                               # the table; make bench
//	go run ./bench -spread                       # cores, rings, swaps, FIPS, a server's round; make bench-spread
//	go run ./bench -write docs/performance.md    # both, into the page; make bench-page
//	go test -bench . ./bench                     # each of the table's cells by itself
//
// # The floor
//
// All figures are multiples of the floor: what nobody who seals with AES-256-GCM could leave out.
// To seal, 12 random bytes, the cipher with a ready AEAD over a payload of exactly the
// length that Echoseal's has, one base64url conversion by the standard library into a ready
// buffer, and one SHA-256 over the raw arguments; to unseal, the inverse. It makes no
// claims and allocates nothing.
//
// # The method
//
// The speed of a shared machine drifts, so loops that run one after the other disagree
// with themselves. Batches of floor and subject take turns; a ratio is the time of a batch
// over the mean of the two floors around it, and a figure the median of at least 300.
// Each is measured twice, in two passes over the whole table.
package main
