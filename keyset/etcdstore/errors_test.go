package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/echoseal/echoseal/keyset"
)

// Whatever a server answers with, a credential is not in the error, nor is what steers a
// terminal.
func TestErrorsHoldNoSecret(t *testing.T) {
	environment(t, nil)
	const secret, token = "correct-horse", "eyJ0eXAi"
	id := strings.Repeat("0", 32)
	for _, text := range []string{
		"the password " + secret + " is wrong",
		"metadata: token " + token + ", " + secret,
		"two\nlines and \x1b[31mred\u202e " + strings.Repeat("text ", 1000),
	} {
		address := malicious(t, codes.Unknown, text)
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://user:" + secret + "@" + address}, Token: token, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		client.Password = secret // which New would have logged in with
		store, err := New(client, "key")
		if err != nil {
			t.Fatal(err)
		}
		registry, err := NewRegistry(client, "key")
		if err != nil {
			t.Fatal(err)
		}
		ctx := within(t)
		_, _, loadErr := store.Load(ctx)
		_, saveErr := store.Save(ctx, []byte("doc"), "7")
		_, collectErr := registry.Collect(ctx)
		t.Setenv("ETCDCTL_USER", "user")
		t.Setenv("ETCDCTL_PASSWORD", secret)
		_, openErr := Open(ctx, "etcd://"+address+"/key")
		for operation, err := range map[string]error{
			"load":    loadErr,
			"save":    saveErr,
			"watch":   store.Watch(ctx, func() { t.Error("a hint of nothing") }),
			"collect": collectErr,
			"publish": registry.Publish(ctx, id, []byte("report"), 1),
			"forget":  registry.Forget(ctx, id),
			"connect": openErr,
		} {
			switch whole := fmt.Sprintf("%v %+v %#v", err, err, errors.Unwrap(err)); {
			case err == nil || !strings.Contains(err.Error(), operation) || !strings.Contains(err.Error(), address):
				t.Errorf("%s: %v", operation, err)
			case strings.Contains(whole, secret) || strings.Contains(whole, token):
				t.Errorf("%s: the error shows a credential", operation)
			case len(whole) > 2000 || strings.ContainsAny(whole, "\n\x1b\u202e"):
				t.Errorf("%s: %d bytes, %q", operation, len(whole), err)
			}
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What went wrong is found by errors.Is, and the permission that is missing is named.
func TestFail(t *testing.T) {
	environment(t, nil)
	store, err := Open(within(t), "etcd://localhost:1/key")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		ctx   context.Context
		err   error
		is    error
		says  string
		never bool // was it certainly not carried out?
	}{
		{t.Context(), rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrPermissionDenied, "grant the user's role all of it", true},
		{t.Context(), rpctypes.ErrGRPCNoSpace, rpctypes.ErrNoSpace, "quota", true},
		{t.Context(), rpctypes.ErrGRPCNoLeader, rpctypes.ErrNoLeader, "majority", false},
		{t.Context(), rpctypes.ErrGRPCTimeout, rpctypes.ErrTimeout, "majority", false},
		{t.Context(), rpctypes.ErrGRPCLeaderChanged, rpctypes.ErrLeaderChanged, "leader changed", false},
		{t.Context(), status.Error(codes.DeadlineExceeded, "x"), context.DeadlineExceeded, "no answer in time", false},
		{t.Context(), context.DeadlineExceeded, context.DeadlineExceeded, "no answer in time", false},
		{t.Context(), status.Error(codes.Canceled, "by a proxy"), nil, "by a proxy", false}, // nobody here has cancelled anything
		{over, status.Error(codes.Canceled, "x"), context.Canceled, "context canceled", false},
		{over, rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrPermissionDenied, "grant", true},
		{t.Context(), status.Error(codes.Unavailable, "gone"), nil, "gone", false},
		{t.Context(), status.Error(codes.PermissionDenied, "by a proxy"), nil, "by a proxy", false},
	} {
		err := store.fail(test.ctx, "do", "all of it", test.err)
		if test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) || refused(test.err) != test.never {
			t.Errorf("%v: %v", test.err, err)
		}
	}
}

func TestNotSent(t *testing.T) {
	environment(t, nil)
	store, err := Open(within(t), "etcd://localhost:1/key") // nobody is there: it must not be asked
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	for _, version := range []string{"0", "-1", "01", "+1", "1 ", "0x1", "9223372036854775808", "e3b0c44298fc1c149afbf4c8996fb924"} {
		if _, err := store.Save(within(t), []byte("doc"), version); !errors.Is(err, keyset.ErrConflict) {
			t.Errorf("%q: %v", version, err)
		}
	}
	if _, err := store.Save(within(t), make([]byte, keyset.MaxBytes+1), ""); !errors.Is(err, keyset.ErrConfig) {
		t.Errorf("too large: %v", err)
	}
}

// An answer that never ends is not taken into memory whole; one as large as a cluster gives
// is.
func TestAnswerTooLarge(t *testing.T) {
	environment(t, nil)
	value := make([]byte, maxAnswer)
	address := answering(t, func(_ any, stream grpc.ServerStream) error {
		return stream.SendMsg(&etcdserverpb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Value: value}}})
	})
	store, err := Open(within(t), "etcd://"+address+"/key")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, _, err := store.Load(within(t)); err == nil || !strings.Contains(err.Error(), "larger than max") {
		t.Errorf("%d bytes and what is around them: %v", len(value), err)
	}
	value = value[:pageSize*3<<19] // as many entries as are read at once, each as large as etcd takes by default
	if doc, _, err := store.Load(within(t)); err != nil || len(doc) != len(value) {
		t.Errorf("%d bytes: %d, %v", len(value), len(doc), err)
	}
}
