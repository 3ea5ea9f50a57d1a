package keyset_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/keyset"
)

func opener(schemes ...string) keyset.Opener {
	return keyset.Opener{
		Schemes: schemes,
		Open: func(_ context.Context, uris ...string) (keyset.KeyService, error) {
			for _, uri := range uris {
				if strings.HasSuffix(uri, "bad") {
					return nil, keyset.Denied
				}
			}
			return memkek.New(uris...), nil
		},
	}
}

func TestOpeners(t *testing.T) {
	openers := keyset.Openers{opener("one"), opener("two", "zwei"), opener("one")}
	for _, c := range []struct {
		uris string
		want string // the URIs of each service
	}{
		{"one://a", "one://a"},
		{"two://a one://b", "two://a; one://b"},
		{"zwei://a one://b two://c one://d", "zwei://a two://c; one://b one://d"},
		{"ONE://A", "ONE://A"},
		{"one:///path?a=b://c", "one:///path?a=b://c"},
	} {
		services, err := openers.Open(t.Context(), strings.Fields(c.uris)...)
		if err != nil {
			t.Errorf("%s: %v", c.uris, err)
			continue
		}
		groups := strings.Split(c.want, "; ")
		if len(services) != len(groups) {
			t.Errorf("%s: %d services", c.uris, len(services))
			continue
		}
		for i, group := range groups {
			for _, uri := range strings.Fields(group) {
				if !services[i].Opens("memkek://" + uri) {
					t.Errorf("%s: service %d does not have %s", c.uris, i, uri)
				}
			}
		}
	}
}

func TestOpenersErrors(t *testing.T) {
	openers := keyset.Openers{opener("one"), opener("two", "one")}
	for _, c := range []struct {
		name    string
		openers keyset.Openers
		uris    []string
		err     error
		says    string
	}{
		{"no URI", openers, nil, keyset.ErrConfig, "no key service: give the URI of at least one key; the schemes are one, two"},
		{"an empty variable", openers, []string{""}, keyset.ErrConfig, "no key service: give the URI of at least one key; the schemes are one, two"},
		{"nothing but space", openers, []string{"", " \t\n"}, keyset.ErrConfig, "no key service: give the URI of at least one key; the schemes are one, two"},
		{"an empty one before others", openers, []string{"", "one://canary"}, keyset.ErrConfig, "key service 1 of 2 is empty: give its URI, or leave it out; the schemes are one, two"},
		{"an empty one after others", openers, []string{"one://canary", "two://canary", " "}, keyset.ErrConfig, "key service 3 of 3 is empty"},
		{"unknown scheme", openers, []string{"one://a", "three://user:canary@host"}, keyset.ErrConfig, `no key service has the scheme "three"; the schemes are one, two`},
		{"no scheme", openers, []string{"one://a", "canary"}, keyset.ErrConfig, "key service 2 is not given as SCHEME://…; the schemes are one, two"},
		{"a bare path", openers, []string{"/etc/canary"}, keyset.ErrConfig, "key service 1 is not given"},
		{"no opener", nil, []string{"one://a"}, keyset.ErrConfig, "this program knows no scheme"},
		{"the opener's own", openers, []string{"two://a", "one://bad"}, keyset.Denied, "denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			services, err := c.openers.Open(t.Context(), c.uris...)
			if services != nil || !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, %v", services, err)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error shows the URI: %v", err)
			}
		})
	}
}

func TestNewOpenerGivesNoServiceWithAnError(t *testing.T) {
	o := keyset.NewOpener(func(context.Context, ...string) (*memkek.Service, error) { return nil, keyset.Denied }, "one", "two")
	service, err := o.Open(t.Context(), "one://a")
	if service != nil || !errors.Is(err, keyset.Denied) || strings.Join(o.Schemes, " ") != "one two" {
		t.Errorf("%v, %v, %q", service, err, o.Schemes)
	}
}

var errAskedFor = errors.New("that was all the time")

// A told service tells when it is closed.
type told struct {
	*memkek.Service
	closed chan struct{}
}

func (c told) Close() error {
	close(c.closed)
	return nil
}

// An Opener that does not heed its context, as where a key file is on a mount that hangs, is
// left behind, and what it opens late is closed; what was opened before it is, too.
func TestOpenersHang(t *testing.T) {
	first, second := memkek.New("first"), memkek.New("second")
	synctest.Test(t, func(t *testing.T) {
		early, late := told{first, make(chan struct{})}, told{second, make(chan struct{})}
		openers := keyset.Openers{
			keyset.NewOpener(func(context.Context, ...string) (told, error) { return early, nil }, "early"),
			keyset.NewOpener(func(context.Context, ...string) (told, error) { time.Sleep(time.Hour); return late, nil }, "late"),
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errAskedFor)
		defer cancel()
		began := time.Now()
		services, err := openers.Open(ctx, "early://canary", "late://canary")
		if took := time.Since(began); services != nil || took > time.Minute+time.Second {
			t.Errorf("%v after %v", services, took)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errAskedFor) || !strings.Contains(err.Error(), "opening the key service late://…: it does not answer; look at the disk, ") || strings.Contains(err.Error(), "canary") {
			t.Error(err)
		}
		<-early.closed
		<-late.closed
		if took := time.Since(began); took != time.Hour {
			t.Errorf("what came late is closed after %v", took)
		}
	})
}
