package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/hashicorp/vault/api"
)

// maxWait is the longest that the server can make a call wait before another attempt.
const maxWait = 30 * time.Second

// A client is a copy of somebody's client that leaves retries, timeouts and the token
// to call: they go by what an error means, and by what the token is now.
type client struct {
	api   *api.Client // never changed, so that calls may copy it
	token tokenSource

	// As the vendor's client has them.
	timeout    time.Duration // of an attempt; 0 for none
	maxRetries int
	backoff    func(attempt int, err error) time.Duration

	limit int64 // of a response, in bytes
}

// newClient returns a copy of c. Its address, namespace, headers, transport, limits,
// timeout and retries are those of c now.
func newClient(c *api.Client, token tokenSource, limit int64) (*client, error) {
	config := c.CloneConfig()
	if isUnverified(config.HttpClient.Transport) {
		return nil, configError("the client does not verify the server's certificate: give it the private CA instead")
	}
	backoff, minWait, maxWait := config.Backoff, config.MinRetryWait, config.MaxRetryWait
	if backoff == nil {
		backoff = api.DefaultConfig().Backoff
	}
	copied := &client{
		token: token, timeout: config.Timeout, maxRetries: config.MaxRetries, limit: limit,
		backoff: func(attempt int, err error) time.Duration {
			var e *responseError
			if errors.As(err, &e) { // it looks for Retry-After
				return backoff(minWait, maxWait, attempt, &http.Response{StatusCode: e.status, Header: e.header})
			}
			return backoff(minWait, maxWait, attempt, nil)
		},
	}

	// A unix socket is in the transport; the address of c does not name it.
	config.Address, config.AgentAddress = c.Address(), ""
	config.Timeout = 0
	config.CheckRetry = func(context.Context, *http.Response, error) (bool, error) { return false, nil }
	var host string
	if u, err := url.Parse(c.Address()); err == nil {
		host = u.Host
	}
	config.HttpClient.Transport = transport{config.HttpClient.Transport, host, limit}
	var err error
	if copied.api, err = api.NewClient(config); err != nil {
		return nil, configError("the client cannot be copied; look at VAULT_* in the environment: %v", err)
	}
	// NewClient has looked at the environment, which c may not have.
	copied.api.SetHeaders(c.Headers())
	copied.api.SetWrappingLookupFunc(func(string, string) string { return "" }) // VAULT_WRAP_TTL
	return copied, nil
}

// A request is one of an endpoint.
type request struct {
	path   string
	body   []byte   // JSON; nil for a read
	hidden [][]byte // the parts of body that no error may show
	once   bool     // not to be sent again if the server may have done it
}

// mayRepeat reports whether sending a request again may help, after a failure.
func (r request) mayRepeat(f failure) bool {
	return f.kind.Temporary() && !f.final && (!r.once || f == failedThrottled || f == failedState || f == failedUpgrade)
}

// do makes a request, and again while that may help, there are retries left and ctx
// allows. It zeroes the request's body. It returns the response's, which the caller
// zeroes.
func (c *client) do(ctx context.Context, r request) ([]byte, error) {
	defer clear(r.body)
	for attempt := 0; ; attempt++ {
		answer, err := c.try(ctx, r)
		if err == nil {
			return answer, nil
		}
		if !r.mayRepeat(classify(err)) || attempt >= c.maxRetries {
			return nil, err
		}
		if !wait(ctx, c.backoff(attempt, err)) {
			if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
				err = fmt.Errorf("%w; %w", err, ctx.Err())
			}
			return nil, err
		}
	}
}

// wait waits, and reports whether there is time for something else afterwards. If
// there is not it does not wait, so that the caller can tell of the last failure.
func wait(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d || d > maxWait {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// try makes one attempt, or two if the token was replaced meanwhile. If the token is
// refused it finds out why.
func (c *client) try(ctx context.Context, r request) ([]byte, error) {
	token, err := c.token.read()
	if err != nil {
		return nil, &judgedError{failedNoToken, err}
	}
	answer, err := c.send(ctx, r, token)
	if err == nil || classify(err) != failedPermission {
		return answer, err
	}
	if newer, readErr := c.token.read(); readErr == nil && newer != token {
		token = newer
		answer, err = c.send(ctx, r, token)
		if err == nil || classify(err) != failedPermission {
			return answer, err
		}
	}
	if r.path != lookupSelf {
		err = c.explain(ctx, token, err)
	}
	return nil, err
}

// explain tells a token that is not valid from one that may not do what it was used
// for: the former cannot be looked up either.
func (c *client) explain(ctx context.Context, token string, denied error) error {
	answer, err := c.send(ctx, request{path: lookupSelf}, token)
	clear(answer)
	switch {
	case err == nil:
		return &judgedError{failedPolicy, denied}
	case classify(err) == failedPermission:
		return &judgedError{failedToken, denied}
	}
	return denied
}

// lookupSelf is what every token may read that has the policy default.
const lookupSelf = "auth/token/lookup-self"

// send makes one attempt.
func (c *client) send(ctx context.Context, r request, token string) ([]byte, error) {
	if c.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	copied := c.api.WithRequestCallbacks(func(sent *api.Request) {
		if r.body != nil {
			sent.Obj = json.RawMessage(r.body) // is sent if the server redirects
		}
	})
	copied.SetToken(token)

	var response *api.Response
	var err error
	if r.body == nil {
		response, err = copied.Logical().ReadRawWithContext(ctx, r.path)
	} else {
		response, err = copied.Logical().WriteRawWithContext(ctx, r.path, r.body)
	}
	if response != nil {
		defer response.Body.Close()
	}
	switch {
	case err != nil:
		return nil, clientError(err, response, slices.Concat(r.hidden, [][]byte{[]byte(token)})...)
	case response.StatusCode != http.StatusOK:
		return nil, &responseError{status: response.StatusCode}
	}
	return c.readAll(response.Body)
}

// readAll reads a body. One of Transit goes into one buffer, so that no part of it is
// left in another.
func (c *client) readAll(body io.Reader) ([]byte, error) {
	if c.limit > maxResponse {
		text, err := io.ReadAll(body)
		if err == nil && int64(len(text)) >= c.limit {
			return nil, unusable(failedAnswer, "a response of %d bytes or more", c.limit)
		}
		return text, err
	}
	buf := make([]byte, c.limit)
	n, err := io.ReadFull(body, buf)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return buf[:n], nil
	}
	clear(buf)
	if err == nil {
		err = unusable(failedAnswer, "a response of %d bytes or more", c.limit)
	}
	return nil, err
}

// decode reads an answer into dst and zeroes it.
func decode(answer []byte, dst any) error {
	defer clear(answer)
	if err := json.Unmarshal(answer, dst); err != nil {
		return unusable(failedAnswer, "the response is not the JSON that was expected")
	}
	return nil
}
