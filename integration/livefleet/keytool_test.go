package livefleet

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/echoseal/echoseal/cmd/keytool/cli"
	"github.com/echoseal/echoseal/codec/vault"
	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/etcdstore"
)

// A toolConfig says what keytool, a process of its own, works on.
type toolConfig struct {
	Env   map[string]string // ECHOSEAL_…
	Hosts string            // a file with the addresses of every name: the DNS of the test
	Hook  *hook             // what happens to the process; nil: nothing
}

// A hook happens once, at a write to the store or when it was read.
type hook struct {
	When   string // loaded, or before, during or after a write
	Action string // of the change that is written, as in the keyset's history
	Hold   string // a file: hold says that it is held, and waits until it is gone; "": kill -9
}

const (
	before = "before"
	during = "during"
	after  = "after"
	loaded = "loaded"
)

// runKeytool is keytool.
func runKeytool() int {
	var c toolConfig
	if err := readConfig(&c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	endWithParent(func() { os.Exit(99) })
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	system := cli.OS()
	system.Stdin = strings.NewReader("")
	system.Getenv = func(name string) string { return c.Env[name] }
	system.Fleets = fleet.Openers{fleet.HTTPOpener(), fleet.DNSOpener(hosts(c.Hosts)), etcdstore.FleetOpener()}
	if c.Hook != nil {
		system.Stores = keyset.SourceOpeners{keyset.FileOpener(), vault.StoreOpener(), etcdstore.Opener()}
		for i := range system.Stores {
			system.Stores[i] = c.Hook.opener(system.Stores[i])
		}
	}
	return cli.Run(ctx, system, os.Args[1:]...)
}

// opener makes the hook happen to the stores of another opener.
func (h *hook) opener(o keyset.SourceOpener) keyset.SourceOpener {
	return keyset.SourceOpener{Schemes: o.Schemes, Open: func(ctx context.Context, uri string) (keyset.Source, error) {
		source, err := o.Open(ctx, uri)
		if err != nil {
			return nil, err
		}
		return &hooked{Store: source.(keyset.Store), hook: h}, nil
	}}
}

// A hooked is a store to whose writer something happens.
type hooked struct {
	keyset.Store
	hook *hook
	once sync.Once
}

func (h *hooked) String() string { return fmt.Sprint(h.Store) }

func (h *hooked) happen() { h.once.Do(h.hook.happen) }

func (h *hooked) Close() error {
	if c, ok := h.Store.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Load is that of the store, but for the hook.
func (h *hooked) Load(ctx context.Context) ([]byte, string, error) {
	text, version, err := h.Store.Load(ctx)
	if h.hook.When == loaded {
		h.happen()
	}
	return text, version, err
}

// Save is that of the store, but for the hook.
func (h *hooked) Save(ctx context.Context, text []byte, version string) (string, error) {
	doc, err := keyset.Parse(text)
	if err != nil {
		return "", err
	}
	if doc.History[len(doc.History)-1].Action != h.hook.Action {
		return h.Store.Save(ctx, text, version)
	}
	switch h.hook.When {
	case before:
		h.happen()
	case during:
		go func() {
			time.Sleep(rand.N(3 * time.Millisecond))
			die()
		}()
		_, _ = h.Store.Save(ctx, text, version)
		select {}
	}
	written, err := h.Store.Save(ctx, text, version)
	if err == nil && h.hook.When == after {
		h.happen()
	}
	return written, err
}

func (h *hook) happen() {
	if h.Hold == "" {
		die()
	}
	if err := os.WriteFile(h.Hold, nil, 0o600); err != nil {
		panic(err)
	}
	for {
		if _, err := os.Stat(h.Hold); err != nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// hosts is a file with one address a line.
type hosts string

// LookupNetIP implements fleet.Resolver.
func (h hosts) LookupNetIP(context.Context, string, string) (all []netip.Addr, err error) {
	text, err := os.ReadFile(string(h))
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		address, err := netip.ParseAddr(lines.Text())
		if err != nil {
			return nil, err
		}
		all = append(all, address)
	}
	return all, nil
}
