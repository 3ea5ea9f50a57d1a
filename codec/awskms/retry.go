package awskms

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

// With these a call that is throttled all the time gives up after 9 seconds on
// average and 17 at most, without an answer in between. Many instances that start at
// once need that much to get out of each other's way.
const (
	maxAttempts = 6
	baseBackoff = 200 * time.Millisecond // doubled at each retry, then jittered down to anything from 0; a second if throttled
	maxBackoff  = 5 * time.Second
)

// newRetryer returns the SDK's standard retryer, with the judgement of this package
// of what is worth a retry in place of the SDK's. The SDK goes by the HTTP status
// where it does not know the code, so that a permanent error sent as 500 would be
// repeated.
func newRetryer() aws.RetryerV2 {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = maxAttempts
		o.BaseDelay = baseBackoff
		o.MaxBackoff = maxBackoff
		o.Retryables = []retry.IsErrorRetryable{
			clockSkew{},
			retry.IsErrorRetryableFunc(isWorthRetry),
		}
	})
}

// isWorthRetry goes by the kind of the error. The search for credentials has retries
// of its own.
func isWorthRetry(err error) aws.Ternary {
	var credential *credentialError
	return aws.BoolTernary(!errors.As(err, &credential) && classify(err).kind.Temporary())
}

// clockSkew lets the SDK repeat a request once it has learnt from the response how
// far the clock of this host is off. Such an error is marked as retryable by the
// SDK; everything else is left to the next in line.
type clockSkew struct{}

// IsErrorRetryable answers for refusals alone.
func (clockSkew) IsErrorRetryable(err error) aws.Ternary {
	if isDenied(err) && (retry.RetryableError{}).IsErrorRetryable(err) == aws.TrueTernary {
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}

// A boundedRetryer keeps the retries of one call within its context. The SDK alone
// would sleep to the deadline, and then tell of the deadline in place of what the
// service said.
type boundedRetryer struct {
	aws.RetryerV2

	ctx context.Context
}

// IsErrorRetryable is always false once the context has ended.
func (r *boundedRetryer) IsErrorRetryable(err error) bool {
	return r.ctx.Err() == nil && r.RetryerV2.IsErrorRetryable(err)
}

// RetryDelay returns how long to wait. The error, that of the last attempt, ends the
// call before a wait that goes beyond the deadline.
func (r *boundedRetryer) RetryDelay(attempt int, opErr error) (time.Duration, error) {
	delay, err := r.RetryerV2.RetryDelay(attempt, opErr)
	if err != nil {
		return 0, err
	}
	if deadline, ok := r.ctx.Deadline(); ok && time.Until(deadline) <= delay {
		return 0, fmt.Errorf("no time for another attempt after %d: %w", attempt, opErr)
	}
	return delay, nil
}
