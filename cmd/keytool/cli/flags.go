package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flags are the flags that several commands have.
type flags struct {
	store, name        string
	keyServices, fleet []string

	output         string
	quiet, verbose bool
	timeout        time.Duration

	actor, reason string
	dryRun        bool
	yes, force    bool
	exitCode      bool
}

// defaultTimeout bounds a command that does not wait, and each turn of one that does.
const defaultTimeout = 30 * time.Second

func (a *app) commonFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVarP(&a.flags.output, "output", "o", a.flags.output, "`FORMAT` of the result: text, or json, which is one document on standard output, on failure too")
	f.Lookup("output").DefValue = outputText
	f.BoolVarP(&a.flags.quiet, "quiet", "q", false, "print nothing but the result and errors")
	f.BoolVarP(&a.flags.verbose, "verbose", "v", false, "tell more on standard error; a secret is never shown")
	f.DurationVar(&a.flags.timeout, "timeout", defaultTimeout, "how long the command may take; with --wait there is no limit unless this is given")
}

// checkFlags runs once the command line is read.
func (a *app) checkFlags(cmd *cobra.Command) error {
	if o := a.flags.output; o != outputText && o != outputJSON {
		a.flags.output = outputText
		return usagef("-o is text or json, not %s%s", shown(o), meant(o, outputText, outputJSON))
	}
	if name := emptyFlag(cmd); name != "" {
		return usagef("--%s is given with nothing in it, as by a variable that is not set: leave it out, or say what it is", name)
	}
	if a.flags.timeout <= 0 {
		return usagef("--timeout is a positive duration such as 90s, not %v", a.flags.timeout)
	}
	for name, text := range map[string]string{"actor": a.flags.actor, "reason": a.flags.reason} {
		if len(text) > maxText || !utf8.ValidString(text) || strings.ContainsFunc(text, isControl) {
			return usagef("--%s is at most %d bytes of text without control characters", name, maxText)
		}
	}
	return nil
}

// emptyFlag returns the name of a flag whose value is the empty text, "" if there is none. It
// would be taken as not given, and the command do another thing than was asked for. An audience
// may be that text.
func emptyFlag(cmd *cobra.Command) (name string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			empty = slices.Contains(list.GetSlice(), "")
		}
		if empty && f.Name != "audience" {
			name = f.Name
		}
	})
	return name
}

// maxText is how long an actor or a reason may be, in bytes.
const maxText = 200

// isControl reports whether package keyset takes r in no actor and no reason.
func isControl(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

// keysetFlags are those of the commands that work on a keyset.
func (a *app) keysetFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.flags.store, "store", "", "where the keyset is: a path or a `URI` (default $ECHOSEAL_STORE)")
	f.StringVar(&a.flags.name, "name", "", "what the keyset is called: its `NAME` (default $ECHOSEAL_NAME)")
	f.StringArrayVar(&a.flags.keyServices, "key-service", nil, "`URI` of a key service; repeatable, the first one wraps (default $ECHOSEAL_KEY_SERVICES)")
	f.StringArrayVar(&a.flags.fleet, "fleet", nil, "`URI` where servers report; repeatable (default $ECHOSEAL_FLEET)")
}

// settings completes the flags of a keyset from the environment.
func (a *app) settings() {
	for name, flag := range map[string]*string{"ECHOSEAL_STORE": &a.flags.store, "ECHOSEAL_NAME": &a.flags.name} {
		if *flag == "" {
			*flag = a.Getenv(name)
		}
	}
	for name, flag := range map[string]*[]string{"ECHOSEAL_KEY_SERVICES": &a.flags.keyServices, "ECHOSEAL_FLEET": &a.flags.fleet} {
		if len(*flag) == 0 {
			*flag = strings.Fields(a.Getenv(name))
		}
	}
}

// writeFlags are those of the commands that write a keyset.
func (a *app) writeFlags(cmd *cobra.Command) {
	a.keysetFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&a.flags.dryRun, "dry-run", false, "show what would be done, and change nothing")
	f.StringVar(&a.flags.reason, "reason", "", "why, as a `TEXT` for the keyset's history")
	f.StringVar(&a.flags.actor, "actor", "", "name `WHO` in the keyset's history as the author of the change (default user@host of this process)")
	a.exitCodeFlag(cmd, "with --dry-run: exit 3 if the command would change something, 0 if not")
}

// exitCodeFlag is that of the commands that may end with another code than 0 though
// nothing has failed; says is what it makes of one of them.
func (a *app) exitCodeFlag(cmd *cobra.Command, says string) {
	cmd.Flags().BoolVar(&a.flags.exitCode, "exit-code", false, says)
}

// yesFlag is that of the commands that can cost a valid token.
func (a *app) yesFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&a.flags.yes, "yes", "y", false, "do not ask before what can cost a valid token; needed without a terminal")
}

// context returns the context of a command that does not wait.
func (a *app) context(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(cmd.Context(), a.flags.timeout, fmt.Errorf("the %s of --timeout are over", shortDuration(a.flags.timeout)))
}
