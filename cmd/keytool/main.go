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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, cli.OS(), os.Args[1:]...)
	stop()
	os.Exit(code)
}
