package gcpkms_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	kms "cloud.google.com/go/kms/apiv1"
	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/echoseal/echoseal/codec/gcpkms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
)

var throttled = kmsfake.Fault{Code: codes.ResourceExhausted, Message: "Quota exceeded."}

func TestThrottlingPasses(t *testing.T) {
	var took []time.Duration
	for range 8 {
		synctest.Test(t, func(t *testing.T) {
			fake := kmsfake.StartInProcess(t)
			s := newService(t, fake.Client(t), fake.AddKey())
			w := wrap(t, s, []byte("data key"))
			fake.Fail("Decrypt", throttled, throttled, kmsfake.Fault{Code: codes.Internal}, kmsfake.Fault{Code: codes.Unavailable})
			start := time.Now()
			if _, err := s.Unwrap(t.Context(), w, secretContext); err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(start))
			if n := fake.Calls("Decrypt"); n != 5 {
				t.Errorf("%d calls, want 5", n)
			}
		})
	}
	slices.Sort(took)
	if len(slices.Compact(took)) == 1 {
		t.Errorf("it took %v each time: there is no jitter", took[0])
	}
}

func TestThrottlingDoesNotPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := kmsfake.StartInProcess(t)
		key := fake.AddKey()
		s := newService(t, fake.Client(t), key)
		w := wrap(t, s, []byte("data key"))
		fake.FailAll(throttled, -1)
		start := time.Now()
		_, err := s.Unwrap(t.Context(), w, secretContext)
		wantError(t, err, keyset.Throttled, key, opDecrypt)
		const most = 6200 * time.Millisecond // 200 ms, doubled four times, without jitter
		if took := time.Since(start); fake.Calls("Decrypt") != attempts || took > most {
			t.Errorf("%d calls in %v, want %d in %v at most", fake.Calls("Decrypt"), took, attempts, most)
		}
	})
}

// Within a deadline it is the throttling that is reported, and no wait is begun that
// would end after it.
func TestThrottlingWithinDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := kmsfake.StartInProcess(t)
		key := fake.AddKey()
		s := newService(t, fake.Client(t), key)
		w := wrap(t, s, []byte("data key"))
		fake.FailAll(throttled, -1)
		for range 8 {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			_, err := s.Unwrap(ctx, w, secretContext)
			wantError(t, err, keyset.Throttled, key, opDecrypt)
			if ctx.Err() != nil {
				t.Errorf("it went on to the deadline: %v", err)
			}
			cancel()
		}
	})
}

func TestCancelBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := kmsfake.StartInProcess(t)
		key := fake.AddKey()
		s := newService(t, fake.Client(t), key)
		w := wrap(t, s, []byte("data key"))
		fake.FailAll(throttled, -1)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Microsecond, cancel)
		start := time.Now()
		_, err := s.Unwrap(ctx, w, secretContext)
		wantError(t, err, keyset.Throttled, key, opDecrypt)
		if !errors.Is(err, context.Canceled) || fake.Calls("Decrypt") > 2 || time.Since(start) > time.Millisecond {
			t.Errorf("%d calls, %v", fake.Calls("Decrypt"), err)
		}
	})
}

// An answer that would fill the memory is refused, and not asked for again.
func TestAnswerTooLarge(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey()
	s := newService(t, fake.Client(t), key)
	w := wrap(t, s, []byte("data key"))
	const tooLarge = 16<<20 + 1
	fake.FailAll(kmsfake.Fault{Answer: func(answer any) {
		switch answer := answer.(type) {
		case *kmspb.DecryptResponse:
			answer.Plaintext = make([]byte, tooLarge)
		case *kmspb.CryptoKey:
			answer.Name = strings.Repeat("k", tooLarge)
		}
	}}, -1)
	_, err := s.Unwrap(t.Context(), w, secretContext)
	wantError(t, err, keyset.Unavailable, key, opDecrypt)
	if n := fake.Calls("Decrypt"); n != 1 || !strings.Contains(err.Error(), "check the endpoint") {
		t.Errorf("%d calls, %v", n, err)
	}
	described, err := s.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, described[0].Err, keyset.Unavailable, key, opGet)
	if !strings.Contains(described[0].Err.Error(), "check the endpoint") {
		t.Error(described[0].Err)
	}
}

// The client's own call options do not matter: they would go on for a minute, or not
// at all.
func TestCallersOptionsAreNotUsed(t *testing.T) {
	fake := kmsfake.Start(t)
	client := fake.Client(t)
	client.CallOptions.Decrypt, client.CallOptions.Encrypt = nil, nil
	s := newService(t, client, fake.AddKey())
	fake.Fail("Encrypt", throttled)
	w := wrap(t, s, []byte("data key"))
	fake.Fail("Decrypt", throttled)
	if _, err := s.Unwrap(t.Context(), w, secretContext); err != nil {
		t.Error(err)
	}
}

