package awskms

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
	"github.com/aws/aws-sdk-go-v2/service/kms"
)

// loggable are the parts of the SDK's wire log that cannot hold a secret. Left out
// are the bodies (a plaintext data key), the request's headers and the text that was
// signed (the session token).
const loggable = aws.LogRetries | aws.LogResponse | aws.LogDeprecatedUsage

// A client is a copy of somebody's KMS client with our retries, a bound on responses, an
// error of its own for a failure to find credentials, and no secret in its log.
type client struct {
	*kms.Client

	source  *kms.Client // what it is a copy of
	retryer aws.RetryerV2
}

// newClient returns a copy of c. If c has no region, the copy is for the given one.
func newClient(c *kms.Client, region string) (*client, error) {
	o := c.Options()
	if o.Region == "" {
		o.Region = region
	}
	if o.EndpointOptions.UseFIPSEndpoint == aws.FIPSEndpointStateEnabled && o.BaseEndpoint != nil {
		return nil, configError("FIPS endpoints are asked for together with the endpoint %s, of which nobody can say that it is one: set either", *o.BaseEndpoint)
	}
	if o.ClientLogMode.IsSigning() {
		o.HTTPSignerV4, o.AuthSchemes = nil, nil // they hold the log mode, and are made anew
	}
	o.ClientLogMode &= loggable
	o.Credentials = newCredentials(o.Credentials)
	o.RetryMaxAttempts = 0 // a call brings its own retryer
	o.HTTPClient = boundedHTTP{o.HTTPClient}
	return &client{Client: kms.New(o), source: c, retryer: newRetryer()}, nil
}

// bounded returns the option that keeps the retries of one call within ctx.
func (c *client) bounded(ctx context.Context) func(*kms.Options) {
	return func(o *kms.Options) { o.Retryer = &boundedRetryer{RetryerV2: c.retryer, ctx: ctx} }
}

// credentials tell a failure to find credentials from a failure of the service.
type credentials struct{ *aws.CredentialsCache }

// newCredentials returns p behind a cache, which also keeps to the context of a call
// where p itself does not. No credentials at all are left to the SDK.
func newCredentials(p aws.CredentialsProvider) aws.CredentialsProvider {
	switch p := p.(type) {
	case nil, aws.AnonymousCredentials:
		return p
	case *aws.CredentialsCache:
		return credentials{p}
	case credentials:
		return p
	}
	return credentials{aws.NewCredentialsCache(p)}
}

// Retrieve returns credentials, or a credentialError.
func (c credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := c.CredentialsCache.Retrieve(ctx)
	if err != nil {
		return aws.Credentials{}, newCredentialError(err)
	}
	return found, nil
}

// A credentialError says that no credentials were found.
type credentialError struct{ err error }

// newCredentialError hides what a credential_process printed: the SDK quotes it when
// it cannot parse it.
func newCredentialError(err error) error {
	var process *processcreds.ProviderError
	if errors.As(err, &process) {
		err = errors.New("the credential_process of the profile failed, timed out or printed something else than credentials (its output is not shown)")
	}
	return &credentialError{err}
}

func (e *credentialError) Error() string { return "finding credentials: " + e.err.Error() }
func (e *credentialError) Unwrap() error { return e.err }
