package fleet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
)

// A Resolver finds the addresses of a name. A [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// DNS returns the source that is every address of a name, dns+http://NAME:PORT/PATH, as
// a headless service of Kubernetes publishes them. Addresses of instances that are not
// ready have to be among them (publishNotReadyAddresses), and no client may reach an
// instance whose address is not. A name without an address is a failure. Each address is
// asked as by [HTTP], many at once. A nil resolver means that of the host.
//
// The error is [ErrConfig].
func DNS(uri string, resolver Resolver) (Source, error) {
	u, err := parseURI(uri, "dns+http")
	if err != nil {
		return nil, err
	}
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	port, _ := strconv.ParseUint(u.Port(), 10, 16) // parseURI has seen to it
	return &dnsSource{uri: "dns+" + u.String(), at: u, port: uint16(port), resolver: resolver, fetcher: newFetcher()}, nil
}

type dnsSource struct {
	uri      string
	at       *url.URL
	port     uint16
	resolver Resolver
	fetcher
}

func (s *dnsSource) String() string { return s.uri }

// Collect looks the name up and asks all its addresses.
func (s *dnsSource) Collect(ctx context.Context) ([]Answer, error) {
	addresses, err := s.addresses(ctx)
	if err != nil {
		return nil, err
	}
	return each(addresses, func(address netip.Addr) Answer {
		return s.fetch(ctx, s.at, netip.AddrPortFrom(address, s.port).String())
	}), nil
}

func (s *dnsSource) addresses(ctx context.Context) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	addresses, err := s.resolver.LookupNetIP(ctx, "ip", s.at.Hostname())
	if err != nil {
		return nil, fmt.Errorf("%w: looking up the name: %w", ErrUnreachable, err)
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("%w: the name has no address", ErrUnreachable)
	}
	addresses = slices.Clone(addresses)
	for i := range addresses {
		addresses[i] = addresses[i].Unmap() // so that one address is not two
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return slices.Compact(addresses), nil
}
