package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// timeout is how long one address may take.
const timeout = 5 * time.Second

// HTTP returns the source that is one instance at an address, http://HOST:PORT/PATH,
// which serves its report there ([Handler]). It must not be the address of a balancer:
// one of the instances behind it would answer for all. No redirect is followed and no
// proxy used; the answer is waited for five seconds. The URI is shown with what is found,
// so that one with a user, a password or a query is refused.
//
// The error is [ErrConfig].
func HTTP(uri string) (Source, error) {
	u, err := parseURI(uri, "http")
	if err != nil {
		return nil, err
	}
	return &httpSource{uri: u.String(), at: u, fetcher: newFetcher()}, nil
}

type httpSource struct {
	uri string
	at  *url.URL
	fetcher
}

func (s *httpSource) String() string { return s.uri }

// Collect asks the instance.
func (s *httpSource) Collect(ctx context.Context) ([]Answer, error) {
	return []Answer{s.fetch(ctx, s.at, s.at.Host)}, nil
}

// parseURI returns the URI SCHEME://HOST:PORT/PATH with the scheme http.
func parseURI(uri, scheme string) (*url.URL, error) {
	fail := func(why string) (*url.URL, error) {
		return nil, fmt.Errorf("%w: a fleet source is not given as %s://HOST:PORT/PATH: %s", ErrConfig, scheme, why)
	}
	u, err := url.Parse(uri)
	if err != nil {
		return fail("it is no URI") // what url.Parse says may show a password
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case u.Scheme != scheme:
		return fail("the scheme is another one")
	case u.User != nil:
		return fail("it has a user name or a password, which nothing asks for")
	case u.Hostname() == "":
		return fail("the host is missing")
	case u.Port() == "":
		return fail("the port is missing")
	case err != nil || port == 0:
		return fail("the port is not a number from 1 to 65535")
	case u.RawQuery != "" || u.ForceQuery:
		// A source is named wherever its reports are, so nothing secret can be part of it.
		return fail("it has a query, which nothing asks for")
	case u.Fragment != "":
		return fail("it has a fragment")
	}
	u.Scheme = "http"
	return u, nil
}

// A fetcher fetches reports. It keeps no connection, so it need not be closed.
type fetcher struct{ transport *http.Transport }

func newFetcher() fetcher {
	return fetcher{&http.Transport{
		DisableKeepAlives:      true,
		DisableCompression:     true, // so that the bound on the answer's size is one on memory
		MaxResponseHeaderBytes: 16 << 10,
	}}
}

// fetch asks address, HOST:PORT, for the report at u.
func (f fetcher) fetch(ctx context.Context, u *url.URL, address string) Answer {
	answer := Answer{Address: address}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	to := *u
	to.Host = address
	request := (&http.Request{
		Method: http.MethodGet,
		URL:    &to,
		Host:   u.Host,
		Header: http.Header{"Accept": {"application/json"}},
	}).WithContext(ctx)
	// The transport alone: a client would follow redirects.
	response, err := f.transport.RoundTrip(request)
	if err != nil {
		answer.Err = unreachable(ctx, err)
		return answer
	}
	defer response.Body.Close()
	if answer.Err = wrongStatus(response.StatusCode); answer.Err != nil {
		return answer
	}
	signed, err := io.ReadAll(io.LimitReader(response.Body, MaxBytes+1))
	switch {
	case err != nil:
		answer.Err = unreachable(ctx, err)
	case len(signed) > MaxBytes:
		answer.Err = errTooLong
	default:
		answer.Signed = signed
	}
	return answer
}

// wrongStatus says what another status than 200 means: with 503, [Handler] has no report
// to give, or a proxy nobody to ask; with any other, somebody else answers.
func wrongStatus(status int) error {
	switch status {
	case http.StatusOK:
		return nil
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fmt.Errorf("%w: it answers with status %d: there is no report now", ErrUnreachable, status)
	default:
		return fmt.Errorf("%w: it answers with status %d", ErrMalformed, status)
	}
}

// unreachable says why there was no answer. The text of other errors than those of the
// network would show what the other side has sent.
func unreachable(ctx context.Context, err error) error {
	var network *net.OpError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w: no answer in time", ErrUnreachable)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: it was not waited for any longer", ErrUnreachable)
	case errors.As(err, &network):
		return fmt.Errorf("%w: %w", ErrUnreachable, network)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the connection ended within the answer", ErrUnreachable)
	}
	return fmt.Errorf("%w: it does not answer in HTTP", ErrMalformed)
}
