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

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// A System is what keytool gets from where it runs. Every field but the streams may be
// left out.
type System struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Getenv returns the value of an environment variable of keytool's own; those of the
	// key services and stores are read by their clients. nil: os.Getenv.
	Getenv func(string) string

	// Now is the clock. nil: time.Now.
	Now func() time.Time

	// Sleep waits for d by that clock, or until ctx ends, which is then its error.
	// nil: a timer.
	Sleep func(ctx context.Context, d time.Duration) error

	// What the URIs of stores, key services and fleets may name. nil: all that there are.
	Stores      keyset.SourceOpeners
	KeyServices keyset.Openers
	Fleets      fleet.Openers
}

// OS returns the streams, the environment and the clock of this process.
func OS() System { return System{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr} }

// Run runs keytool with the given arguments, without the program's name, and returns the
// exit code, see [Exit]. It ends soon after ctx does, with nothing half-written.
func Run(ctx context.Context, s System, args ...string) int {
	a := &app{System: s.complete(), ended: ctx.Done()}
	a.flags.output = outputOf(args)
	root := a.root() //nolint:contextcheck // each command gets ctx from ExecuteContext
	root.SetArgs(args)
	if isCompletion(args) {
		a.complete(ctx, root, args)
		return int(done)
	}
	err := checkArguments(args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if ctx.Err() != nil && err != nil && exitOf(err) != conflict {
		err = &exitError{code: interrupted, err: fmt.Errorf("interrupted: %w", err)}
	}
	return int(a.finish(err))
}

func (s System) complete() System {
	if s.Getenv == nil {
		s.Getenv = os.Getenv
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Sleep == nil {
		s.Sleep = sleep
	}
	if s.Stores == nil {
		s.Stores = allStores()
	}
	if s.KeyServices == nil {
		s.KeyServices = allKeyServices()
	}
	if s.Fleets == nil {
		s.Fleets = allFleets()
	}
	return s
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// An app is one run of keytool.
type app struct {
	System
	flags  flags
	report report // what the command has found or done; nil if it got nowhere

	made    string          // what has been done, whatever becomes of the report: "" for nothing
	ended   <-chan struct{} // closed when the run is to end; nil: never
	reached bool            // the store and the key services that the flags name are such
	named   bool            // a keyset is called what --name says
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "keytool",
		Short: "Makes, rotates and explains the keysets of Echoseal",
		Long: `keytool makes, rotates and explains the keysets of Echoseal: the keys that seal the
requestState of MCP requests.

It works on one keyset, which four settings name. Each is a flag, or an environment
variable; a list is separated by spaces there:

  --store URI         ECHOSEAL_STORE          where the keyset is: a path, file:///path,
                                              hashivault-kv:///PATH, etcd://HOST:PORT/KEY,
                                              env://NAME (read only)
  --name NAME         ECHOSEAL_NAME           what it is called; no other is accepted
  --key-service URI   ECHOSEAL_KEY_SERVICES   what wraps its keys: localkek:///path,
                                              awskms:///KEY, gcpkms://NAME,
                                              hashivault://KEY; repeat it, the first wraps
  --fleet URI         ECHOSEAL_FLEET          where servers report: http://HOST:PORT/path,
                                              dns+http://NAME:PORT/path, etcd://…; repeat it

etcd, Vault and the cloud services take addresses and credentials from the environment
variables that are usual with them. No secret is ever taken from the command line.

A keyset's life, where the key service is a file:

  export ECHOSEAL_STORE=/etc/echoseal/keyset.json ECHOSEAL_NAME=billing
  export ECHOSEAL_KEY_SERVICES=localkek:///etc/echoseal/kek.key
  keytool kek new /etc/echoseal/kek.key
  keytool init                 writes revision 1
  keytool status               how it is, what is wrong with whom, and what to do next
  keytool rotate --wait        replaces the key when it is due; safe to interrupt and repeat
  keytool doctor               tries everything that a rotation needs
  keytool inspect token.txt    why a token was refused
  keytool revoke KID --reason TEXT    only if a key has leaked: its tokens are refused

Exit codes: 0 done, nothing due, or waiting as it should; 1 failed; 2 usage; 3 --wait ran
out of time, or with --exit-code there is something to do or to wait for; 4 a check says
no; 5 another writer was first; 6 blocked, the culprit is printed; 130 interrupted.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              usageArgs(cobra.NoArgs),
		RunE:              a.needsCommand,
		Annotations:       map[string]string{groupMark: "it needs a command"},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { a.report = newHelp(cmd) })
	root.SetHelpCommand(a.helpCommand())
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate()))
	a.commonFlags(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.checkFlags(cmd) }
	root.AddCommand(
		a.kekCommand(), a.initCommand(), a.statusCommand(), a.rotateCommand(), a.abortCommand(), a.rollbackCommand(),
		a.revokeCommand(), a.rewrapCommand(), a.policyCommand(),
		a.exportCommand(), a.confirmCommand(), a.peerCommand(), a.fleetCommand(),
		a.inspectCommand(), a.doctorCommand(), a.validateCommand(), a.versionCommand(), a.completionCommand(),
	)
	return root
}

// needsCommand is what a command does that has only commands below it.
func (a *app) needsCommand(cmd *cobra.Command, _ []string) error {
	if a.flags.output == outputText {
		a.note("%s", painted(newHelp(cmd).Help))
	}
	return usagef("a command is missing; %s --help lists them", cmd.CommandPath())
}

// actor returns who makes a change.
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

// stamp returns the note of a change that is made now.
func (a *app) stamp() keyset.Note {
	return keyset.Note{At: a.Now(), Actor: a.actor(), Reason: a.flags.reason}
}

// confirm asks before what can cost a valid token, and returns the context to go on with:
// where somebody was asked, the time of --timeout begins anew with the answer. Without a
// terminal and without --yes it refuses.
func (a *app) confirm(ctx context.Context, cmd *cobra.Command, what string) (context.Context, context.CancelFunc, error) {
	if err := a.agreed(what); err != nil {
		return nil, nil, err
	}
	if !a.asks() {
		return ctx, func() {}, nil
	}
	ctx, cancel := a.context(cmd)
	return ctx, cancel, nil
}

func (a *app) asks() bool { return !a.flags.yes && !a.flags.dryRun }

// agreed is confirm for what no --timeout has begun for. People take their time: nothing but
// the end of the run ends a question.
func (a *app) agreed(what string) error {
	if !a.asks() {
		return nil
	}
	in, ok := a.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return usagef("%s can cost valid tokens, and nobody is there to ask: add --yes", strings.ToLower(what[:1])+what[1:])
	}
	fmt.Fprintf(a.Stderr, "%s can cost valid tokens. Go on? [y/N] ", escape(what))
	answer, err := orLeave(a.ended, func() (answer string, err error) {
		if _, err := fmt.Fscanln(in, &answer); err != nil && !errors.Is(err, io.EOF) {
			answer = ""
		}
		return answer, nil
	})
	if err != nil {
		fmt.Fprintln(a.Stderr) // below the question
		return errors.New("nothing was changed")
	}
	switch strings.ToLower(answer) {
	case "y", "yes":
		return nil
	default:
		return usagef("not confirmed; nothing was changed")
	}
}
