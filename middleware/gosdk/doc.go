// Package gosdk seals requestState in servers built with
// github.com/modelcontextprotocol/go-sdk.
package gosdk
