package fleet

import "context"

// An Opener opens the sources that URIs of certain schemes name.
type Opener struct {
	// Schemes are the URI schemes, in lower case and without "://".
	Schemes []string

	// Open returns the source that the URI names. ctx bounds the opening only.
	Open func(ctx context.Context, uri string) (Source, error)
}

// NewOpener returns an opener made of a function and the schemes of its URIs.
func NewOpener[S Source](open func(ctx context.Context, uri string) (S, error), schemes ...string) Opener {
	panic("TODO")
}

// Openers are the sources that a program can open by URI: an explicit list, since
// nothing registers itself. Of two with one scheme the first counts.
//
//	openers := fleet.Openers{fleet.HTTPOpener(), fleet.DNSOpener(nil), etcdstore.FleetOpener()}
type Openers []Opener

// Open opens the sources that the URIs name. ctx bounds the opening only.
// [Sources.Close] ends what was opened.
//
// The error is [ErrConfig] and names the schemes if there is a URI without a known
// one; others are those of the Opener.
func (o Openers) Open(ctx context.Context, uris ...string) (Sources, error) { panic("TODO") }
