package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// A helpReport is help that was asked for.
type helpReport struct {
	Command string `json:"command"`
	Help    string `json:"help"`
}

func newHelp(cmd *cobra.Command) *helpReport {
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	return &helpReport{Command: cmd.CommandPath(), Help: strings.TrimSpace(text) + "\n\n" + strings.TrimSpace(cmd.UsageString())}
}

// helpColumns is how wide help is at most.
const helpColumns = 100

// groupMark marks a command that does nothing by itself, so that its usage does not say that
// it could be run.
const groupMark = "group"

// usageTemplate is the library's, but that flags are told in lines that fit, and no command
// is said to run that only has others below it.
func usageTemplate(of string) string {
	of = strings.ReplaceAll(of, ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", helpColumns))
	return strings.Replace(of, "{{if .Runnable}}", fmt.Sprintf("{{if and .Runnable (not (index .Annotations %q))}}", groupMark), 1)
}

func (r *helpReport) text(p *printer) { p.WriteString(r.Help + "\n") }

func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explains a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, _ := cmd.Root().Find(args) // what is not found is the rest
			if len(rest) > 0 {
				return unknownCommand(about, rest[0])
			}
			about.InitDefaultHelpFlag()
			a.report = newHelp(about)
			return nil
		},
	}
}

// A completionReport is the script of a shell.
type completionReport struct {
	Shell  string `json:"shell"`
	Script string `json:"script"`
}

func (r *completionReport) text(p *printer) { p.WriteString(r.Script) }

func (a *app) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Prints a script that completes commands, flags and key ids",
		Long: `completion prints a script for bash, zsh, fish or powershell.

  bash         source <(keytool completion bash)
  zsh          keytool completion zsh > "${fpath[1]}/_keytool"
  fish         keytool completion fish > ~/.config/fish/completions/keytool.fish
  powershell   keytool completion powershell | Out-String | Invoke-Expression`,
		Args:      usageArgs(cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			var script bytes.Buffer
			root := cmd.Root()
			var err error
			switch args[0] {
			case "bash":
				err = root.GenBashCompletionV2(&script, true)
			case "zsh":
				err = root.GenZshCompletion(&script)
			case "fish":
				err = root.GenFishCompletion(&script, true)
			default:
				err = root.GenPowerShellCompletionWithDesc(&script)
			}
			if err != nil {
				return fmt.Errorf("writing the script: %w", err)
			}
			a.report = &completionReport{Shell: args[0], Script: script.String()}
			return nil
		},
	}
}
