package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flag whose value is a variable that is not set is refused, in every command: without it
// rotate would wait until a key is due, rewrap do something else, and --store give way to the
// environment.
func TestEmptyFlags(t *testing.T) {
	tried := 0
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		for _, below := range cmd.Commands() {
			each(below)
		}
		if !cmd.Runnable() {
			return
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if kind := f.Value.Type(); kind != "string" && kind != "stringArray" || f.Name == "audience" {
				return
			}
			tried++
			words := strings.Fields(cmd.CommandPath())[1:]
			if cmd.Args(cmd, nil) != nil {
				words = append(words, "x")
			}
			var out bytes.Buffer
			s := System{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Getenv: func(string) string { return "" }}
			if code := Exit(Run(t.Context(), s, append(words, "--"+f.Name+"=")...)); code != usage || !strings.Contains(out.String(), "--"+f.Name+" is given with nothing in it") {
				t.Errorf("%q --%s=: %d %s", words, f.Name, code, out.String())
			}
		})
	}
	each((&app{System: System{}.complete()}).root())
	if tried < 50 {
		t.Errorf("only %d flags", tried)
	}
}
