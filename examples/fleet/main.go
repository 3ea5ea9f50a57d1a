// Fleet rotates the key of a running fleet and loses no round.
//
//	go run ./examples/fleet
//
// It starts four real MCP servers, processes of their own on loopback, behind a small
// balancer that sends each request to another one. Their keys are in a keyset file,
// wrapped by a local key file. Clients make calls of several rounds all the time, every
// round at another server, and some hold their token almost as long as it lives. Then
// keytool, the real one, replaces the key. No network service is needed, and it takes
// less than a minute.
//
// It ends with what was measured, and with a non-zero status if a round was refused or the
// key is still the old one.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/echoseal/echoseal/cmd/keytool/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	if len(os.Args) > 1 && os.Args[1] == serverRole {
		err = runServer(ctx)
	} else {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
		err = run(ctx, os.Stdout)
		cancel()
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nfleet failed:", err)
		os.Exit(1)
	}
}

// All servers and keytool run on one machine, so that times can be short that would be
// minutes elsewhere: see keytool policy --help.
const (
	name     = "fleet"
	servers  = 4
	ttl      = 6 * time.Second
	settle   = time.Second
	maxSkew  = 500 * time.Millisecond
	maxStale = 10 * time.Second
	poll     = 500 * time.Millisecond
)

func run(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "echoseal-fleet")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	screen := newScreen(out)
	defer screen.close()
	operator := &operator{screen: screen, dir: dir, env: map[string]string{
		"ECHOSEAL_STORE":        filepath.Join(dir, "keyset.json"),
		"ECHOSEAL_NAME":         name,
		"ECHOSEAL_KEY_SERVICES": "localkek://" + filepath.Join(dir, "kek.key"),
	}}

	screen.heading("The operator makes a key file, and a keyset whose keys are wrapped by it")
	if err := operator.keytool(ctx, "kek", "new", filepath.Join(dir, "kek.key")); err != nil {
		return err
	}
	err = operator.keytool(ctx, "init", "--ttl", ttl.String(), "--settle", settle.String(), "--max-skew", maxSkew.String(),
		"--max-stale", maxStale.String(), "--min-instances", strconv.Itoa(servers))
	if err != nil {
		return err
	}

	screen.heading(fmt.Sprintf("%d servers start, each a process of its own, and read it", servers))
	fleet, err := startFleet(ctx, operator.env, servers)
	defer fleet.stop()
	if err != nil {
		return err
	}
	screen.linef("  %s", strings.Join(fleet.addresses(), "  "))
	operator.env["ECHOSEAL_FLEET"] = strings.Join(fleet.reports(), " ")
	old, err := operator.primary(ctx)
	if err != nil {
		return err
	}

	screen.heading("Clients make calls of three rounds, each round at another server")
	balancer, err := startBalancer(ctx, fleet.addresses())
	if err != nil {
		return err
	}
	defer balancer.close()
	load := startLoad(ctx, balancer.address, screen)
	defer func() { err = errors.Join(err, load.stop()) }()
	if err := load.await(ctx, 100); err != nil {
		return err
	}
	screen.linef("  the first %d rounds are finished", load.finished.Load())

	screen.heading("The operator replaces the key while they run")
	if err := operator.keytool(ctx, "rotate", "--replace", old, "--wait", "--timeout", "90s"); err != nil {
		return err
	}
	if err := load.outlive(ctx, ttl); err != nil { // tokens that were sealed last
		return err
	}
	if err := load.stop(); err != nil {
		return err
	}

	screen.heading("What was measured")
	fresh, err := operator.primary(ctx)
	if err != nil {
		return err
	}
	screen.linef("  rounds finished   %d, at %d servers", load.finished.Load(), servers)
	screen.linef("  longest held      %s of the %s that a token lives", load.held().Round(100*time.Millisecond), ttl)
	screen.linef("  rounds refused    %d", load.refused.Load())
	screen.linef("  key before        %s", old)
	screen.linef("  key now           %s", fresh)
	switch {
	case load.refused.Load() > 0:
		return fmt.Errorf("%d rounds were refused", load.refused.Load())
	case fresh == old:
		return errors.New("the key was not replaced")
	}
	return nil
}

// An operator runs keytool.
type operator struct {
	screen *screen
	dir    string
	env    map[string]string
}

// keytool runs a command and shows what an operator would see.
func (o *operator) keytool(ctx context.Context, args ...string) error {
	o.screen.linef("  $ keytool %s", o.short(strings.Join(args, " ")))
	out := &indent{screen: o.screen, shorten: o.short}
	code := cli.Run(ctx, o.system(out, out), args...)
	out.flush()
	if code != 0 {
		return fmt.Errorf("keytool %s ended with code %d", args[0], code)
	}
	return nil
}

func (o *operator) system(stdout, stderr io.Writer) cli.System {
	return cli.System{Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Getenv: func(key string) string { return o.env[key] }}
}

// short leaves the temporary folder out of what is shown.
func (o *operator) short(text string) string { return strings.ReplaceAll(text, o.dir+"/", "") }

// primary asks keytool which key seals.
func (o *operator) primary(ctx context.Context) (string, error) {
	var out, errs strings.Builder
	if code := cli.Run(ctx, o.system(&out, &errs), "validate", o.env["ECHOSEAL_STORE"], "-o", "json"); code != 0 {
		return "", fmt.Errorf("keytool validate ended with code %d: %s", code, errs.String())
	}
	return field(out.String(), "primary")
}
