package gcpkms

import (
	"context"
	"errors"
	"log/slog"
	"time"

	kms "cloud.google.com/go/kms/apiv1"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// silent keeps the client from writing requests, responses and access tokens to
// standard error when GOOGLE_SDK_GO_LOGGING_LEVEL=debug is set.
var silent = option.WithLogger(slog.New(slog.DiscardHandler))

// newClient returns a client on the connection of c with no logger, and with the
// vendor's call options in place of whatever c has.
func newClient(c *kms.KeyManagementClient) (*kms.KeyManagementClient, error) {
	if c == nil {
		return nil, configError("no client")
	}
	// It is deprecated since it gives one connection of several where the client has a
	// pool. One is enough for calls as rare as these, and there is no other way to it.
	connection := c.Connection() //nolint:staticcheck // see above
	if connection == nil {
		return nil, configError("the client speaks REST: take one from kms.NewKeyManagementClient, which speaks gRPC")
	}
	own, err := kms.NewKeyManagementClient(context.Background(), option.WithGRPCConn(connection), silent)
	if err != nil {
		return nil, configError("%w", err)
	}
	return own, nil
}

// With these a call that is throttled all the time gives up after 3 seconds on average
// and 6 at most, without an answer in between.
const (
	maxAttempts = 6
	baseBackoff = 200 * time.Millisecond // doubled at each retry, then jittered down to anything from 0
	maxBackoff  = 5 * time.Second
)

// attempts counts those of one call, and decides what is worth another one, in place of
// the client's own retries, which go on for a minute.
type attempts struct {
	ctx     context.Context
	op      string
	made    int
	last    error
	backoff gax.Backoff
}

// Retry ends the call before a wait that goes beyond the deadline, so that the error
// is that of the last attempt, and not that time was up.
func (a *attempts) Retry(err error) (time.Duration, bool) {
	a.made++
	a.last = err
	if a.made == maxAttempts || a.ctx.Err() != nil || !isWorthRetry(a.op, err) {
		return 0, false
	}
	pause := a.backoff.Pause()
	if deadline, ok := a.ctx.Deadline(); ok && time.Until(deadline) <= pause {
		return 0, false
	}
	return pause, true
}

// isWorthRetry goes by the kind of the error, with two exceptions that do not pass: a
// client that was closed, and a server that is none of Cloud KMS.
func isWorthRetry(op string, err error) bool {
	switch status.Code(err) {
	case codes.Canceled, codes.Unimplemented:
		return false
	}
	return !isTooLarge(err) && classify(op, err).kind.Temporary()
}

// maxAnswer is how many bytes one answer may have, where the vendor takes 2 GiB. The
// largest fits, a page of a thousand versions with some KiB of attestation each.
const maxAnswer = 16 << 20

// Resolve makes of the attempts the options of their call, in place of the client's own.
func (a *attempts) Resolve(s *gax.CallSettings) {
	gax.WithRetry(func() gax.Retryer { return a }).Resolve(s)
	gax.WithGRPCOptions(grpc.MaxCallRecvMsgSize(maxAnswer)).Resolve(s)
}

// invoke makes one call of the service, with retries within ctx. An answer that comes
// too late to be returned goes to discard, unless that is nil. The error is a *refusal, or errDeaf.
func invoke[T any](ctx context.Context, op string, call func(gax.CallOption) (T, error), discard func(T)) (T, error) {
	return await(ctx, func() (T, error) {
		a := &attempts{ctx: ctx, op: op, backoff: gax.Backoff{Initial: baseBackoff, Max: maxBackoff, Multiplier: 2}}
		answer, err := call(a)
		if err == nil {
			return answer, nil
		}
		if a.last != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
			err = a.last // the wait between two attempts was cut short; gRPC has errors of its own for that
		}
		return answer, &refusal{err, a.made}
	}, discard)
}

// grace is how long a call may go on after its context has ended, to tell what it was
// waiting for.
const grace = 200 * time.Millisecond

// errDeaf says what a call did that went on for longer.
var errDeaf = errors.New("it was still finding credentials")

// await waits for call as long as ctx allows. gRPC keeps to ctx, but asks for
// credentials first, and those may not: the vendor's wait for a lock while another
// call renews the token. A result that comes too late is discarded.
func await[T any](ctx context.Context, call func() (T, error), discard func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done, gone := make(chan result), make(chan struct{})
	go func() {
		value, err := call()
		select {
		case done <- result{value, err}:
		case <-gone:
			if err == nil && discard != nil {
				discard(value)
			}
		}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
		close(gone)
		var none T
		return none, errDeaf
	}
}