// within checks that all operations give up within a second after their deadline.
func within(t *testing.T, s interface {
	keyset.KeyService
	keyset.Describer
}, key, says string) {
	t.Helper()
	w := keyset.WrappedKey{Service: "gcpkms://" + key, Ciphertext: []byte{1}}
	for op, call := range map[string]func(context.Context) error{
		opDecrypt: func(ctx context.Context) error { _, err := s.Unwrap(ctx, w, secretContext); return err },
		opEncrypt: func(ctx context.Context) error { _, err := s.Wrap(ctx, []byte("data key"), secretContext); return err },
		opGet:     func(ctx context.Context) error { d, _ := s.Describe(ctx); return d[0].Err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		start := time.Now()
		err := call(ctx)
		took := time.Since(start)
		cancel()
		wantError(t, err, keyset.Unavailable, key, op)
		if took > 1100*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: after %v %v, which has to say %q", op, took, err, says)
		}
	}
}

// An endpoint that takes the request and says nothing.
func TestHangingService(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey()
	fake.FailAll(kmsfake.Fault{Hang: true}, -1)
	within(t, newService(t, fake.Client(t), key), key, "DEADLINE_EXCEEDED")
}

// An endpoint that takes the connection and says nothing.
func TestBlackHole(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	client, err := kms.NewKeyManagementClient(t.Context(), option.WithEndpoint(listener.Addr().String()), option.WithoutAuthentication())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	const key = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
	within(t, newService(t, client, key), key, "DEADLINE_EXCEEDED")
}

func TestNobodyListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	connection, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	client, err := kms.NewKeyManagementClient(t.Context(), option.WithGRPCConn(connection))
	if err != nil {
		t.Fatal(err)
	}
	const key = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
	s := newService(t, client, key)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = s.Wrap(ctx, []byte("data key"), secretContext)
	wantError(t, err, keyset.Unavailable, key, opEncrypt)
	if !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), "Private Service Connect") {
		t.Error(err)
	}
}

// A search for credentials does what its function does.
type search func(context.Context) error

func (s search) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	return nil, s(ctx)
}
func (search) RequireTransportSecurity() bool { return false }

func TestCredentialSearchHangs(t *testing.T) {
	done := make(chan struct{})
	defer close(done)
	for name, look := range map[string]search{
		"keeps to its context": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"deaf":                 func(context.Context) error { <-done; return errors.New("the test is over") },
	} {
		t.Run(name, func(t *testing.T) {
			fake := kmsfake.Start(t)
			key := fake.AddKey()
			s := newService(t, fake.Client(t, grpc.WithPerRPCCredentials(look)), key)
			within(t, s, key, "credentials")
			if len(fake.Seen()) > 0 {
				t.Error("a call was made without credentials")
			}
		})
	}
}

func TestNoCredentials(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey()
	s := newService(t, fake.Client(t, grpc.WithPerRPCCredentials(search(func(context.Context) error { return errors.New("no role is attached") }))), key)
	_, err := s.Wrap(t.Context(), []byte("data key"), secretContext)
	wantError(t, err, keyset.Denied, key, opEncrypt)
	if !strings.Contains(err.Error(), "no role is attached") || len(fake.Seen()) > 0 {
		t.Errorf("%d calls, %v", len(fake.Seen()), err)
	}
}

// An answer that comes after the caller has gone is zeroed, and nothing is left behind.
func TestLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := kmsfake.StartInProcess(t)
		key := fake.AddKey()
		w := wrap(t, newService(t, fake.Client(t), key), []byte("data key"))
		var received, sent []byte
		late := grpc.WithUnaryInterceptor(func(ctx context.Context, method string, request, answer any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			err := invoke(ctx, method, request, answer, connection, options...)
			if a, ok := answer.(*kmspb.DecryptResponse); ok {
				received = a.GetPlaintext()
			}
			if r, ok := request.(*kmspb.EncryptRequest); ok {
				sent = r.GetPlaintext()
			}
			time.Sleep(time.Hour)
			return err
		})
		s := newService(t, fake.Client(t, late), key)
		before := runtime.NumGoroutine()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := s.Unwrap(ctx, w, secretContext)
		wantError(t, err, keyset.Unavailable, key, opDecrypt)
		_, err = s.Wrap(ctx, []byte("data key"), secretContext)
		wantError(t, err, keyset.Unavailable, key, opEncrypt)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("they came back after %v", took)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if string(received) != strings.Repeat("\x00", 8) {
			t.Error("a data key that came too late is not zeroed")
		}
		if sent != nil && string(sent) != strings.Repeat("\x00", 8) {
			t.Error("a data key that was sent is not zeroed")
		}
		if n := runtime.NumGoroutine(); n > before+8 { // those of the connection
			t.Errorf("%d goroutines, %d before", n, before)
		}
	})
}
