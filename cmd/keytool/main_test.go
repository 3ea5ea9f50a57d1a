package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/echoseal/echoseal/cmd/keytool/cli"
	"github.com/echoseal/echoseal/keyset"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"keytool": keytool})
}

// keytool is main, with what the scripts need beside: a clock that they set, faults that
// they ask for, a record of all that was printed, and a look at each JSON document.
func keytool() {
	// Without this a reader that has gone, as head does, would kill a run in its middle.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	s := cli.OS()
	if file := os.Getenv("TEST_CLOCK"); file != "" {
		s.Now, s.Sleep = clock(file).now, clock(file).sleep
	}
	if fault := os.Getenv("TEST_FAULT"); fault != "" {
		s.Stores = keyset.SourceOpeners{faultOpener(fault)}
	}
	if fault := os.Getenv("TEST_KEYFAULT"); fault != "" {
		s.KeyServices = keyset.Openers{keyFaultOpener(fault)}
	}
	s.Fleets = append(fleets(), registryOpener())
	var stdout bytes.Buffer
	args := os.Args[1:]
	if wantsJSON(args) {
		s.Stdout = &stdout
	}
	if file := os.Getenv("TEST_TRANSCRIPT"); file != "" {
		transcript, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(transcript, "$ keytool %q\n", args)
		if !isTerminal(os.Stdout) {
			s.Stdout = io.MultiWriter(s.Stdout, transcript)
		}
		if !isTerminal(os.Stderr) {
			s.Stderr = io.MultiWriter(s.Stderr, transcript)
		}
	}
	code := cli.Run(ctx, s, args...)
	stop()
	if file := os.Getenv("TEST_TRANSCRIPT"); file != "" {
		_ = os.WriteFile(filepath.Join(filepath.Dir(file), ".exit"), []byte(strconv.Itoa(code)), 0o600)
	}
	if wantsJSON(args) {
		if err := checkDocument(args, stdout.Bytes()); err != nil {
			fmt.Fprintf(os.Stderr, "keytool %q: not the one document that is published: %v\n%s\n", args, err, stdout.Bytes())
			os.Exit(99)
		}
		_, _ = os.Stdout.Write(stdout.Bytes())
	}
	os.Exit(code)
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func wantsJSON(args []string) bool {
	line := strings.Join(args, " ") + " "
	for _, form := range []string{"-o json ", "-o=json ", "-ojson ", "--output json ", "--output=json "} {
		if strings.Contains(line, form) {
			return true
		}
	}
	return false
}

// A clock is a file that holds a time. Whoever sleeps moves it on.
type clock string

func (c clock) now() time.Time {
	text, err := os.ReadFile(string(c))
	if err != nil {
		panic(err)
	}
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		panic(err)
	}
	return t
}

func (c clock) set(t time.Time) {
	draft := fmt.Sprintf("%s.%d", c, os.Getpid())
	if err := os.WriteFile(draft, []byte(t.UTC().Format(time.RFC3339Nano)), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(draft, string(c)); err != nil {
		panic(err)
	}
}

func (c clock) sleep(ctx context.Context, d time.Duration) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if hold := os.Getenv("TEST_HOLD"); hold != "" {
		// The script wants the process to be here for as long as the file is not, and to
		// know that it is.
		if err := os.WriteFile(hold+".held", nil, 0o600); err != nil {
			return err
		}
		for {
			if _, err := os.Stat(hold); err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	c.set(c.now().Add(d))
	return nil
}
