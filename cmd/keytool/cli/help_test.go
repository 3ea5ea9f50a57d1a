package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Help is for somebody who has never seen the command: it has examples that can be typed,
// a flag's value has a name that says what it is, and no line of text is too long for a
// window of 100 columns.
func TestHelp(t *testing.T) {
	a := &app{System: System{}.complete()}
	const columns = 100
	quoted := regexp.MustCompile(`"[^"]*"`)
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			check(c)
		}
		path := cmd.CommandPath()
		help := newHelp(cmd).Help
		for line := range strings.SplitSeq(help, "\n") {
			if len([]rune(line)) > columns && !strings.HasPrefix(line, "  keytool ") { // of a long name in an example
				t.Errorf("%s: a line of its help has %d characters: %s", path, len([]rune(line)), line)
			}
		}
		if strings.Contains(help, "h0m") || strings.Contains(help, "m0s") {
			t.Errorf("%s: a duration is not shown as it is typed:\n%s", path, help)
		}
		group := cmd.HasSubCommands() && path != "keytool fleet"
		if group == strings.Contains(help, "Usage:\n  "+cmd.UseLine()) {
			t.Errorf("%s: its help does not say whether it needs a command:\n%s", path, help)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			switch name, usage := pflag.UnquoteUsage(f); {
			case name == "string" || name == "strings" || name == "stringArray" || name == "int":
				t.Errorf("%s: nothing says what the %s of --%s is", path, name, f.Name)
			case len(usage) < 10 || strings.HasSuffix(usage, "."):
				t.Errorf("%s --%s: %q", path, f.Name, usage)
			}
		})
		if group || strings.HasPrefix(path, "keytool help") || path == "keytool version" || path == "keytool completion" {
			return
		}
		if cmd.Example == "" {
			t.Errorf("%s has no example", path)
		}
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			words := strings.Fields(quoted.ReplaceAllString(line, "TEXT"))
			root := a.root()
			found, rest, err := root.Find(words[1:])
			if err != nil || words[0] != "keytool" || found.CommandPath() != path {
				t.Errorf("%s: the example is of another command: %s: %v", path, line, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%s: %s: %v", path, line, err)
			}
			if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%s: %s: %v", path, line, err)
			}
		}
	}
	check(a.root())
}
