package keyset

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// A SourceOpener opens the sources that URIs of certain schemes name. Modules with a store
// have a function that returns it.
type SourceOpener struct {
	// Schemes are the URI schemes, in lower case and without "://".
	Schemes []string

	// Open returns the source that the URI names. ctx bounds the opening only. A source
	// that holds connections is an [io.Closer].
	Open func(ctx context.Context, uri string) (Source, error)
}

// NewSourceOpener returns an opener made of a function and the schemes of its URIs.
func NewSourceOpener[S Source](open func(ctx context.Context, uri string) (S, error), schemes ...string) SourceOpener {
	return SourceOpener{
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

// FileOpener opens file:///path and plain paths, see [File].
func FileOpener() SourceOpener { return NewSourceOpener(openFile, fileScheme) }

// EnvOpener opens env://NAME, see [Env].
func EnvOpener() SourceOpener { return NewSourceOpener(openEnv, envScheme) }

// SourceOpeners are the places of keysets that a program can open by URI: an explicit
// list, since nothing registers itself. Of two with one scheme the first counts.
//
//	openers := keyset.SourceOpeners{keyset.FileOpener(), keyset.EnvOpener(), etcdstore.Opener()}
type SourceOpeners []SourceOpener

// Open opens the place that a URI names. What has no "://" is the path of a file, if the
// list opens files. Whether the place can be written is told by a type assertion to
// [Store], and whether it is to be closed by one to [io.Closer]. ctx bounds the opening
// only.
//
// The error is [ErrConfig] and names the schemes if there is no URI, or one without a
// known scheme; others are those of the SourceOpener. Of a URI that is refused here only
// the scheme is shown.
func (o SourceOpeners) Open(ctx context.Context, uri string) (Source, error) {
	if uri == "" {
		return nil, fmt.Errorf("%w: no store: give its URI; %s", ErrConfig, o.known())
	}
	scheme, _, ok := strings.Cut(uri, "://")
	if !ok {
		scheme = fileScheme
	}
	for _, opener := range o {
		if slices.Contains(opener.Schemes, strings.ToLower(scheme)) { // RFC 3986, section 3.1
			return opener.Open(ctx, uri)
		}
	}
	if !ok {
		return nil, fmt.Errorf("%w: the store is not given as SCHEME://…; %s", ErrConfig, o.known())
	}
	return nil, fmt.Errorf("%w: no store has the scheme %.32q; %s", ErrConfig, scheme, o.known())
}

func (o SourceOpeners) known() string {
	var schemes []string
	for _, opener := range o {
		schemes = append(schemes, opener.Schemes...)
	}
	return knownSchemes(schemes)
}
