// Testreport reads the output of go test -json, prints what a person and a build
// server want to see of it, and fails on a skipped test as on a failed one: under
// make test every peer is there, so nothing has a reason to skip.
//
// It prints the closing line of each package as it comes, the whole output of each
// test that failed or skipped, and the number of tests at the end.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	ok, err := report(os.Stdout, os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// An event is one line of go test -json; see go doc test2json.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// A key names a test, or with an empty test a package.
type key struct{ pkg, test string }

// report reports whether tests ran and all of them passed.
func report(w io.Writer, r io.Reader) (ok bool, err error) {
	outputs := make(map[key]*strings.Builder)
	var closing []string
	var passed, failed, skipped int
	broken := false // a package failed, perhaps without any test in it

	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			// The go command itself speaks plain text, on a bad pattern say.
			fmt.Fprintln(w, lines.Text())
			broken = true
			continue
		}
		k := key{e.Package, e.Test}
		switch e.Action {
		case "output":
			if outputs[k] == nil {
				outputs[k] = new(strings.Builder)
			}
			outputs[k].WriteString(e.Output)
			if line := strings.TrimSuffix(e.Output, "\n"); e.Test == "" && isClosing(line) {
				fmt.Fprintln(w, line)
				closing = append(closing, line)
			}
		case "build-output":
			fmt.Fprint(w, e.Output)
		case "build-fail":
			broken = true
		case "pass", "fail", "skip":
			out := ""
			if outputs[k] != nil {
				out = outputs[k].String()
			}
			delete(outputs, k)
			if e.Test == "" {
				if e.Action == "fail" {
					broken = true
					fmt.Fprint(w, out)
					printUnfinished(w, outputs, e.Package)
				}
				continue
			}
			switch e.Action {
			case "pass":
				passed++
				continue
			case "fail":
				failed++
			case "skip":
				skipped++
			}
			fmt.Fprint(w, out)
		}
	}
	if err := lines.Err(); err != nil {
		return false, err
	}
	if len(outputs) > 0 && !broken {
		return false, errors.New("the output of go test ends in the middle")
	}
	// Once more, where a build server that reads the end finds them.
	if len(closing) > 1 {
		fmt.Fprintln(w, "\nall packages:")
		for _, line := range closing {
			fmt.Fprintln(w, line)
		}
	}
	if skipped > 0 {
		fmt.Fprintln(w, "a skipped test counts as a failure here")
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	return passed > 0 && failed == 0 && skipped == 0 && !broken, nil
}

// printUnfinished prints what the tests of a package said that have not ended: those
// that panicked or ran out of time.
func printUnfinished(w io.Writer, outputs map[key]*strings.Builder, pkg string) {
	for k, out := range outputs {
		if k.pkg == pkg {
			fmt.Fprint(w, out)
			delete(outputs, k)
		}
	}
}

// isClosing reports whether a line of a package is its closing line.
func isClosing(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t")
}
