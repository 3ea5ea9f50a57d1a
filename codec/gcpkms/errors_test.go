package gcpkms_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/protoadapt"

	"github.com/echoseal/echoseal/codec/gcpkms"
	"github.com/echoseal/echoseal/codec/gcpkms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
)

// attempts is how often a call is made whose failure may pass.
const attempts = 6

func reason(text string) []protoadapt.MessageV1 {
	return []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: text, Domain: "googleapis.com", Metadata: map[string]string{"canary": "canary"}}}
}

// The operations of a service, by method. Each returns its error.
func operations(t *testing.T, s *gcpkms.Service, w keyset.WrappedKey) map[string]func(context.Context) error {
	t.Helper()
	return map[string]func(context.Context) error{
		"Decrypt":      func(ctx context.Context) error { _, err := s.Unwrap(ctx, w, secretContext); return err },
		"Encrypt":      func(ctx context.Context) error { _, err := s.Wrap(ctx, []byte("data key"), secretContext); return err },
		"GetCryptoKey": func(ctx context.Context) error { d, _ := s.Describe(ctx); return d[0].Err },
	}
}

var permissions = map[string]string{"Decrypt": opDecrypt, "Encrypt": opEncrypt, "GetCryptoKey": opGet}

// Every kind of error that the service can have, by every way in which it comes. One
// that will not pass is never repeated.
func TestEveryFailure(t *testing.T) {
	const version = "projects/p/locations/l/keyRings/r/cryptoKeys/k/cryptoKeyVersions/7"
	inState := func(state kmspb.CryptoKeyVersion_CryptoKeyVersionState) kmsfake.Fault {
		return kmsfake.Disabled(version, state)
	}
	said := func(state string) kmsfake.Fault {
		return kmsfake.Fault{Code: codes.FailedPrecondition, Message: version + " is not enabled, current state is: " + state + "."}
	}
	for name, c := range map[string]struct {
		fault  kmsfake.Fault
		kind   keyset.Kind
		remedy string // a part of it
		calls  int    // 0: as many as attempts if the failure may pass, else one
	}{
		"not found": {kmsfake.Fault{Code: codes.NotFound, Message: "CryptoKey x not found."}, keyset.NotFound, "location", 0},

		"disabled":            {inState(kmspb.CryptoKeyVersion_DISABLED), keyset.Disabled, "versions enable 7 --project=test-project --location=europe-west3 --keyring=ring --key=key-", 0},
		"disabled, in words":  {said("DISABLED"), keyset.Disabled, "versions enable", 0},
		"destroy scheduled":   {inState(kmspb.CryptoKeyVersion_DESTROY_SCHEDULED), keyset.PendingDeletion, "versions restore 7 --project", 0},
		"scheduled, in words": {said("DESTROY_SCHEDULED"), keyset.PendingDeletion, "versions restore", 0},
		"destroyed":           {inState(kmspb.CryptoKeyVersion_DESTROYED), keyset.Destroyed, "version 7 is gone", 0},
		"destroyed, in words": {said("DESTROYED"), keyset.Destroyed, "gone", 0},
		"destroyed outside":   {inState(kmspb.CryptoKeyVersion_PENDING_EXTERNAL_DESTRUCTION), keyset.Destroyed, "version 7 is gone", 0},
		"destruction failed":  {inState(kmspb.CryptoKeyVersion_EXTERNAL_DESTRUCTION_FAILED), keyset.Destroyed, "version 7 is gone", 0},
		"import failed":       {inState(kmspb.CryptoKeyVersion_IMPORT_FAILED), keyset.Disabled, "never made", 0},
		"generation failed":   {inState(kmspb.CryptoKeyVersion_GENERATION_FAILED), keyset.Disabled, "never made", 0},
		"being generated":     {inState(kmspb.CryptoKeyVersion_PENDING_GENERATION), keyset.Unavailable, "wait", 0},
		"being imported":      {inState(kmspb.CryptoKeyVersion_PENDING_IMPORT), keyset.Unavailable, "wait", 0},

		"permission denied": {kmsfake.Fault{Code: codes.PermissionDenied, Message: "Permission denied."}, keyset.Denied, "allow cloudkms.", 0},
		"API disabled":      {kmsfake.Fault{Code: codes.PermissionDenied, Details: reason("SERVICE_DISABLED")}, keyset.Denied, "gcloud services enable", 0},
		"API disabled, too": {kmsfake.Fault{Code: codes.FailedPrecondition, Details: reason("SERVICE_DISABLED")}, keyset.Denied, "gcloud services enable", 0},
		"scope":             {kmsfake.Fault{Code: codes.PermissionDenied, Details: reason("ACCESS_TOKEN_SCOPE_INSUFFICIENT")}, keyset.Denied, "scope cloud-platform", 0},
		"another reason":    {kmsfake.Fault{Code: codes.PermissionDenied, Details: reason("BILLING_DISABLED")}, keyset.Denied, "allow cloudkms.", 0},
		"unauthenticated":   {kmsfake.Fault{Code: codes.Unauthenticated, Message: "Request had invalid authentication credentials."}, keyset.Denied, "credentials", 0},

		"resource exhausted": {kmsfake.Fault{Code: codes.ResourceExhausted, Message: "Quota exceeded."}, keyset.Throttled, "quota", 0},
		"rate limit":         {kmsfake.Fault{Code: codes.Unavailable, Details: reason("RATE_LIMIT_EXCEEDED")}, keyset.Throttled, "quota", 0},

		"unavailable":       {kmsfake.Fault{Code: codes.Unavailable, Message: "The service is currently unavailable."}, keyset.Unavailable, "fault of Cloud KMS in europe-west3", 0},
		"internal":          {kmsfake.Fault{Code: codes.Internal, Message: "Internal error."}, keyset.Unavailable, "fault of Cloud KMS", 0},
		"deadline exceeded": {kmsfake.Fault{Code: codes.DeadlineExceeded, Message: "Deadline exceeded."}, keyset.Unavailable, "fault of Cloud KMS", 0},
		"aborted":           {kmsfake.Fault{Code: codes.Aborted}, keyset.Unavailable, "fault of Cloud KMS", 0},
		"unknown":           {kmsfake.Fault{Code: codes.Unknown, Message: "unexpected HTTP status"}, keyset.Unavailable, "fault of Cloud KMS", 0},
		"data loss":         {kmsfake.Fault{Code: codes.DataLoss}, keyset.Unavailable, "not Cloud KMS", 0},
		"unimplemented":     {kmsfake.Fault{Code: codes.Unimplemented, Message: "unknown service"}, keyset.Unavailable, "not Cloud KMS", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := kmsfake.StartInProcess(t)
				key := fake.AddKey()
				s := newService(t, fake.Client(t), key)
				w := wrap(t, s, []byte("data key"))
				for method, call := range operations(t, s, w) {
					before := fake.Calls(method)
					fake.FailAll(c.fault, -1)
					err := call(t.Context())
					fake.FailAll(kmsfake.Fault{}, 0)
					wantError(t, err, c.kind, key, permissions[method])
					code := strings.ToUpper(strings.Join(strings.FieldsFunc(c.fault.Code.String(), func(r rune) bool { return r == ' ' }), ""))
					if text := strings.ReplaceAll(err.Error(), "_", ""); !strings.Contains(err.Error(), c.remedy) || !strings.Contains(text, code) || !strings.Contains(err.Error(), strings.TrimSuffix(c.fault.Message, ".")) {
						t.Errorf("%q does not say %q, %s and %q", err, c.remedy, code, c.fault.Message)
					}
					if late := errors.Is(err, context.DeadlineExceeded); late != (c.fault.Code == codes.DeadlineExceeded) {
						t.Errorf("%v is a context's: %v", err, late)
					}
					want := c.calls
					if want == 0 && c.kind.Temporary() {
						want = attempts
					}
					if n := fake.Calls(method) - before; n != max(want, 1) {
						t.Errorf("%d calls of %s, want %d", n, method, max(want, 1))
					}
					if says := strings.Contains(err.Error(), "(after 6 attempts)"); says != (want == attempts) {
						t.Errorf("%q has to tell of attempts if there were several", err)
					}
				}
			})
		})
	}
}

