package cli

import "github.com/spf13/cobra"

// commands are all commands, in the order of a keyset's life.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.kekCommand(), a.initCommand(),
		a.abortCommand(), a.rollbackCommand(),
		a.policyCommand(), a.exportCommand(), a.confirmCommand(), a.peerCommand(),
		a.validateCommand(), a.versionCommand(),
	}
}
