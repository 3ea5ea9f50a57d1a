package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// A System is what keytool gets from the system that it runs on.
type System struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Getenv returns the value of an environment variable of keytool's own; those of the
	// key services and stores are read by their clients. nil: os.Getenv.
	Getenv func(string) string

	// Now is the clock. nil: time.Now.
	Now func() time.Time
}

// OS returns the streams, the environment and the clock of this process.
func OS() System { return System{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr} }

// Run runs keytool with the given arguments, without the program's name, and returns the
// exit code, see [Exit]. It ends soon after ctx does, with nothing half-written.
func Run(ctx context.Context, s System, args ...string) int {
	if s.Getenv == nil {
		s.Getenv = os.Getenv
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	a := &app{System: s}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if ctx.Err() != nil && err != nil && exitOf(err) != conflict {
		err = &exitError{code: interrupted, err: err}
	}
	return int(a.finish(err))
}

// An app is one run of keytool.
type app struct {
	System
	flags  flags
	report report // what the command has found or done; nil if it got nowhere
}

// flags are the flags that every command has.
type flags struct {
	store, name        string
	keyServices, fleet []string
	output             string
	quiet, yes, dryRun bool
	verbose            bool
	exitCode           bool
	timeout            time.Duration
	actor, reason      string
	force              bool
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "keytool",
		Short: "Makes, rotates and explains the keysets of Echoseal",
		Long: `keytool makes, rotates and explains the keysets of Echoseal: the keys that seal the
requestState of MCP requests.

It works on one keyset, which is named by four settings. Each is a flag, or an
environment variable:

  --store URI         ECHOSEAL_STORE          where the keyset is: a path, file://,
                                              hashivault-kv://, etcd://, env:// (read only)
  --name NAME         ECHOSEAL_NAME           what it is called; nothing else is accepted
  --key-service URI   ECHOSEAL_KEY_SERVICES   what wraps its keys; repeat it, the first wraps
  --fleet URI         ECHOSEAL_FLEET          where the servers report; repeat it

A day in its life:

  keytool kek new kek.key                     a key file, where there is no key service
  keytool init                                writes revision 1
  keytool status                              how it is, and what comes next
  keytool rotate --wait                       replaces the key; safe to interrupt and to repeat
  keytool inspect token.txt                   why a token was refused`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return usagef("no command was given")
		},
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stderr) // help that was not asked for; standard output is the result's
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &exitError{code: usage, err: err} })
	f := root.PersistentFlags()
	f.StringVarP(&a.flags.output, "output", "o", "text", "text, or json: one document on standard output, on failure too")
	f.BoolVarP(&a.flags.quiet, "quiet", "q", false, "print nothing but the result")
	f.BoolVarP(&a.flags.verbose, "verbose", "v", false, "say what is done; never shows a secret")
	f.DurationVar(&a.flags.timeout, "timeout", 30*time.Second, "how long the command may take")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if a.flags.output != "text" && a.flags.output != "json" {
			bad := a.flags.output
			a.flags.output = "text"
			return usagef("-o is text or json, not %.40q", bad)
		}
		return nil
	}
	root.AddCommand(a.commands()...)
	return root
}

// keysetFlags are those of the commands that work on a keyset.
func (a *app) keysetFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.flags.store, "store", a.Getenv("ECHOSEAL_STORE"), "where the keyset is: a path or a URI; ECHOSEAL_STORE")
	f.StringVar(&a.flags.name, "name", a.Getenv("ECHOSEAL_NAME"), "the name of the keyset; ECHOSEAL_NAME")
	f.StringArrayVar(&a.flags.keyServices, "key-service", strings.Fields(a.Getenv("ECHOSEAL_KEY_SERVICES")), "URI of a key service, the first wraps; repeatable; ECHOSEAL_KEY_SERVICES")
	f.StringArrayVar(&a.flags.fleet, "fleet", strings.Fields(a.Getenv("ECHOSEAL_FLEET")), "URI of a place where servers report; repeatable; ECHOSEAL_FLEET")
}

// writeFlags are those of the commands that write a keyset.
func (a *app) writeFlags(cmd *cobra.Command) {
	a.keysetFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&a.flags.dryRun, "dry-run", false, "show the step, and change nothing")
	f.StringVar(&a.flags.reason, "reason", "", "why, for the keyset's history; at most 200 bytes")
	f.StringVar(&a.flags.actor, "actor", "", "who, for the keyset's history (default user@host)")
	f.BoolVarP(&a.flags.yes, "yes", "y", false, "do not ask before what can cost a valid token")
	f.BoolVar(&a.flags.exitCode, "exit-code", false, "exit 3 if there is something to do or to wait for")
}

func (a *app) actor() string {
	if a.flags.actor != "" {
		return a.flags.actor
	}
	who, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return who + "@" + host
}

// context returns the context of a command that does not wait.
func (a *app) context(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(cmd.Context(), a.flags.timeout, fmt.Errorf("the %v of --timeout are over", a.flags.timeout))
}

// usageArgs makes a wrong number of arguments a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usagef("%v; see keytool %s --help", err, strings.TrimPrefix(cmd.CommandPath(), "keytool "))
		}
		return nil
	}
}

// confirm asks before what can cost a valid token. Without a terminal and without --yes
// it refuses.
func (a *app) confirm(what string) error {
	if a.flags.yes || a.flags.dryRun {
		return nil
	}
	in, ok := a.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return usagef("%s: that can cost valid tokens, and nobody is there to ask; add --yes", what)
	}
	fmt.Fprintf(a.Stderr, "%s: that can cost valid tokens. Go on? [y/N] ", what)
	var answer string
	if _, err := fmt.Fscanln(in, &answer); err != nil && !errors.Is(err, io.EOF) && answer == "" {
		answer = "n"
	}
	if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
		return &exitError{code: usage, err: errors.New("nothing was changed")}
	}
	return nil
}
