package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/etcdstore"
)

func discard() *log.Logger { return log.New(io.Discard, "", 0) }

func fleets() fleet.Openers {
	return fleet.Openers{fleet.HTTPOpener(), fleet.DNSOpener(nil), etcdstore.FleetOpener()}
}

// A faulty store is a file whose Nth operation of a kind goes wrong in one of the ways
// that a disk, a rival or a power cut has.
type faulty struct {
	*keyset.File
	op   string // load or save
	nth  int    // from 1 on
	way  string
	mu   sync.Mutex
	seen map[string]int
}

// faultOpener opens plain paths as faulty stores: save:2:full, load:1:down.
func faultOpener(fault string) keyset.SourceOpener {
	parts := strings.SplitN(fault, ":", 3)
	nth, err := strconv.Atoi(parts[1])
	if err != nil {
		panic(err)
	}
	return keyset.NewSourceOpener(func(_ context.Context, uri string) (*faulty, error) {
		f, err := keyset.NewFile(strings.TrimPrefix(uri, "file://"))
		return &faulty{File: f, op: parts[0], nth: nth, way: parts[2], seen: make(map[string]int)}, err
	}, "file")
}

func (f *faulty) now(op string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[op]++
	return op == f.op && f.seen[op] == f.nth
}

func (f *faulty) Load(ctx context.Context) ([]byte, string, error) {
	switch {
	case !f.now("load"):
	case f.way == "hang":
		<-ctx.Done()
		return nil, "", ctx.Err()
	default:
		return nil, "", errors.New("the store is down")
	}
	return f.File.Load(ctx)
}

func (f *faulty) Save(ctx context.Context, doc []byte, version string) (string, error) {
	if !f.now("save") {
		return f.File.Save(ctx, doc, version)
	}
	way, by, _ := strings.Cut(f.way, "=")
	switch way {
	case "full":
		return "", &os.PathError{Op: "write", Path: "keyset.json.new", Err: syscall.ENOSPC}
	case "conflict":
		return "", keyset.ErrConflict
	case "kill-before":
		die()
	case "kill-after":
		_, _ = f.File.Save(ctx, doc, version)
		die()
	case "unanswered": // it is written, and nobody says so
		_, _ = f.File.Save(ctx, doc, version)
		return "", context.DeadlineExceeded
	case "slow": // it is written, late
		d, err := time.ParseDuration(by)
		if err != nil {
			panic(err)
		}
		c := clock(os.Getenv("TEST_CLOCK"))
		c.set(c.now().Add(d))
		return f.File.Save(ctx, doc, version)
	}
	panic("no fault " + f.way)
}

// die is kill -9.
func die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}

// A denied key service is one of package localkek that refuses one kind of call.
type denied struct {
	keyset.KeyService
	op    string
	kind  keyset.Kind
	while string // it refuses while there is a file of that name; "" always
}

// keyFaultOpener opens denied key services: wrap:denied, unwrap:unavailable:FILE.
func keyFaultOpener(fault string) keyset.Opener {
	parts := append(strings.SplitN(fault, ":", 3), "")
	return keyset.NewOpener(func(ctx context.Context, uris ...string) (denied, error) {
		s, err := localkek.Open(ctx, uris...)
		return denied{s, parts[0], keyset.Kind(parts[1]), parts[2]}, err
	}, "localkek")
}

func (d denied) error(op string) error {
	return &keyset.KeyError{Kind: d.kind, Key: "localkek://test", Operation: op, Remedy: "allow it"}
}

// refuses reports whether a call of that kind is refused now.
func (d denied) refuses(op string) bool {
	if d.op != op || d.while == "" {
		return d.op == op
	}
	_, err := os.Stat(d.while)
	return err == nil
}

func (d denied) Wrap(ctx context.Context, key []byte, c map[string]string) (keyset.WrappedKey, error) {
	if d.refuses("wrap") {
		return keyset.WrappedKey{}, d.error("wrap")
	}
	return d.KeyService.Wrap(ctx, key, c)
}

func (d denied) Unwrap(ctx context.Context, w keyset.WrappedKey, c map[string]string) ([]byte, error) {
	if d.refuses("unwrap") {
		return nil, d.error("unwrap")
	}
	return d.KeyService.Unwrap(ctx, w, c)
}

// registryOpener opens dir:///path, a registry in a folder.
func registryOpener() fleet.Opener {
	return fleet.NewOpener(func(_ context.Context, uri string) (directory, error) {
		u, err := url.Parse(uri)
		return directory(u.Path), err
	}, "dir")
}

type directory string

func (d directory) String() string { return "dir://" + string(d) }

func (d directory) Collect(context.Context) ([]fleet.Answer, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, err
	}
	var all []fleet.Answer
	for _, e := range entries {
		signed, err := os.ReadFile(filepath.Join(string(d), e.Name()))
		if err != nil {
			return all, err
		}
		all = append(all, fleet.Answer{Address: e.Name(), Registered: true, Signed: signed})
	}
	return all, nil
}

func (d directory) Publish(context.Context, string, []byte, time.Duration) error {
	return errors.New("the scripts do this")
}

func (d directory) Forget(_ context.Context, id string) error {
	if err := os.Remove(filepath.Join(string(d), id)); err != nil {
		return fmt.Errorf("forgetting: %w", err)
	}
	return nil
}
