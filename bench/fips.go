package main

import (
	"context"
	"crypto/fips140"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// fips compares the mode with its absence. A process has one of the two for life, so
// processes of this program take turns.
func fips(ctx context.Context, what string) ([]float64, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := func(mode string) func() (float64, error) {
		return func() (float64, error) {
			cmd := exec.CommandContext(ctx, self, "-once", what) //nolint:gosec // G204: this very program
			cmd.Env = append(os.Environ(), "GODEBUG=fips140="+mode)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				return 0, err
			}
			enabled, nanoseconds, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
			if enabled != strconv.FormatBool(mode == "on") {
				return 0, errors.New("GODEBUG=fips140=" + mode + " does not decide the mode of this build")
			}
			return strconv.ParseFloat(nanoseconds, 64)
		}
	}
	return alternate(child("off"), child("on"))
}

// once prints the mode of this process and the median of the nanoseconds that a seal or an
// unseal of 1 KiB takes.
func once(out io.Writer, what string) error {
	w := works()[1]
	seal, unseal, err := openAppend(w, nil)
	if err != nil {
		return err
	}
	run := map[string]runner{"seal": seal, "unseal": unseal}[what]
	if run == nil {
		return fmt.Errorf("-once %s: seal or unseal", what)
	}
	const batch, batches = 60, 1500
	var all []float64
	for range batches {
		took, err := run(batch)
		if err != nil {
			return err
		}
		all = append(all, float64(took)/batch)
	}
	fmt.Fprintf(out, "%t %f\n", fips140.Enabled(), median(all))
	return nil
}
