// Package mcpgo seals requestState in servers built with github.com/mark3labs/mcp-go.
//
// A handler of a tool or a prompt that needs input first returns its state in the
// RequestState of the result, and finds it in the RequestState of the params when the
// client comes back. The SDK sends that string as it is and believes whatever comes
// back. With the middleware of this package the client holds a sealed token instead,
// and nothing changes for the handler: it writes plain state, and reads plain state that
// this service made, for this very request, from this very user, not long ago. Anything
// else never reaches it.
//
//	s := server.NewMCPServer("billing", "1.0.0", mcpgo.Ephemeral(nil), …) // one process
//
//	ring, err := local.New(secret) // several replicas
//	policy, err := binding.New(ring, binding.Options{Audience: "billing"})
//	s := server.NewMCPServer("billing", "1.0.0", mcpgo.Middleware(policy, nil), …)
//
//	http.Handle("/mcp", mcpgo.Handler(server.NewStreamableHTTPServer(s)))             // HTTP
//	server.NewStdioServer(s).Listen(ctx, os.Stdin, mcpgo.Writer(os.Stdout))           // stdio
//
// Give it as the first option, and make it once, where the program starts. The
// documentation of [Middleware] tells what happens otherwise.
//
// # What the client sees
//
// Whatever the reason, a refused token is answered with the same JSON-RPC error, to
// the byte:
//
//	{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}
//
// The SDK gives a middleware no say in code and data: it makes -32603 without data of
// every error, and keeps the message. [Handler], [Writer] and [Response] put that right
// where the answer leaves. They know it by its message, so an error of a handler with
// the very same one leaves as a refusal, too. Without them the token is refused all the
// same, with
//
//	{"code":-32603,"message":"Invalid or expired requestState"}
//
// What cannot be sealed is answered with {"code":-32603,"message":"Internal error"}.
// Nothing passes unverified or unsealed because something failed.
//
// # Who asks
//
// The SDK verifies no bearer tokens, so a state is bound to a user only if
// Options.Principal tells who it is. Without that function, a request that has an
// Authorization header and a state is denied.
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
// The hooks of the SDK stand outside: they see tokens in place of states.
//
// # What the SDK decides
//
// The handler of a resource returns contents and cannot ask for input; a state that
// comes with resources/read, from a server on another SDK say, is verified and given to
// it. The result of a task has no state, and the handler of a task tool
// (server.MCPServer.AddTaskTool) runs without any middleware: it must not believe
// RequestState. A state without questions is for clients of protocol version
// 2026-07-28; to an older one the SDK answers with an error.
//
// An empty RequestState cannot be told from an absent one: a handler that returns the
// empty string returns no state. A requestState that is not a string is refused by the
// SDK before any middleware runs, with an error of its own. The arguments of a prompt
// reach a middleware as decoded strings, in which every lone surrogate has become
// U+FFFD.
//
// # Arguments
//
// A token fits the arguments that it was made for, compared as values: white space,
// escapes and the order of members do not matter, 1 and 1.0 differ, and fractions are
// binary64 numbers, so that 0.1 and 0.10000000000000000001 are one. They are taken from
// RawArguments, the bytes that the client sent. So that a handler cannot decode something
// else from them than what was bound, a call that carries a state is refused if an
// object in its arguments has two members of one name, or of names that differ in
// letter case only.
//
// Nothing else of the request is bound: neither _meta nor the input responses. What
// must not change between two rounds belongs in the state.
package mcpgo
