package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The schemes of URIs: without TLS unless the environment asks for it, and with TLS.
const (
	scheme    = "etcd"
	schemeTLS = "etcds"
)

// A place is where a keyset is kept: a key in a cluster.
type place struct {
	client *clientv3.Client
	key    string
	close  func() error // nil: the client is somebody else's
}

func newPlace(client *clientv3.Client, key string) (place, error) {
	if client == nil {
		return place{}, errors.New("no client")
	}
	if err := checkKey(key); err != nil {
		return place{}, err
	}
	return place{client: client, key: key}, nil
}

// String returns the URI of the place.
func (p *place) String() string {
	prefix, hosts := scheme, p.client.Endpoints()
	for i, endpoint := range hosts {
		if at, rest, ok := strings.Cut(endpoint, "://"); ok {
			endpoint = rest
			if at == "https" {
				prefix = schemeTLS
			}
		}
		hosts[i] = endpoint[strings.LastIndexByte(endpoint, '@')+1:] // a password, in a client that ignores it
	}
	return prefix + "://" + strings.Join(hosts, ",") + "/" + escapeKey(p.key)
}

// begin returns the context of a call, which remembers why an attempt failed. It ends
// with ctx, and when the client is closed: the vendor's own calls only see that they are
// cancelled, and try again.
func (p *place) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(withReason(ctx))
	if p.isClosed() {
		cancel()
	}
	stop := context.AfterFunc(p.client.Ctx(), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// isClosed reports whether the client was closed, by whomever it belongs to.
func (p *place) isClosed() bool { return p.client.Ctx().Err() != nil }

// Close ends the connection, if Open made it.
func (p *place) Close() error {
	if p.close == nil {
		return nil
	}
	return p.close()
}

const maxKey = 512 // bytes

// checkKey allows the keys that can be shown and typed, and below which others fit.
func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("there is no key: write etcd://HOST:PORT/KEY")
	case len(key) > maxKey:
		return fmt.Errorf("the key is %d bytes long, and at most %d are allowed", len(key), maxKey)
	case strings.HasSuffix(key, "/"):
		return errors.New("the key ends in a slash: name the key of the document, not what is before it")
	case !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("the key holds what is not printable UTF-8")
	}
	return nil
}

func escapeKey(key string) string {
	parts := strings.Split(key, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}
