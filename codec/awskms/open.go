package awskms

import (
	"context"
	"net/netip"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/echoseal/echoseal/keyset"
)

// Open returns a service for the keys that the URIs name, with a client that is
// configured as the AWS CLI is: by environment, profile, container or instance role.
//
//	awskms:///KEY?region=R&profile=P&endpoint=URL
//
// KEY is a key ARN, a key id, alias/NAME or an alias ARN. The first key wraps, every
// one unwraps. They may be in several regions, and be reached in several ways.
//
//   - region is for a key id and alias/NAME, and by default that of the environment or
//     profile. An ARN has its own, whatever the environment says; the parameter must
//     not contradict it.
//   - profile is a profile of the shared AWS configuration; by default AWS_PROFILE.
//   - endpoint is where all calls for this key go; by default AWS_ENDPOINT_URL_KMS,
//     AWS_ENDPOINT_URL, or the regional endpoint. Plain http is for this host only.
//
// A key ARN takes no call. All else is looked up once, here, with kms:DescribeKey, so
// that moving an alias later changes nothing. ctx bounds that, with the search for
// credentials; the service does not keep it.
//
// An error is [keyset.ErrConfig] and names the URI's fault, or a [*keyset.KeyError].
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
		return nil, configError("no key: write %sKEY", prefix)
	}
	s := &Service{}
	clients := make(map[connection]*kms.Client)
	for _, l := range locations {
		c := clients[l.connection]
		if c == nil {
			var err error
			if c, err = l.connect(ctx); err != nil {
				return nil, err
			}
			clients[l.connection] = c
		}
		a, err := l.reference.resolve(ctx, c)
		if err != nil {
			return nil, err
		}
		if err := s.add(c, a); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Opener returns what [keyset.Openers] needs to open URIs of the scheme awskms.
func Opener() keyset.Opener { return keyset.NewOpener(Open, scheme) }

// A location is a parsed URI.
type location struct {
	reference
	connection
}

// A connection is how a key is reached; a part that is "" is left to the SDK.
type connection struct{ region, profile, endpoint string }

func parseURI(uri string) (location, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != scheme || u.Opaque != "" || u.User != nil || u.Fragment != "" {
		return location{}, configError("a key is named by a URI of the form %sKEY?region=R&profile=P&endpoint=URL", prefix)
	}
	if u.Host != "" {
		return location{}, configError("a URI names a host: write %sKEY with three slashes, and an endpoint as ?endpoint=URL", prefix)
	}
	r, err := parseReference(u.Path)
	if err != nil {
		return location{}, err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return location{}, configError("key %s: the query is malformed", r.id)
	}
	l := location{reference: r}
	for name, values := range query {
		parameter := map[string]*string{"region": &l.region, "profile": &l.profile, "endpoint": &l.endpoint}[name]
		if parameter == nil || len(values) != 1 || values[0] == "" {
			return location{}, configError("key %s: the parameter %.100q is unknown, empty or there twice; the parameters are region, profile and endpoint", r.id, name)
		}
		*parameter = values[0]
	}
	if r.arn.Region == "" {
		return l, nil
	}
	if l.region != "" && l.region != r.arn.Region {
		return location{}, configError("key %s is in the region %s, and region=%s is asked for: leave it out", r.id, r.arn.Region, l.region)
	}
	l.region = r.arn.Region
	return l, nil
}

// connect makes a client. It makes no call of KMS.
func (c connection) connect(ctx context.Context) (*kms.Client, error) {
	var options []func(*config.LoadOptions) error
	if c.region != "" {
		options = append(options, config.WithRegion(c.region))
	}
	if c.profile != "" {
		options = append(options, config.WithSharedConfigProfile(c.profile))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, configError("loading the AWS configuration: %v", err)
	}
	if loaded.Region == "" {
		return nil, configError("no region: write a key ARN, add ?region=R, or set AWS_REGION")
	}
	client := kms.NewFromConfig(loaded, func(o *kms.Options) {
		if c.endpoint != "" {
			o.BaseEndpoint = aws.String(c.endpoint)
		}
	})
	return client, checkEndpoint(aws.ToString(client.Options().BaseEndpoint))
}

// checkEndpoint refuses an endpoint over which data keys would travel in the clear.
func checkEndpoint(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return configError("the endpoint is not a URL of the form https://HOST:PORT")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return configError("the endpoint %s is not https: data keys travel in the clear over http, so that it is for this host only", endpoint)
	}
	return nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback() // any other name is looked up
}
