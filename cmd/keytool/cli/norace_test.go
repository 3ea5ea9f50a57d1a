//go:build !race

package cli_test

const isRace = false
