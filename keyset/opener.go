package keyset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/echoseal/echoseal/internal/within"
)

// An Opener opens the key services that URIs of certain schemes name. The module of
// each service has a function Opener that returns it.
type Opener struct {
	// Schemes are the URI schemes, in lower case and without "://".
	Schemes []string

	// Open returns one service for the keys that the URIs name, at least one. The
	// first key wraps, every one unwraps. ctx bounds the opening only.
	Open func(ctx context.Context, uris ...string) (KeyService, error)
}

// NewOpener returns the opener of a key service: its function Open and the schemes of its
// URIs.
func NewOpener[S KeyService](open func(ctx context.Context, uris ...string) (S, error), schemes ...string) Opener {
	return Opener{
		Schemes: schemes,
		Open: func(ctx context.Context, uris ...string) (KeyService, error) {
			service, err := open(ctx, uris...)
			if err != nil {
				return nil, err // and no interface around a nil pointer
			}
			return service, nil
		},
	}
}

// Openers are the key services that a program can open by URI: an explicit list, since
// nothing registers itself. Of two with one scheme the first counts.
//
//	openers := keyset.Openers{localkek.Opener(), awskms.Opener()}
type Openers []Opener

// Open opens the key services that the URIs name: one for all the URIs of an Opener, in
// the order in which the URIs first name them. So the first URI names the key that
// wraps. [Services.Close] ends what was opened. Keys that one service cannot hold together,
// in two clusters of Vault say, take two calls, and append.
//
// ctx bounds the opening only. An Opener that does not heed its end, as one that reads a
// file on a mount that hangs, is left behind soon after it; what it opens then is closed.
//
// The error is [ErrConfig] and names the schemes if there is no URI, an empty one among
// others, or one without a known scheme; others are those of the Opener. Of a URI that is
// refused here only the scheme is shown.
func (o Openers) Open(ctx context.Context, uris ...string) (Services, error) {
	blank := func(uri string) bool { return strings.TrimSpace(uri) == "" }
	if !slices.ContainsFunc(uris, func(uri string) bool { return !blank(uri) }) { // none, or a variable that is not set
		return nil, fmt.Errorf("%w: no key service: give the URI of at least one key; %s", ErrConfig, o.known())
	}
	var order []int // indices of o
	named := make([][]string, len(o))
	for i, uri := range uris {
		if blank(uri) {
			return nil, fmt.Errorf("%w: key service %d of %d is empty: give its URI, or leave it out; %s", ErrConfig, i+1, len(uris), o.known())
		}
		scheme, _, ok := strings.Cut(uri, "://")
		if !ok {
			return nil, fmt.Errorf("%w: key service %d is not given as SCHEME://…; %s", ErrConfig, i+1, o.known())
		}
		at := slices.IndexFunc(o, func(opener Opener) bool {
			return slices.Contains(opener.Schemes, strings.ToLower(scheme)) // RFC 3986, section 3.1
		})
		if at < 0 {
			return nil, fmt.Errorf("%w: no key service has the scheme %.32q; %s", ErrConfig, scheme, o.known())
		}
		if named[at] == nil {
			order = append(order, at)
		}
		named[at] = append(named[at], uri)
	}
	services := make(Services, len(order))
	for i, at := range order {
		service, err := o[at].inTime(ctx, named[at])
		if err != nil {
			return nil, errors.Join(err, services[:i].Close())
		}
		services[i] = service
	}
	return services, nil
}

// inTime opens, as long as ctx allows.
func (o Opener) inTime(ctx context.Context, uris []string) (KeyService, error) {
	var mu sync.Mutex
	var opened KeyService
	late := false
	err := within.Call(ctx, func() error {
		service, err := o.Open(ctx, uris...)
		mu.Lock()
		defer mu.Unlock()
		if err == nil && late {
			return Services{service}.Close()
		}
		opened = service
		return err
	})
	mu.Lock()
	defer mu.Unlock()
	if !errors.Is(err, within.ErrLeft) {
		return opened, err
	}
	if late = true; opened != nil {
		_ = Services{opened}.Close() // it came just now, and is not what went wrong
	}
	scheme, _, _ := strings.Cut(uris[0], "://")
	return nil, fmt.Errorf("opening the key service %s://…: it does not answer; look at the disk, the mount or the network that it is on: %w", scheme, ended(ctx))
}

func (o Openers) known() string {
	var schemes []string
	for _, opener := range o {
		schemes = append(schemes, opener.Schemes...)
	}
	return knownSchemes(schemes)
}

// knownSchemes tells in an error which schemes there are.
func knownSchemes(schemes []string) string {
	var once []string
	for _, scheme := range schemes {
		if !slices.Contains(once, scheme) {
			once = append(once, scheme)
		}
	}
	if len(once) == 0 {
		return "this program knows no scheme"
	}
	return "the schemes are " + strings.Join(once, ", ")
}
