//go:build race

package local

// raceEnabled: the race detector makes sync.Pool drop what it is given.
const raceEnabled = true
