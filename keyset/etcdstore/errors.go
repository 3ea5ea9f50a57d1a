package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"unicode"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A callError is why a call failed, in words. The vendor's own error is found in it only
// if its text is known.
type callError struct {
	text  string
	cause error
}

func (e *callError) Error() string { return e.text }
func (e *callError) Unwrap() error { return e.cause }

// remedies of what the server says. The operation's own needs are said elsewhere.
var remedies = []struct {
	err    error
	remedy string
}{
	{rpctypes.ErrPermissionDenied, "grant the user's role {need}"},
	{rpctypes.ErrAuthFailed, "check ETCDCTL_USER and ETCDCTL_PASSWORD, or those of the client"},
	{rpctypes.ErrUserEmpty, "the cluster wants to know who asks: give the client a user and a password (ETCDCTL_USER, ETCDCTL_PASSWORD), or a certificate with the user's name"},
	{rpctypes.ErrInvalidAuthToken, "the token has expired, or the server that made it has been started anew: try again, or set a new ETCDCTL_AUTH_JWT_TOKEN"},
	{rpctypes.ErrAuthOldRevision, "users or roles were just changed: try again"},
	{rpctypes.ErrNoLeader, "the cluster has no leader: see whether a majority of its members runs"},
	{rpctypes.ErrTimeout, "the cluster does not agree in time: see whether a majority of its members runs, and how fast their disks are"},
	{rpctypes.ErrNoSpace, "the database is full: compact and defragment it, or raise its quota, and disarm the alarm"},
	{rpctypes.ErrCorrupt, "a member's data is corrupt: see the cluster's alarms"},
	{rpctypes.ErrRequestTooLarge, "raise --max-request-bytes of the servers, or make the document smaller"},
	{rpctypes.ErrTooManyRequests, "the cluster is overloaded: try again later"},
}

// fail returns the error of a call: what was done, why it failed and what to do. need
// is the permission that the call takes.
func (p *place) fail(ctx context.Context, operation, need string, err error) error {
	why, cause := explain(ctx, err, p.isClosed(), []string{p.client.Password, p.client.Token})
	return &callError{fmt.Sprintf("%s: %s: %s", p, operation, strings.ReplaceAll(why, "{need}", need)), cause}
}

// failure returns the error of opening a target.
func (t *target) failure(ctx context.Context, err error, secrets ...string) error {
	why, cause := explain(ctx, err, false, secrets)
	return &callError{fmt.Sprintf("connect to %s: %s", strings.Join(t.endpoints, ","), why), cause}
}

// explain returns what an error says to people, and what it is for errors.Is: nil for
// what only they understand. The end of ctx is that of the client, if that is closed.
func explain(ctx context.Context, err error, closed bool, secrets []string) (why string, cause error) {
	err = rpctypes.Error(err)
	if known := (rpctypes.EtcdError{}); errors.As(err, &known) {
		for _, r := range remedies {
			if errors.Is(err, r.err) {
				return err.Error() + ": " + r.remedy, err
			}
		}
		return err.Error(), err // one of a fixed list
	}
	reason := lastReason(ctx)
	switch code := status.Code(err); {
	case closed:
		return "the client was closed: open another one", net.ErrClosed
	case ctx.Err() != nil:
		cause = ctx.Err()
	case errors.Is(err, context.DeadlineExceeded) || code == codes.DeadlineExceeded:
		cause = context.DeadlineExceeded
	default:
		return words(status.Convert(err).Message(), secrets) + ": see whether the servers run and speak etcd's protocol, and what their logs say", nil
	}
	why = cause.Error()
	if errors.Is(cause, context.DeadlineExceeded) {
		why = "no answer in time (" + why + "): check the address, the route, whether the servers expect TLS and a certificate of the client, and whether a majority of them runs"
	}
	if reason != "" {
		why += "; last: " + words(reason, secrets)
	}
	return why, cause
}

// words returns a text of somebody else in one short line that repeats no credential.
func words(text string, secrets []string) string {
	const maxWords = 300
	for _, secret := range secrets {
		if secret != "" && strings.Contains(text, secret) {
			return "the text is not shown, since it repeats a credential"
		}
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	return fmt.Sprintf("%.*s", maxWords, strings.Join(strings.Fields(text), " "))
}

type reasonKey struct{}

// withReason returns a context that remembers why an attempt failed. The vendor's client
// tells only that the deadline ended its attempts.
func withReason(ctx context.Context) context.Context {
	return context.WithValue(ctx, reasonKey{}, new(string))
}

// noteReason stands between the vendor's retries and the connection.
func noteReason(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	if reason, ok := ctx.Value(reasonKey{}).(*string); ok && err != nil {
		*reason = status.Convert(err).Message()
	}
	return err
}

func lastReason(ctx context.Context) string {
	if reason, ok := ctx.Value(reasonKey{}).(*string); ok {
		return *reason
	}
	return ""
}

// refused reports whether the server has certainly not carried out what failed with err.
func refused(err error) bool {
	known := rpctypes.EtcdError{}
	if !errors.As(rpctypes.Error(err), &known) {
		return false
	}
	switch known.Code() {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.ResourceExhausted, codes.NotFound:
		return true
	}
	return false
}

// config returns the error of opening: what the setting is, unless a call failed.
func config(err, kind error) error {
	if failed := (*callError)(nil); errors.As(err, &failed) {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}
