// Package gosdk seals requestState in servers built with
// github.com/modelcontextprotocol/go-sdk.
//
// A handler of tools/call, prompts/get or resources/read that needs input first
// returns its state in the RequestState of the result, and finds it in the
// RequestState of the params when the client comes back. The SDK sends that string
// as it is and believes whatever comes back. With the middleware of this package the
// client holds a sealed token instead, and nothing changes for the handler: it writes
// plain state, and reads plain state that this service made, for this very request,
// from this very user, not long ago. Anything else never reaches it.
//
//	server.AddReceivingMiddleware(gosdk.Ephemeral(nil)) // one process
//
//	ring, err := local.New(secret) // several replicas
//	policy, err := binding.New(ring, binding.Options{Audience: "billing"})
//	server.AddReceivingMiddleware(gosdk.Middleware(policy, nil))
//
// # Where it goes
//
// Add it to a server's receiving side, in the last call of AddReceivingMiddleware, and
// make it once, where the program starts. The documentation of [Middleware] tells
// what happens otherwise.
//
// # What the client sees
//
// Whatever the reason, a refused token is answered with the same JSON-RPC error, to
// the byte:
//
//	{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}
//
// What cannot be sealed is answered with {"code":-32603,"message":"Internal error"}.
// Nothing passes unverified or unsealed because something failed.
//
// # What the log says
//
// The reason is in the log only. A refused token gives one record at level Warn,
// "requestState refused", with the attributes reason, method, kid and token_id of
// [binding.Refusal.Attrs]; hint, where the reason alone may mislead; and error for
// the reasons codec_error and principal_error. A request that failed for a fault of
// the server gives one at level Error, "requestState internal error", with method and
// error. No record holds a token, a state or a principal; but the text of an error of
// your own codec or principal function is logged as it is, so it must name nobody.
//
// # What the SDK decides
//
// An empty RequestState cannot be told from an absent one: a handler that returns the
// empty string returns no state. A requestState that is not a string is refused by
// the SDK before any middleware runs, with an error of its own. The arguments of a
// prompt reach a middleware as decoded strings, in which every lone surrogate has
// become U+FFFD.
//
// # Arguments
//
// A token fits the arguments that it was made for, compared as values: white space,
// escapes and the order of members do not matter, 1 and 1.0 differ, and fractions
// are binary64 numbers, so that 0.1 and 0.10000000000000000001 are one. The handler of a
// tool added with [mcp.Server.AddTool] gets the raw bytes and decodes them as it likes.
// So that it cannot see something else than what was bound, a call that carries a
// state is refused if an object in its arguments has two members of one name, or of
// names that differ in letter case only. Decode amounts that must be exact from
// integers or text.
//
// Nothing else of the request is bound: neither _meta nor the input responses. What
// must not change between two rounds belongs in the state.
package gosdk
