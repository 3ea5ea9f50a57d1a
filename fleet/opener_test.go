package fleet_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/echoseal/echoseal/fleet"
)

// A closing source counts how many of its kind are open.
type closing struct {
	canned
	open *int
}

var errClose = errors.New("closing failed")

func (c closing) Close() error {
	*c.open--
	return c.err
}

var _ io.Closer = closing{}

func TestOpeners(t *testing.T) {
	open := 0
	openers := fleet.Openers{
		fleet.HTTPOpener(), fleet.DNSOpener(nil),
		fleet.NewOpener(func(_ context.Context, uri string) (*closing, error) {
			if uri == "mem://bad" {
				return nil, errDown
			}
			open++
			return &closing{canned{name: uri}, &open}, nil
		}, "mem", "memory"),
		fleet.NewOpener(func(context.Context, string) (fleet.Source, error) {
			return nil, errors.New("the first with a scheme counts")
		}, "memory", "http"),
	}
	uris := []string{"mem://a", "http://127.0.0.1:80/", "MEMORY://b", "dns+http://mcp.test:80/"}
	sources, err := openers.Open(t.Context(), uris...)
	if err != nil || len(sources) != len(uris) || open != 2 {
		t.Fatalf("%v, %v, %d open", sources, err, open)
	}
	for i, source := range sources {
		if source.String() != uris[i] {
			t.Errorf("source %d is %s, want %s", i, source, uris[i])
		}
	}
	if err := sources.Close(); err != nil || open != 0 {
		t.Errorf("%v, %d open", err, open)
	}
	if sources, err := openers.Open(t.Context()); err != nil || len(sources) != 0 {
		t.Errorf("no URI: %v, %v", sources, err)
	}

	// What was opened before an error is closed.
	sources, err = openers.Open(t.Context(), "mem://a", "mem://bad")
	wantErr(t, "bad", err, errDown)
	if sources != nil || open != 0 {
		t.Errorf("%v, %d open", sources, open)
	}
	for uri, words := range map[string][]string{
		"":                     {"fleet source 2 of 2 is empty: give its URI, or leave it out", "http, dns+http, mem, memory"},
		" ":                    {"fleet source 2 of 2 is empty"},
		"127.0.0.1:80":         {"source 2", "SCHEME://", "http, dns+http, mem, memory"},
		"etcd://x:canary@h/":   {`"etcd"`, "http, dns+http, mem, memory"},
		"http://u:canary@h:1/": {"user name"},
	} {
		_, err := openers.Open(t.Context(), "mem://a", uri)
		wantErr(t, uri, err, fleet.ErrConfig, words...)
		if open != 0 {
			t.Errorf("%s: %d open", uri, open)
		}
	}
	_, err = fleet.Openers(nil).Open(t.Context(), "http://127.0.0.1:80")
	wantErr(t, "no opener", err, fleet.ErrConfig, "knows no scheme")

	broken := fleet.Sources{closing{canned{err: errClose}, &open}, canned{}, closing{canned{}, &open}}
	wantErr(t, "Close", broken.Close(), errClose)
	if open != -2 {
		t.Errorf("%d were closed, want 2", -open)
	}
}
