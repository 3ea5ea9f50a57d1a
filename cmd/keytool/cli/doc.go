// Package cli is keytool: every command of it, with streams, environment and clock given
// by the caller. Its one function is [Run].
//
// A file holds one command, and what several share is in run.go (flags and dispatch),
// keyset.go (opening what the flags name, saving a change), output.go and exit.go.
package cli
