//go:build race

package cli_test

// isRace: the race detector allocates for itself, and empties what is kept for reuse.
const isRace = true
