// Quickstart shows on a terminal what Echoseal does to a real MCP server: a go-sdk
// server over HTTP on loopback, a real client, and a tool that asks for approval
// before it pays out.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -keyset
//
// With -keyset the keys are not one secret that all servers are given, but a keyset in a
// file, wrapped by a key file, and the key is replaced while the servers run.
//
// It ends with a non-zero status if anything does not happen as it says.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/middleware/gosdk"
)

func main() {
	withKeyset := flag.Bool("keyset", false, "take the keys from a keyset, and replace the key while the servers run")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	err := run(ctx, os.Stdout, *withKeyset)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nquickstart failed:", err)
		os.Exit(1)
	}
}

// ttl is short, so that nobody waits long to see a token expire.
const ttl = 2 * time.Second

func run(ctx context.Context, out io.Writer, withKeyset bool) error {
	shared, open := "secret", fromSecret()
	var live *keys
	if withKeyset {
		var err error
		if live, err = newKeys(ctx); err != nil {
			return err
		}
		defer live.close()
		shared, open = "keyset", live.open
	}
	var log journal
	first, err := protect(ctx, open, &log)
	if err != nil {
		return err
	}
	second, err := protect(ctx, open, &log)
	if err != nil {
		return err
	}

	heading(out, "Without Echoseal, the client holds the server's state and can change it")
	if err := unprotected(ctx, out); err != nil {
		return err
	}
	a, err := serve(ctx, first)
	if err != nil {
		return err
	}
	defer a.close()
	b, err := serve(ctx, second)
	if err != nil {
		return err
	}
	defer b.close()
	alice, err := a.connect(ctx, "alice")
	if err != nil {
		return err
	}
	defer leave(alice)

	heading(out, "With Echoseal, it holds a sealed token, and nothing changes for the tool")
	token, err := begin(ctx, alice, refund)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  on the wire  %.64s…  %d characters\n", token, len(token))
	answer, err := finish(ctx, alice, refund, token)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  the tool     %s\n", answer)

	heading(out, "Whatever a client tries, it gets one and the same error; the reason is in the log")
	if err := attacks(ctx, out, &log, a, alice); err != nil {
		return err
	}

	heading(out, "A second replica with the same "+shared+" finishes what the first began")
	token, err = begin(ctx, alice, refund)
	if err != nil {
		return err
	}
	there, err := b.connect(ctx, "alice")
	if err != nil {
		return err
	}
	defer leave(there)
	answer, err = finish(ctx, there, refund, token)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  began on %s, finished on %s\n  the tool     %s\n", a.address, b.address, answer)
	if live == nil {
		return nil
	}

	heading(out, "The key is replaced while both run, and no round is refused")
	return live.rotate(ctx, out, alice, there)
}

// fromSecret returns how each replica gets its ring from a secret that they share.
func fromSecret() func(context.Context) (codec.Codec, error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	return func(context.Context) (codec.Codec, error) { return local.New(secret) }
}

// protect is the whole set-up of a replica: a ring of keys, a policy, a middleware.
func protect(ctx context.Context, open func(context.Context) (codec.Codec, error), log *journal) (mcp.Middleware, error) {
	ring, err := open(ctx)
	if err != nil {
		return nil, err
	}
	policy, err := binding.New(ring, binding.Options{Audience: "refunds", TTL: ttl})
	if err != nil {
		return nil, err
	}
	return gosdk.Middleware(policy, &gosdk.Options{Logger: log.logger()}), nil
}

// unprotected shows the same tool on a server as it comes.
func unprotected(ctx context.Context, out io.Writer) error {
	server, err := serve(ctx, nil)
	if err != nil {
		return err
	}
	defer server.close()
	mallory, err := server.connect(ctx, "mallory")
	if err != nil {
		return err
	}
	defer leave(mallory)
	state, err := begin(ctx, mallory, refund)
	if err != nil {
		return err
	}
	forged := strings.Replace(state, `"amount":20`, `"amount":20000`, 1)
	answer, err := finish(ctx, mallory, refund, forged)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  on the wire  %s\n  changed to   %s\n  the tool     %s\n", state, forged, answer)
	if forged == state || !strings.Contains(answer, "20000") {
		return errors.New("the unprotected server did not believe the forged state")
	}
	return nil
}

// attacks tries what a client could try with a token, and checks that each is
// refused with the same error and logged with its own reason.
func attacks(ctx context.Context, out io.Writer, log *journal, a *server, alice *mcp.ClientSession) error {
	bob, err := a.connect(ctx, "bob")
	if err != nil {
		return err
	}
	defer leave(bob)
	more := refund
	more.Arguments = map[string]any{"invoice": "A-17", "amount": 2000}
	other := refund
	other.Name = "close_account"

	var seen string
	for _, attack := range []struct {
		what   string
		client *mcp.ClientSession
		params mcp.CallToolParams
		change func(token string) string
		reason codec.Reason
	}{
		{"one character changed", alice, refund, flip, codec.BadSeal},
		{"on another tool", alice, other, nil, binding.WrongRequest},
		{"with other arguments", alice, more, nil, binding.WrongRequest},
		{"from another user", bob, refund, nil, binding.WrongPrincipal},
		{"after it expired", alice, refund, wait, binding.Expired},
	} {
		token, err := begin(ctx, alice, refund)
		if err != nil {
			return err
		}
		if attack.change != nil {
			token = attack.change(token)
		}
		answer, err := finish(ctx, attack.client, attack.params, token)
		var wire *jsonrpc.Error
		if !errors.As(err, &wire) {
			return fmt.Errorf("a token %s: got %q, %w", attack.what, answer, err)
		}
		onWire := fmt.Sprintf("%d %s %s", wire.Code, wire.Message, wire.Data)
		if seen == "" {
			seen = onWire
			fmt.Fprintf(out, "  on the wire  %s\n\n", onWire)
		}
		reason := log.lastReason()
		fmt.Fprintf(out, "  %-22s  refused   log: reason=%s\n", attack.what, reason)
		if onWire != seen || reason != string(attack.reason) {
			return fmt.Errorf("a token %s: %s on the wire, %s in the log, not %s", attack.what, onWire, reason, string(attack.reason))
		}
	}
	fmt.Fprintf(out, "\n  a whole line of that log\n  %s\n", log.lastLine())
	return nil
}

// flip changes one character in the middle of a token.
func flip(token string) string {
	middle, other := len(token)/2, "A"
	if token[middle] == 'A' {
		other = "B"
	}
	return token[:middle] + other + token[middle+1:]
}

// wait outlives a token.
func wait(token string) string {
	time.Sleep(ttl + 50*time.Millisecond)
	return token
}

func heading(out io.Writer, text string) { fmt.Fprintf(out, "\n%s\n\n", text) }
