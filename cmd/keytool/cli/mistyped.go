package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// What somebody has mistyped is answered with what may have been meant. Whoever reads it at
// night may type just that: what changes a keyset, or goes over a safety, is only named
// where a finger has slipped, and not for a word that happens to be near.

// costly are the flags that go over a safety, or say which keys go.
var costly = []string{"all", "clean", "drop", "force", "no-wait", "replace", "yes"}

// isSlip reports whether typed is name, or its beginning, but for one slip: a letter is
// missing, is too many, or has changed places with the next one; or is another one, in a
// word that is long enough to be known all the same.
func isSlip(typed, name string) bool {
	typed = strings.ToLower(typed)
	if strings.HasPrefix(name, typed) || oneLess(typed, name) || oneLess(name, typed) {
		return true
	}
	if len(typed) != len(name) {
		return false
	}
	var wrong []int
	for i := range name {
		if typed[i] != name[i] {
			wrong = append(wrong, i)
		}
	}
	switch len(wrong) {
	case 1:
		return len(name) >= len("revoke") && wrong[0] > 0
	case 2:
		i, j := wrong[0], wrong[1]
		return j == i+1 && typed[i] == name[j] && typed[j] == name[i]
	default:
		return false
	}
}

// oneLess reports whether short is long without one of its letters.
func oneLess(short, long string) bool {
	if len(short)+1 != len(long) {
		return false
	}
	i := 0
	for i < len(short) && short[i] == long[i] {
		i++
	}
	return short[i:] == long[i+1:]
}

// meant returns a question to put behind what was typed, if there are names that it may
// stand for, or "".
func meant(typed string, names ...string) string {
	word := strings.TrimLeft(typed, "-")
	if word == "" || mayBeSecret(word) {
		return ""
	}
	// The library knows how far two words are apart, for the names of commands.
	all := &cobra.Command{SuggestionsMinimumDistance: 2}
	if len(word) < len("new") {
		all.SuggestionsMinimumDistance = 1
	}
	for _, name := range names {
		all.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	near := all.SuggestionsFor(typed)
	if len(near) == 0 {
		return ""
	}
	return " (did you mean " + either(near) + "?)"
}

// unknownCommand is the error of a word where the name of a command belongs.
func unknownCommand(cmd *cobra.Command, typed string) error {
	var names []string
	for _, c := range cmd.Commands() {
		changes := c.Flag("dry-run") != nil
		if c.IsAvailableCommand() && (!changes || isSlip(typed, c.Name())) {
			names = append(names, c.Name())
		}
	}
	return usagef("unknown command %s for %q%s; see %s --help", shown(typed), cmd.CommandPath(), meant(typed, names...), cmd.CommandPath())
}

// usageArgs makes a wrong number of arguments, and a wrong one, a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) == nil {
			return nil
		}
		_, takes, _ := strings.Cut(cmd.Use, " ")
		switch {
		case cmd.HasAvailableSubCommands() && len(args) > 0:
			return unknownCommand(cmd, args[0])
		case takes == "":
			return usagef("%s takes no argument, and %s is one; see %s --help", cmd.CommandPath(), shown(args[0]), cmd.CommandPath())
		case len(cmd.ValidArgs) > 0 && len(args) == 1:
			return usagef("%s takes one of %s, not %s%s; see %s --help", cmd.CommandPath(), strings.Join(cmd.ValidArgs, ", "), shown(args[0]), meant(args[0], cmd.ValidArgs...), cmd.CommandPath())
		default:
			return usagef("it is %s, and %s given; see %s --help", cmd.UseLine(), given(len(args)), cmd.CommandPath())
		}
	}
}

func given(n int) string {
	switch n {
	case 0:
		return "no argument was"
	case 1:
		return "1 argument was"
	default:
		return strconv.Itoa(n) + " arguments were"
	}
}

// flagError says what is wrong with a flag.
func flagError(cmd *cobra.Command, err error) error {
	see := cmd.CommandPath() + " --help"
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if letters := unknown.GetSpecifiedShortnames(); letters != "" {
			return usagef("unknown flag: -%.1s; see %s", letters, see)
		}
		return unknownFlag(cmd, unknown.GetSpecifiedName())
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		return usagef("--%s is %s, not %s%s; see %s", value.GetFlag().Name, kindOf(value.GetFlag()), shown(value.GetValue()), inHours(value), see)
	}
	var missing *pflag.ValueRequiredError
	if errors.As(err, &missing) {
		return usagef("--%s needs a value behind it; see %s", missing.GetFlag().Name, see)
	}
	return usagef("a flag is --NAME or --NAME=VALUE; see %s", see)
}

func unknownFlag(cmd *cobra.Command, typed string) error {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && (!slices.Contains(costly, f.Name) || isSlip(typed, f.Name)) {
			names = append(names, "--"+f.Name)
		}
	})
	name := "--" + typed
	if mayBeSecret(typed) {
		name = shown(typed)
	}
	return usagef("unknown flag: %s%s; see %s --help", name, meant("--"+typed, names...), cmd.CommandPath())
}

// kindOf says what the value of a flag is.
func kindOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "duration":
		return "a duration such as 90s, 10m or 720h"
	case "int":
		return "a number"
	case "bool":
		return "true or false"
	default:
		return "something else" // no flag of another kind refuses a value
	}
}

var days = regexp.MustCompile(`^[0-9]{1,4}d$`)

// inHours is the remedy for a duration in days, which keytool prints and Go does not read.
func inHours(e *pflag.InvalidValueError) string {
	if e.GetFlag().Value.Type() != "duration" || !days.MatchString(e.GetValue()) {
		return ""
	}
	n, _ := strconv.Atoi(strings.TrimSuffix(e.GetValue(), "d")) // digits
	return fmt.Sprintf(": days are written in hours, %dh", n*24)
}
