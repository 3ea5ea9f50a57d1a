package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	spread := flags.Bool("spread", false, "measure cores, rings, swaps, FIPS mode and a server's round instead of the table")
	page := flags.String("write", "", "measure both, and write them into this `file`, between its markers")
	mode := flags.String("once", "", "print the nanoseconds of a `seal` or an unseal in this process")
	if err := flags.Parse(args); err != nil {
		return err
	}
	heap := grow()
	defer runtime.KeepAlive(heap)
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("what is %q? Only flags are known", flags.Arg(0))
	case *mode != "":
		return once(stdout, *mode)
	case *page != "":
		return writePage(ctx, *page, stderr)
	case *spread:
		if err := writeSpread(ctx, stdout); err != nil {
			return err
		}
	default:
		t, err := measure(ctx, stderr)
		if err != nil {
			return err
		}
		t.write(stdout)
	}
	fmt.Fprintln(stdout, "\n"+machine(time.Now()))
	return nil
}

// grow makes this process one that has been running with something in memory, as servers
// have. In one without, the garbage collector runs every few milliseconds; and memory that
// comes from the system for the first time costs more than what it is used for.
func grow() (inUse []byte) {
	const size, piece = 64 << 20, 1 << 10
	inUse = make([]byte, size)
	var garbage []byte
	for range 2 * size / piece {
		garbage = make([]byte, piece) // on the heap, since it outlives its turn
	}
	runtime.KeepAlive(garbage)
	return inUse
}

// writePage measures everything and replaces what stands between the page's markers. The page
// is looked at first, so that no measurement is lost to a wrong name.
func writePage(ctx context.Context, name string, notes io.Writer) error {
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if _, err := replace(page, nil); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var text bytes.Buffer
	t, err := measure(ctx, notes)
	if err != nil {
		return err
	}
	t.write(&text)
	text.WriteString("\n")
	if err := writeSpread(ctx, &text); err != nil {
		return err
	}
	fmt.Fprintln(&text, "\n"+machine(time.Now()))
	if page, err = replace(page, text.Bytes()); err != nil {
		return err
	}
	return os.WriteFile(name, page, 0o644) //nolint:gosec // G306: a page of the documentation
}

// The markers between which the figures of a page stand.
const (
	begin = "<!-- measured: go run ./bench -write -->\n"
	end   = "<!-- end of what was measured -->\n"
)

func replace(page, figures []byte) ([]byte, error) {
	before, rest, ok := bytes.Cut(page, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return nil, fmt.Errorf("the lines %q and %q must stand in it, in this order", begin, end)
	}
	return bytes.Join([][]byte{before, []byte(begin), figures, []byte(end), after}, nil), nil
}

func platform() string {
	return fmt.Sprintf("%d cores, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}
