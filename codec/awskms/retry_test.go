package awskms_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/echoseal/echoseal/codec/awskms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
)

var throttled = kmsfake.Fault{Code: "ThrottlingException", Message: "Rate exceeded"}

func TestThrottlingPasses(t *testing.T) {
	var took []time.Duration
	for range 8 {
		synctest.Test(t, func(t *testing.T) {
			fake := kmsfake.New()
			s := newService(t, newClient(fake), fake.AddKey(kmsfake.Key{}))
			w := wrap(t, s, []byte("data key"))
			fake.Fail("Decrypt", throttled, throttled, kmsfake.Fault{Status: 500, Code: "KMSInternalException"}, kmsfake.Fault{Drop: true})
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
		fake := kmsfake.New()
		key := fake.AddKey(kmsfake.Key{})
		s := newService(t, newClient(fake), key)
		w := wrap(t, s, []byte("data key"))
		fake.FailAll(throttled, -1)
		start := time.Now()
		_, err := s.Unwrap(t.Context(), w, secretContext)
		wantError(t, err, keyset.Throttled, key, "kms:Decrypt")
		if took := time.Since(start); fake.Calls("Decrypt") != attempts || took > 17*time.Second {
			t.Errorf("%d calls in %v, want %d in 17s at most", fake.Calls("Decrypt"), took, attempts)
		}
	})
}

// Within a deadline it is the throttling that is reported, and no wait is begun that
// would end after it.
func TestThrottlingWithinDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := kmsfake.New()
		key := fake.AddKey(kmsfake.Key{})
		s := newService(t, newClient(fake), key)
		w := wrap(t, s, []byte("data key"))
		fake.FailAll(throttled, -1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Unwrap(ctx, w, secretContext)
		wantError(t, err, keyset.Throttled, key, "kms:Decrypt")
		if ctx.Err() != nil || !strings.Contains(err.Error(), "no time for another attempt") {
			t.Errorf("it went on to the deadline: %v", err)
		}
	})
}

func TestCancelBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := kmsfake.New()
		key := fake.AddKey(kmsfake.Key{})
		s := newService(t, newClient(fake), key)
		w := wrap(t, s, []byte("data key"))
		fake.FailAll(throttled, -1)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, err := s.Unwrap(ctx, w, secretContext)
		wantError(t, err, keyset.Unavailable, key, "kms:Decrypt")
		if !errors.Is(err, context.Canceled) || fake.Calls("Decrypt") > 2 {
			t.Errorf("%d calls, %v", fake.Calls("Decrypt"), err)
		}
	})
}

// An endpoint that takes the request and says nothing, over a real connection.
func TestHangingEndpoint(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey(kmsfake.Key{})
	s := newService(t, newClient(fake), key)
	w := wrap(t, s, []byte("data key"))
	fake.FailAll(kmsfake.Fault{Hang: true}, -1)

	for operation, call := range map[string]func(context.Context) error{
		"kms:Decrypt":         func(ctx context.Context) error { _, err := s.Unwrap(ctx, w, secretContext); return err },
		"kms:Encrypt":         func(ctx context.Context) error { _, err := s.Wrap(ctx, []byte("k"), secretContext); return err },
		"kms:GenerateDataKey": func(ctx context.Context) error { _, _, err := s.Generate(ctx, secretContext); return err },
		"kms:ReEncryptFrom":   func(ctx context.Context) error { _, err := s.Rewrap(ctx, w, secretContext); return err },
		"kms:DescribeKey":     func(ctx context.Context) error { d, _ := s.Describe(ctx); return d[0].Err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		start := time.Now()
		err := call(ctx)
		took := time.Since(start)
		cancel()
		wantError(t, err, keyset.Unavailable, key, operation)
		if took > 1100*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v after %v", operation, err, took)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := kmsfake.New()
		key := fake.AddKey(kmsfake.Key{})
		s := newService(t, newClient(fake), key)
		w := wrap(t, s, []byte("data key"))
		fake.FailAll(kmsfake.Fault{Drop: true}, -1)
		_, err := s.Unwrap(t.Context(), w, secretContext)
		wantError(t, err, keyset.Unavailable, key, "kms:Decrypt")
		if n := fake.Calls("Decrypt"); n != attempts || !strings.Contains(err.Error(), "VPC endpoint") {
			t.Errorf("%d calls, %v", n, err)
		}
	})
}

// The retryer and the attempts of the caller's client do not matter.
func TestCallersRetryerIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := kmsfake.New()
		s := newService(t, newClient(fake, func(o *kms.Options) {
			o.Retryer = aws.NopRetryer{}
			o.RetryMaxAttempts = 1
		}), fake.AddKey(kmsfake.Key{}))
		fake.Fail("GenerateDataKey", throttled)
		if _, _, err := s.Generate(t.Context(), secretContext); err != nil {
			t.Error(err)
		}
	})
}
