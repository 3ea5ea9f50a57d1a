//go:build race

package binding

// raceEnabled: the race detector makes sync.Pool drop what it is given.
const raceEnabled = true
