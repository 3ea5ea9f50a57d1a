// Package echoseal is the landing page of a module set that seals the requestState
// of MCP multi round-trip requests; it holds no code.
//
// Since protocol revision 2026-07-28 an MCP server may answer tools/call,
// prompts/get or resources/read with "I need input first" and a string,
// requestState, that the client gives back with the input. The client can read
// that string, change it, keep it, or give it back with another request: it
// returns as attacker-controlled input. Echoseal encrypts it, lets it expire, and
// binds it to the service, the user and the request that it was made for.
//
// Start with the middleware for your SDK:
//
//	server.AddReceivingMiddleware(gosdk.Ephemeral(nil)) // one process
//
// or, for several replicas that share a secret:
//
//	ring, err := local.New(secret)
//	policy, err := binding.New(ring, binding.Options{Audience: "billing"})
//	server.AddReceivingMiddleware(gosdk.Middleware(policy, nil))
//
// The packages, from the outside in:
//
//   - middleware/gosdk (a module of its own) for github.com/modelcontextprotocol/go-sdk
//   - middleware/mcpgo (a module of its own) for github.com/mark3labs/mcp-go
//   - binding: the claims around a state, for servers on any SDK
//   - codec: what seals bytes into a token; codec/local with keys in memory
//   - codec/codectest: the test suite for a codec of your own
//   - keyring: the live ring of a server: it follows a keyset, without a restart
//   - keyset: the keys of a fleet in one document, each wrapped by key services: codec/awskms,
//     codec/gcpkms, codec/vault and codec/localkek (modules of their own); its stores, two of
//     them in codec/vault and keyset/etcdstore
//   - fleet: what the instances of a server report; rotation: the next safe step of a
//     rotation; cmd/keytool (a module of its own): the operator's tool on top of both
//   - keyset/keysettest, fleet/fleettest: the test suites for key services, stores and
//     registries of your own
//
// Tokens are compatible with the MCP Python SDK: servers in both languages that
// share a secret accept each other's.
package echoseal
