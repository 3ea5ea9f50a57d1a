package fleet

import (
	"context"
	"net/netip"
)

// HTTPOpener opens http://HOST:PORT/PATH, see [HTTP].
func HTTPOpener() Opener { panic("TODO") }

// HTTP returns the source that is one instance at an address, which serves its report
// there ([Handler]). It must not be that of a balancer: of the instances behind it one
// would answer for all. The port is required. No redirect is followed and no proxy used.
//
// The error is [ErrConfig].
func HTTP(uri string) (Source, error) { panic("TODO") }

// DNSOpener opens dns+http://NAME:PORT/PATH, see [DNS].
func DNSOpener(resolver Resolver) Opener { panic("TODO") }

// DNS returns the source that is every address of a name, as a headless service of
// Kubernetes publishes them. Addresses of instances that are not ready have to be among
// them, and no client may reach an instance whose address is not. A name without an
// address is a failure. Each address is then asked as by [HTTP]. A nil resolver means
// that of the host.
//
// The error is [ErrConfig].
func DNS(uri string, resolver Resolver) (Source, error) { panic("TODO") }

// A Resolver finds the addresses of a name. [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}
