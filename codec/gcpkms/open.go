package gcpkms

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	kms "cloud.google.com/go/kms/apiv1"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/echoseal/echoseal/keyset"
)

// Open returns a service for the keys that the URIs name, with a client that is
// configured the vendor's usual way: by Application Default Credentials, which are a
// file that GOOGLE_APPLICATION_CREDENTIALS names, what gcloud auth application-default
// login left, or the metadata server.
//
//	gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K?endpoint=HOST:PORT
//
// The first key wraps, every one unwraps. The primary version wraps, or the one with
// which the name ends (/cryptoKeyVersions/N). The endpoint is where all calls for this
// key go, such as a regional one or that of Private Service Connect, always over TLS;
// the port is 443 by default.
//
// It makes no call of Cloud KMS; ctx bounds the search for credentials, and the
// service does not keep it. [Service.Close] ends its connections, which are closed
// after a minute without a call, too, and opened anew when there is one.
//
// The error is [keyset.ErrConfig] and names the URI's fault or the setting, or a
// [*keyset.KeyError] if time was up.
func Open(ctx context.Context, uris ...string) (*Service, error) {
	locations := make([]location, 0, len(uris))
	for _, uri := range uris {
		l, err := parseURI(uri)
		if err != nil {
			return nil, err
		}
		locations = append(locations, l)
	}
	if len(locations) == 0 {
		return nil, configError("no key: write %s%s", prefix, form)
	}
	s := &Service{}
	clients := make(map[string]*kms.KeyManagementClient)
	for _, l := range locations {
		c := clients[l.endpoint]
		if c == nil {
			var err error
			if c, err = l.connect(ctx); err != nil {
				return nil, errors.Join(err, s.Close())
			}
			clients[l.endpoint] = c
			s.closers = append(s.closers, c)
		}
		s.add(l.reference, c)
	}
	return s, nil
}

// Opener returns what [keyset.Openers] needs to open URIs of the scheme gcpkms.
func Opener() keyset.Opener { return keyset.NewOpener(Open, scheme) }

// A location is a parsed URI.
type location struct {
	reference
	endpoint string // HOST:PORT, or "" for the vendor's
}

func parseURI(uri string) (location, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != scheme || u.Opaque != "" || u.User != nil || u.Fragment != "" {
		return location{}, configError("a key is named by a URI of the form %s%s?endpoint=HOST:PORT", prefix, form)
	}
	r, err := parseReference(u.Host + u.Path)
	if err != nil {
		return location{}, err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return location{}, configError("key %s: the query is malformed", r.name)
	}
	l := location{reference: r}
	for name, values := range query {
		if name != "endpoint" || len(values) != 1 {
			return location{}, configError("key %s: the parameter %.100q is unknown or there twice; the only parameter is endpoint", r.name, name)
		}
		if l.endpoint, err = parseEndpoint(values[0]); err != nil {
			return location{}, err
		}
	}
	return l, nil
}

// parseEndpoint returns an endpoint with its port.
func parseEndpoint(text string) (string, error) {
	const defaultPort = "443"
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), defaultPort
	}
	_, err = strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || strings.ContainsAny(host, "/@?#%[] ") || strings.Count(host, ":") == 1 {
		return "", configError("the endpoint is not HOST or HOST:PORT")
	}
	return net.JoinHostPort(host, port), nil
}

// idleTimeout is when a connection is closed that is not used. A server unwraps when it
// starts, and then not for a long time; what stands in between would have forgotten the
// connection by then, and the next call would wait in vain.
const idleTimeout = time.Minute

// connect makes a client. It makes no call of Cloud KMS.
func (l location) connect(ctx context.Context) (*kms.KeyManagementClient, error) {
	options := []option.ClientOption{silent, option.WithGRPCDialOption(grpc.WithIdleTimeout(idleTimeout))}
	if l.endpoint != "" {
		options = append(options, option.WithEndpoint(l.endpoint))
	}
	c, err := await(ctx, func() (*kms.KeyManagementClient, error) {
		return kms.NewKeyManagementClient(ctx, options...)
	}, func(late *kms.KeyManagementClient) { _ = late.Close() })
	if cause := ctx.Err(); err != nil && cause != nil {
		return nil, l.keyError(failedSearch, "credentials.DetectDefault", "", fmt.Errorf("%w: %w", cause, err))
	}
	if err != nil {
		return nil, configError("finding credentials: %w", err)
	}
	return c, nil
}
