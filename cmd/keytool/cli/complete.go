package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// A completion answers a shell that asks how a command line can go on. It reads the store
// and the registries, and calls no key service: nothing that it offers is verified.
// Whatever goes wrong, it offers less.
type completion struct {
	*app
	files bool // the names of files belong there
}

// isCompletion reports whether a shell asks, as the script of keytool completion does.
func isCompletion(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// complete prints what can stand in the place of the last argument, a word and what it
// means on each line, and after them whether the shell is to offer files.
func (a *app) complete(ctx context.Context, root *cobra.Command, args []string) {
	c := completion{app: a}
	c.decide(root) //nolint:contextcheck // each function gets the context of its command
	var answer bytes.Buffer
	root.SetOut(&answer)
	root.SetErr(io.Discard) // nobody has asked for an error
	if checkArguments(args) == nil {
		_ = root.ExecuteContext(ctx) // likewise
	}
	// Where it does not know further the library has the shell offer files.
	directive := cobra.ShellCompDirectiveNoFileComp
	if c.files {
		directive = cobra.ShellCompDirectiveDefault
	}
	words := answer.String()
	words = words[:max(0, strings.LastIndexByte(words, ':'))] // its own directive is the last line
	fmt.Fprintf(a.Stdout, "%s:%d\n", words, directive)
}

// decide says what each argument and the value of each flag is completed with. What is not
// mentioned here is made up by whoever types it.
func (c *completion) decide(root *cobra.Command) {
	arguments := map[string]cobra.CompletionFunc{
		"kek new":      first(c.file),
		"validate":     first(c.file),
		"inspect":      first(c.file),
		"revoke":       c.keys(keyset.Primary, keyset.Staged, keyset.Retiring),
		"peer forget":  first(c.peers),
		"fleet forget": first(c.instances),
		"help":         commands,
	}
	values := map[string]cobra.CompletionFunc{
		"output": fixed(
			outputText+"\tfor people",
			outputJSON+"\tone document on standard output, on failure too"),
		"proof": fixed(
			string(keyset.ProofReports)+"\tevery instance has reported that it verifies the new key",
			string(keyset.ProofSettle)+"\ttime has passed, where servers cannot report"),
		"store":          c.store,
		"secret-file":    c.file,
		"principal-file": c.file,
		"out":            c.file,
		"replace":        c.keys(keyset.Primary),
		"clean":          c.keys(keyset.Retiring),
		"drop":           c.services,
		"peer":           c.peers,
	}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		_, path, _ := strings.Cut(cmd.CommandPath(), " ")
		cmd.ValidArgsFunction = arguments[path]
		own := func(f *pflag.Flag) {
			_, f.Usage = pflag.UnquoteUsage(f)
			if complete := values[f.Name]; complete != nil && f.Value.Type() != "bool" {
				_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // the flag is there
			}
		}
		cmd.Flags().VisitAll(own)
		cmd.PersistentFlags().VisitAll(own)
		for _, below := range cmd.Commands() {
			visit(below)
		}
	}
	root.InitDefaultHelpCmd() // which the library does later
	visit(root)
}

// first completes the first argument only.
func first(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return offer(nil, typed)
		}
		return complete(cmd, given, typed)
	}
}

func fixed(words ...cobra.Completion) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return offer(words, typed)
	}
}

// offer leaves those words that begin with what is typed. The rest is the shell's.
func offer(words []cobra.Completion, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	words = slices.DeleteFunc(slices.Clone(words), func(word cobra.Completion) bool { return !strings.HasPrefix(word, typed) })
	return words, cobra.ShellCompDirectiveNoFileComp
}

// file leaves it to the shell.
func (c *completion) file(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	c.files = true
	return nil, cobra.ShellCompDirectiveDefault
}

// store completes a path, and no URI.
func (c *completion) store(cmd *cobra.Command, given []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if strings.Contains(typed, "://") {
		return offer(nil, typed)
	}
	return c.file(cmd, given, typed)
}

// commands completes the name of a command, word by word.
func commands(cmd *cobra.Command, given []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	about, rest, err := cmd.Root().Find(given)
	if err != nil || len(rest) > 0 {
		return offer(nil, typed)
	}
	var names []cobra.Completion
	for _, below := range about.Commands() {
		if below.IsAvailableCommand() {
			names = append(names, cobra.CompletionWithDesc(below.Name(), below.Short))
		}
	}
	return offer(names, typed)
}

// keys completes the key ids of the keys in some states.
func (c *completion) keys(states ...keyset.State) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var kids []cobra.Completion
		for _, k := range c.document(cmd.Context()).Keys {
			if slices.Contains(states, k.State) && !slices.Contains(given, k.KID) {
				kids = append(kids, cobra.CompletionWithDesc(k.KID, string(k.State)))
			}
		}
		return offer(kids, typed)
	}
}

// peers completes the names of those that were given keys.
func (c *completion) peers(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	for _, p := range c.document(cmd.Context()).Peers {
		about := "not confirmed to run with its last export"
		if p.Confirmed {
			about = "runs with its last export"
		}
		names = append(names, cobra.CompletionWithDesc(p.Name, about))
	}
	return offer(names, typed)
}

// plainWord is what a shell takes as it stands: whoever has written the store, or answers
// in the place of a registry, gets nothing else on a command line.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:/@+-]*$`)

// services completes the names of the key-encryption keys that wrap something.
func (c *completion) services(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	for _, e := range wrappedEntries(c.document(cmd.Context())) {
		for _, w := range e.wrapped {
			if plainWord.MatchString(w.Service) {
				names = append(names, w.Service)
			}
		}
	}
	return offer(uniq(names), typed)
}

// instances completes the ids of those that are in a registry.
func (c *completion) instances(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	obs := within(cmd.Context(), c.registered)
	var ids []cobra.Completion
	for n := range obs.Instances {
		if i := &obs.Instances[n]; i.Registered && plainWord.MatchString(i.Address) {
			about := health(nil, &obs, i, nil)
			if i.Err == nil {
				about = displayName(&obs, i) + ": " + about
			}
			ids = append(ids, cobra.CompletionWithDesc(i.Address, escape(about)))
		}
	}
	return offer(ids, typed)
}

// registered asks the registries, and not the instances that are listed by their address,
// which nobody can forget.
func (c *completion) registered(ctx context.Context) (none fleet.Observation) {
	c.settings()
	sources, err := c.Fleets.Open(ctx, c.flags.fleet...)
	if err != nil {
		return none
	}
	defer func() { _ = sources.Close() }()
	var registries fleet.Sources
	for _, s := range sources {
		if _, ok := s.(fleet.Registry); ok {
			registries = append(registries, s)
		}
	}
	return fleet.CollectUnverified(ctx, c.Now, registries...)
}

// document reads the keyset; it is empty if that does not succeed.
func (c *completion) document(ctx context.Context) *keyset.Document {
	found := within(ctx, func(ctx context.Context) *keyset.Document {
		c.settings()
		doc, _ := c.unverified(ctx) // nobody has asked for an error
		return doc
	})
	if found == nil {
		found = new(keyset.Document)
	}
	return found
}

// within looks for something, for no longer than somebody who has typed a tab waits.
func within[T any](ctx context.Context, look func(context.Context) T) (found T) {
	const (
		answered = 1500 * time.Millisecond
		left     = 2 * time.Second // whoever does not heed the end of his time
	)
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	found, _ = orLeave(ctx.Done(), func() (T, error) {
		ctx, cancel := context.WithTimeout(ctx, answered)
		defer cancel()
		return look(ctx), nil
	})
	return found
}