// What only some operations can answer.
func TestInvalidArgument(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey()
	s := newService(t, fake.Client(t), key)
	w := wrap(t, s, []byte("data key"))
	invalid := kmsfake.Fault{Code: codes.InvalidArgument, Message: "Something is wrong."}
	for method, kind := range map[string]keyset.Kind{"Decrypt": keyset.ContextMismatch, "Encrypt": keyset.WrongKey, "GetCryptoKey": keyset.WrongKey} {
		before := fake.Calls(method)
		fake.Fail(method, invalid)
		wantError(t, operations(t, s, w)[method](t.Context()), kind, key, permissions[method])
		if n := fake.Calls(method) - before; n != 1 {
			t.Errorf("%d calls of %s: an invalid argument is never repeated", n, method)
		}
	}
}

// The state of a version is asked for where the error does not tell, if the caller
// may.
func TestUnknownStateIsAskedFor(t *testing.T) {
	vague := kmsfake.Fault{Code: codes.FailedPrecondition, Message: "The key version cannot be used."}
	for state, kind := range map[kmspb.CryptoKeyVersion_CryptoKeyVersionState]keyset.Kind{
		kmspb.CryptoKeyVersion_DISABLED:           keyset.Disabled,
		kmspb.CryptoKeyVersion_DESTROY_SCHEDULED:  keyset.PendingDeletion,
		kmspb.CryptoKeyVersion_DESTROYED:          keyset.Destroyed,
		kmspb.CryptoKeyVersion_PENDING_GENERATION: keyset.Unavailable,
		kmspb.CryptoKeyVersion_ENABLED:            keyset.Disabled, // there is another reason
	} {
		fake := kmsfake.Start(t)
		key := fake.AddKey()
		s := newService(t, fake.Client(t), key)
		w := wrap(t, s, []byte("data key"))
		fake.SetState(key, 1, state, nil)
		unwrap := func(w keyset.WrappedKey, want keyset.Kind, says string) {
			t.Helper()
			before := len(fake.Seen())
			fake.Fail("Decrypt", vague)
			_, err := s.Unwrap(t.Context(), w, secretContext)
			wantError(t, err, want, key, opDecrypt)
			if n := len(fake.Seen()) - before; n > 2 || !strings.Contains(err.Error(), says) {
				t.Errorf("%d calls: %v does not say %q", n, err, says)
			}
		}
		unwrap(w, kind, "version 1")
		fake.Fail("Encrypt", vague)
		_, err := s.Wrap(t.Context(), []byte("data key"), secretContext)
		wantError(t, err, kind, key, opEncrypt)

		unwrap(keyset.WrappedKey{Service: w.Service, Ciphertext: w.Ciphertext}, keyset.Disabled, "versions list")
		fake.Fail("GetCryptoKeyVersion", kmsfake.Fault{Code: codes.Unavailable})
		unwrap(w, keyset.Disabled, "versions list")
		fake.Deny(opGetVersion)
		unwrap(w, keyset.Disabled, "versions list")
	}
}

