package cli

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A command that keytool suggests is about the same keyset and the same rotation as the one
// that was typed: what that has on its command line, the next one needs as well.

// A guide is a report that may name commands to type next.
type guide interface {
	// needs adds to it the flags that each of them needs beside its own.
	needs(flags string)
}

// keysetFlagsGiven returns the flags of this command line that name the keyset, as they are
// typed, without those that say what the environment says already.
func (a *app) keysetFlagsGiven() string {
	f := &a.flags
	var words []string
	for _, given := range []struct {
		flag        string
		values, env []string
	}{
		{"--store", []string{f.store}, []string{a.Getenv("ECHOSEAL_STORE")}},
		{"--name", []string{f.name}, []string{a.Getenv("ECHOSEAL_NAME")}},
		{"--key-service", f.keyServices, strings.Fields(a.Getenv("ECHOSEAL_KEY_SERVICES"))},
		{"--fleet", f.fleet, strings.Fields(a.Getenv("ECHOSEAL_FLEET"))},
	} {
		if slices.Equal(given.values, given.env) {
			continue
		}
		for _, value := range given.values {
			if u, err := url.Parse(value); err == nil && u.User != nil {
				return "" // a credential, which nothing takes there
			}
			if given.flag == "--name" && !a.named && mayBeSecret(value) {
				return "" // as it may be something else that was put in its place
			}
			if strings.ContainsFunc(value, unprintable) {
				return "" // what is printed for it names something else
			}
			if value == "" {
				continue
			}
			words = append(words, given.flag, quoted(value))
		}
	}
	return strings.Join(words, " ")
}

// changeFlagsGiven returns the flags of a command line that say how it changes the keyset,
// as they are typed, without the names in except, without those that say how it runs, and
// without those that cannot be printed as they are.
func changeFlagsGiven(cmd *cobra.Command, except ...string) (words []string) {
	except = append(except,
		"store", "name", "key-service", "fleet", // see keysetFlagsGiven
		"output", "quiet", "verbose", "timeout", "dry-run", "exit-code")
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case slices.Contains(except, f.Name), strings.ContainsFunc(f.Value.String(), unprintable):
		case f.Value.Type() == "duration":
			d, _ := time.ParseDuration(f.Value.String()) // as it has printed it
			words = append(words, "--"+f.Name, flagDuration(d))
		default:
			words = append(words, "--"+f.Name, quoted(f.Value.String()))
		}
	})
	return words
}

// forceGiven returns the words for going on with --force as this command line does: without
// a question, if it has said so. changeFlagsGiven is to leave them out then.
func (a *app) forceGiven() []string {
	if a.flags.yes {
		return []string{"--force", "--yes"}
	}
	return []string{"--force"}
}

var unquoted = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted writes a word as shells of the Bourne kind take it.
func quoted(word string) string {
	if unquoted.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// namesCommand reports whether one of texts has a command to type in it.
func namesCommand(texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "keytool ") })
}
