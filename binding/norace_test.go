//go:build !race

package binding

const raceEnabled = false
