package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An Opener opens the sources that URIs of certain schemes name.
type Opener struct {
	// Schemes are the URI schemes, in lower case and without "://".
	Schemes []string

	// Open returns the source that the URI names. ctx bounds the opening only.
	Open func(ctx context.Context, uri string) (Source, error)
}

// NewOpener returns an opener made of a function and the schemes of its URIs.
func NewOpener[S Source](open func(ctx context.Context, uri string) (S, error), schemes ...string) Opener {
	return Opener{
		Schemes: schemes,
		Open: func(ctx context.Context, uri string) (Source, error) {
			source, err := open(ctx, uri)
			if err != nil {
				return nil, err // and no interface around a nil pointer
			}
			return source, nil
		},
	}
}

// HTTPOpener opens http://HOST:PORT/PATH, see [HTTP].
func HTTPOpener() Opener {
	return NewOpener(func(_ context.Context, uri string) (Source, error) { return HTTP(uri) }, "http")
}

// DNSOpener opens dns+http://NAME:PORT/PATH, see [DNS].
func DNSOpener(resolver Resolver) Opener {
	return NewOpener(func(_ context.Context, uri string) (Source, error) { return DNS(uri, resolver) }, "dns+http")
}

// Openers are the sources that a program can open by URI: an explicit list, since
// nothing registers itself. Of two with one scheme the first counts.
//
//	openers := fleet.Openers{fleet.HTTPOpener(), fleet.DNSOpener(nil)}
type Openers []Opener

// Open opens the sources that the URIs name, in that order. ctx bounds the opening only.
// [Sources.Close] ends what was opened.
//
// The error is [ErrConfig] and names the schemes if a URI is empty or without a known
// one; others are those of the Opener. Of a URI that is refused here only the scheme is
// shown.
func (o Openers) Open(ctx context.Context, uris ...string) (Sources, error) {
	openers := make([]Opener, len(uris))
	for i, uri := range uris {
		if strings.TrimSpace(uri) == "" { // as of a variable that is not set
			return nil, fmt.Errorf("%w: fleet source %d of %d is empty: give its URI, or leave it out; %s", ErrConfig, i+1, len(uris), o.known())
		}
		scheme, _, ok := strings.Cut(uri, "://")
		if !ok {
			return nil, fmt.Errorf("%w: fleet source %d is not given as SCHEME://…; %s", ErrConfig, i+1, o.known())
		}
		at := slices.IndexFunc(o, func(opener Opener) bool {
			return slices.Contains(opener.Schemes, strings.ToLower(scheme)) // RFC 3986, section 3.1
		})
		if at < 0 {
			return nil, fmt.Errorf("%w: no fleet source has the scheme %.32q; %s", ErrConfig, scheme, o.known())
		}
		openers[i] = o[at]
	}
	var sources Sources
	for i, uri := range uris {
		source, err := openers[i].Open(ctx, uri)
		if err != nil {
			return nil, errors.Join(err, sources.Close())
		}
		sources = append(sources, source)
	}
	return sources, nil
}

func (o Openers) known() string {
	var schemes []string
	for _, opener := range o {
		for _, scheme := range opener.Schemes {
			if !slices.Contains(schemes, scheme) {
				schemes = append(schemes, scheme)
			}
		}
	}
	if len(schemes) == 0 {
		return "this program knows no scheme"
	}
	return "the schemes are " + strings.Join(schemes, ", ")
}