// The states, as Cloud KMS answers in them and tells of them. Another key, and another
// version, go on to work.
func TestVersionStates(t *testing.T) {
	fake := kmsfake.Start(t)
	key, good := fake.AddKey(), fake.AddKey()
	s := newService(t, fake.Client(t), key, good)
	w := wrap(t, s, []byte("data key"))
	other := wrap(t, newService(t, fake.Client(t), good), []byte("data key"))
	for state, kind := range map[kmspb.CryptoKeyVersion_CryptoKeyVersionState]keyset.Kind{
		kmspb.CryptoKeyVersion_DISABLED:          keyset.Disabled,
		kmspb.CryptoKeyVersion_DESTROY_SCHEDULED: keyset.PendingDeletion,
		kmspb.CryptoKeyVersion_DESTROYED:         keyset.Destroyed,
	} {
		fake.SetState(key, 1, state, nil)
		before := len(fake.Seen())
		_, err := s.Unwrap(t.Context(), w, secretContext)
		wantError(t, err, kind, key, opDecrypt)
		_, err = s.Wrap(t.Context(), []byte("data key"), secretContext)
		wantError(t, err, kind, key, opEncrypt)
		if n := len(fake.Seen()) - before; n != 2 {
			t.Errorf("%d calls, want none to ask: the answer tells", n)
		}
		if _, err := s.Unwrap(t.Context(), other, secretContext); err != nil {
			t.Errorf("another key: %v", err)
		}
	}
	fake.Rotate(key)
	w = wrap(t, s, []byte("data key"))
	if got, err := s.Unwrap(t.Context(), w, secretContext); err != nil || string(got) != "data key" {
		t.Errorf("another version: %v", err)
	}
	fake.DropPrimary(key)
	_, err := s.Wrap(t.Context(), []byte("data key"), secretContext)
	wantError(t, err, keyset.Disabled, key, opEncrypt)
	if !strings.Contains(err.Error(), "no primary version") {
		t.Error(err)
	}
	if _, err := s.Unwrap(t.Context(), w, secretContext); err != nil {
		t.Errorf("unwrapping takes no primary version: %v", err)
	}
}

func TestPermissions(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey()
	s := newService(t, fake.Client(t), key)
	w := wrap(t, s, []byte("data key"))
	fake.Deny(opEncrypt, opGet, opGetVersion, opList)
	if _, err := s.Unwrap(t.Context(), w, secretContext); err != nil {
		t.Errorf("a server needs more than %s: %v", opDecrypt, err)
	}
	fake.Deny(opDecrypt)
	for method, call := range operations(t, s, w) {
		err := call(t.Context())
		wantError(t, err, keyset.Denied, key, permissions[method])
		if !strings.Contains(err.Error(), "allow "+permissions[method]+" on "+key) {
			t.Error(err)
		}
	}
}

func TestWrongPurpose(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey()
	s := newService(t, fake.Client(t), key)
	fake.SetPurpose(key, kmspb.CryptoKey_ASYMMETRIC_SIGN)
	_, err := s.Wrap(t.Context(), []byte("data key"), secretContext)
	wantError(t, err, keyset.WrongKey, key, opEncrypt)
	described, _ := s.Describe(t.Context())
	wantError(t, described[0].Err, keyset.WrongKey, key, opGet)
}

func TestClosedClient(t *testing.T) {
	fake := kmsfake.Start(t)
	key, client := fake.AddKey(), fake.Client(t)
	s := newService(t, client, key)
	w := wrap(t, s, []byte("data key"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Unwrap(t.Context(), w, secretContext); err != nil {
		t.Errorf("Close closed a client that is not its own: %v", err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Unwrap(t.Context(), w, secretContext)
	wantError(t, err, keyset.Unavailable, key, opDecrypt)
	if !strings.Contains(err.Error(), "closed") || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
