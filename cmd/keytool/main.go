// Keytool makes, rotates and explains the keysets of Echoseal.
//
//	go install github.com/echoseal/echoseal/cmd/keytool@latest
//	keytool help
//
// Package cli has all of it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/echoseal/echoseal/cmd/keytool/cli"
)

func main() {
	// Without this a reader that has gone, as head does, would kill a run in its middle.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second signal kills whatever the first one could not end
	code := cli.Run(ctx, cli.OS(), os.Args[1:]...)
	stop()
	os.Exit(code)
}
