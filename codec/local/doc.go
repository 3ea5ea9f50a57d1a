// Package local is the [codec.Codec] whose keys are in this process: a ring of
// secrets, AES-256-GCM, token format v1.
//
//	token = "v1." + base64url( kid(4) ‖ nonce(12) ‖ ciphertext ‖ tag(16) )   without padding
//	key   = HKDF-SHA256(secret, no salt, info "mcp/request-state/v1/aes-256-gcm", 32 bytes)   RFC 5869
//	kid   = SHA-256("mcp/request-state/v1/kid:" ‖ key)[:4]
//	AAD   = "v1." ‖ kid
//
// The cipher is AES-256-GCM with a random 96-bit nonce (NIST SP 800-38D, section
// 8.2.2), which is safe for 2^32 seals under one key. The first key of a ring
// seals; every key unseals, found by its key id and never by trial.
//
// The format is that of the MCP Python SDK, byte for byte: a Go and a Python
// server with one secret accept each other's tokens. The Ruby and TypeScript SDKs
// also write "v1." and mean something else.
//
// To change a secret without refusing a token in flight, roll out each step to
// every replica before the next: New(old, new), then New(new, old), then, once the
// last token under old has expired, New(new).
package local
