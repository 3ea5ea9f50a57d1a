// Package binding puts claims around the requestState of an MCP multi round-trip
// request and checks them when it comes back.
//
// A [Policy] says what all tokens of a service have in common: the codec that seals
// them, the audience, how long they live. A [Round] is one round of one request
// under that policy: [Round.Unseal] opens the token that the client gave back,
// [Round.Seal] makes the token for the next round. A token is accepted only
//
//   - by a service of the same audience, with the same key,
//   - within its time to live (10 minutes unless set),
//   - on the same method, tool, prompt or resource,
//   - with the same arguments, compared as values and not as text, and
//   - from the same principal, where one is known.
//
// It is accepted as often as it comes within its time: a sealed token is not
// single-use. A handler whose step must not run twice keeps a mark of its own.
//
// A server on a known SDK takes the middleware for it and never calls this package
// but for [New]. A server on any other reads the request's method, name and raw
// arguments off the wire and calls [Policy.Round] itself.
//
// # Claims
//
// The sealed payload is compact ASCII JSON, the same as the MCP Python SDK's:
//
//	v    1
//	iat  when it was sealed, in seconds since the epoch
//	exp  when it expires, likewise
//	m    tools/call, prompts/get or resources/read
//	t    the tool, the prompt or the resource's URI
//	a    the request digest: base64url of the first 16 bytes of SHA-256 over the canonical arguments
//	s    the state
//	aud  the audience, if there is one
//	p    a salted hash of the principal, if there is one
//
// # Text
//
// JSON can name a lone surrogate (\ud800), which no Go string in UTF-8 can hold.
// In a state, an audience, a target or a principal it is written as its three-byte
// form (WTF-8) and so survives the round trip, as it does in Python.
package binding
