package awskms_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/echoseal/echoseal/codec/awskms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
)

// attempts is how often a call is made whose failure may pass.
const attempts = 6

// Every kind of error that the service can have, by every way in which it comes. One
// that will not pass is never repeated, not even if it is sent as a fault of the
// server.
func TestEveryFailure(t *testing.T) {
	const arn = "arn:aws:kms:eu-west-1:111122223333:key/x"
	for _, c := range []struct {
		code, message string
		status        int
		kind          keyset.Kind
		remedy        string // a part of it
	}{
		{"NotFoundException", "Key 'x' does not exist", 400, keyset.NotFound, "region eu-west-1"},
		{"InvalidArnException", "Invalid arn", 400, keyset.NotFound, "region eu-west-1"},
		{"DisabledException", arn + " is disabled.", 400, keyset.Disabled, "aws kms enable-key --region eu-west-1 --key-id arn:"},
		{"KMSInvalidStateException", arn + " is pending deletion.", 400, keyset.PendingDeletion, "cancel-key-deletion"},
		{"KMSInvalidStateException", arn + " is pending replica deletion.", 400, keyset.PendingDeletion, "cancel-key-deletion"},
		{"KMSInvalidStateException", arn + " is pending import.", 400, keyset.Destroyed, "import"},
		{"KMSInvalidStateException", arn + " is disabled.", 400, keyset.Disabled, "enable-key"},
		{"InvalidKeyUsageException", arn + " key usage is SIGN_VERIFY", 400, keyset.WrongKey, "SYMMETRIC_DEFAULT"},
		{"IncorrectKeyException", "The key ID in the request does not identify a CMK", 400, keyset.WrongKey, "another key"},
		{"InvalidCiphertextException", "", 400, keyset.ContextMismatch, "context mismatch or corrupt"},
		{"ValidationException", "1 validation error detected", 400, keyset.Corrupt, "damaged"},

		{"AccessDeniedException", "User: x is not authorized", 400, keyset.Denied, "allow kms:"},
		{"AccessDenied", "", 403, keyset.Denied, "allow kms:"},
		{"ExpiredTokenException", "The security token included in the request is expired", 400, keyset.Denied, "credentials"},
		{"ExpiredToken", "", 403, keyset.Denied, "credentials"},
		{"UnrecognizedClientException", "The security token included in the request is invalid.", 400, keyset.Denied, "credentials"},
		{"InvalidClientTokenId", "", 403, keyset.Denied, "credentials"},
		{"MissingAuthenticationTokenException", "", 400, keyset.Denied, "credentials"},
		{"InvalidSignatureException", "Signature expired", 400, keyset.Denied, "clock"},
		{"SomethingNew", "", 400, keyset.Denied, "code"},
		{"SomethingNew", "", 401, keyset.Denied, "credentials"},

		{"ThrottlingException", "Rate exceeded", 400, keyset.Throttled, "quota"},
		{"Throttling", "", 400, keyset.Throttled, "quota"},
		{"TooManyRequestsException", "", 429, keyset.Throttled, "quota"},
		{"RequestLimitExceeded", "", 503, keyset.Throttled, "quota"},
		{"LimitExceededException", "", 400, keyset.Throttled, "quota"},
		{"SomethingNew", "", 429, keyset.Throttled, "quota"},

		{"KMSInternalException", "", 500, keyset.Unavailable, "fault of KMS"},
		{"DependencyTimeoutException", "", 503, keyset.Unavailable, "fault of KMS"},
		{"KeyUnavailableException", "", 500, keyset.Unavailable, "fault of KMS"},
		{"KeyUnavailableException", "", 400, keyset.Unavailable, "fault of KMS"},
		{"InternalFailure", "", 500, keyset.Unavailable, "fault of KMS"},
		{"SomethingNew", "", 500, keyset.Unavailable, "fault of KMS"},
		{"SomethingNew", "", 502, keyset.Unavailable, "fault of KMS"},
		{"KMSInvalidStateException", arn + " is updating.", 400, keyset.Unavailable, "wait"},
		{"KMSInvalidStateException", arn + " is creating.", 400, keyset.Unavailable, "wait"},
		{"KMSInvalidStateException", arn + " is unavailable.", 400, keyset.Unavailable, "key store"},
		{"CustomKeyStoreInvalidStateException", "", 400, keyset.Unavailable, "key store"},
	} {
		for _, status := range []int{c.status, http.StatusInternalServerError} {
			if strings.HasPrefix(c.code, "Something") && status != c.status {
				continue
			}
			t.Run(c.code+" "+http.StatusText(status), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fake := kmsfake.New()
					key := fake.AddKey(kmsfake.Key{})
					s := newService(t, newClient(fake), key)
					w := wrap(t, s, []byte("data key"))
					fake.FailAll(kmsfake.Fault{Status: status, Code: c.code, Message: c.message}, -1)

					_, unwrapErr := s.Unwrap(t.Context(), w, secretContext)
					_, wrapErr := s.Wrap(t.Context(), []byte("data key"), secretContext)
					_, _, generateErr := s.Generate(t.Context(), secretContext)
					_, rewrapErr := s.Rewrap(t.Context(), w, secretContext)
					described, _ := s.Describe(t.Context())
					for operation, err := range map[string]error{
						"kms:Decrypt": unwrapErr, "kms:Encrypt": wrapErr, "kms:GenerateDataKey": generateErr,
						"kms:ReEncryptFrom": rewrapErr, "kms:DescribeKey": described[0].Err,
					} {
						wantError(t, err, c.kind, key, operation)
						if !strings.Contains(err.Error(), c.remedy) || !strings.Contains(err.Error(), c.code) {
							t.Errorf("%q does not say %q and %s", err, c.remedy, c.code)
						}
					}
					want := 1
					if c.kind.Temporary() {
						want = attempts
					}
					for _, operation := range []string{"Decrypt", "Encrypt", "GenerateDataKey", "ReEncrypt", "DescribeKey"} {
						if n := fake.Calls(operation) - map[string]int{"Encrypt": 1}[operation]; n != want {
							t.Errorf("%d calls of %s, want %d", n, operation, want)
						}
					}
				})
			})
		}
	}
}

// The state of a key is asked for where the error does not tell, if the caller may.
func TestUnknownStateIsAskedFor(t *testing.T) {
	vague := kmsfake.Fault{Code: "KMSInvalidStateException", Message: "The request was rejected."}
	for state, kind := range map[string]keyset.Kind{
		"Disabled":               keyset.Disabled,
		"PendingDeletion":        keyset.PendingDeletion,
		"PendingReplicaDeletion": keyset.PendingDeletion,
		"PendingImport":          keyset.Destroyed,
		"Unavailable":            keyset.Unavailable,
		"Enabled":                keyset.Unavailable, // it is the key store behind it
	} {
		fake := kmsfake.Start(t)
		key := fake.AddKey(kmsfake.Key{})
		s := newService(t, newClient(fake), key)
		w := wrap(t, s, []byte("data key"))
		fake.SetState(key, state)
		fake.Fail("Decrypt", vague)
		_, err := s.Unwrap(t.Context(), w, secretContext)
		wantError(t, err, kind, key, "kms:Decrypt")

		fake.SetCaller("AKIASERVER", kmsfake.Caller{Allow: []string{"kms:Decrypt"}})
		s = newService(t, newClient(fake, as("AKIASERVER", "")), key)
		fake.Fail("Decrypt", vague)
		_, err = s.Unwrap(t.Context(), w, secretContext)
		wantError(t, err, keyset.Disabled, key, "kms:Decrypt")
	}
}

// The states, as the fake answers in them and DescribeKey tells them.
func TestKeyStates(t *testing.T) {
	fake := kmsfake.Start(t)
	key, good := fake.AddKey(kmsfake.Key{}), fake.AddKey(kmsfake.Key{})
	s := newService(t, newClient(fake), key, good)
	w := wrap(t, s, []byte("data key"))
	other := wrap(t, newService(t, newClient(fake), good), []byte("data key"))
	for state, kind := range map[string]keyset.Kind{
		"Disabled":               keyset.Disabled,
		"PendingDeletion":        keyset.PendingDeletion,
		"PendingReplicaDeletion": keyset.PendingDeletion,
		"PendingImport":          keyset.Destroyed,
	} {
		t.Run(state, func(t *testing.T) {
			fake.SetState(key, state)
			_, err := s.Unwrap(t.Context(), w, secretContext)
			wantError(t, err, kind, key, "kms:Decrypt")
			described, err := s.Describe(t.Context())
			if err != nil || len(described) != 2 || described[1].Err != nil {
				t.Fatalf("Describe: %+v, %v", described, err)
			}
			wantError(t, described[0].Err, kind, key, "kms:DescribeKey")
			if says := strings.Contains(described[0].Err.Error(), "to be deleted at 20"); says != (state == "PendingDeletion") {
				t.Errorf("%q has to tell the date of deletion if there is one", described[0].Err)
			}
			if _, err := s.Unwrap(t.Context(), other, secretContext); err != nil {
				t.Errorf("another key: %v", err)
			}
		})
	}
}

func as(accessKey, sessionToken string) func(*kms.Options) {
	return func(o *kms.Options) {
		o.Credentials = credentials.NewStaticCredentialsProvider(accessKey, "canary-secret-access-key", sessionToken)
	}
}

func TestPermissions(t *testing.T) {
	fake := kmsfake.Start(t)
	key, target := fake.AddKey(kmsfake.Key{}), fake.AddKey(kmsfake.Key{})
	w := wrap(t, newService(t, newClient(fake), key), []byte("data key"))
	call := func(t *testing.T, allow ...string) map[string]error {
		fake.SetCaller("AKIALIMITED", kmsfake.Caller{SessionToken: "canary-session-token", Allow: append([]string{}, allow...)})
		s := newService(t, newClient(fake, as("AKIALIMITED", "canary-session-token")), target, key)
		errs := make(map[string]error)
		_, errs["kms:Decrypt"] = s.Unwrap(t.Context(), w, secretContext)
		_, errs["kms:Encrypt"] = s.Wrap(t.Context(), []byte("data key"), secretContext)
		_, _, errs["kms:GenerateDataKey"] = s.Generate(t.Context(), secretContext)
		_, errs["rewrap"] = s.Rewrap(t.Context(), w, secretContext)
		return errs
	}

	errs := call(t, "kms:Decrypt")
	if errs["kms:Decrypt"] != nil {
		t.Errorf("a server needs more than kms:Decrypt: %v", errs["kms:Decrypt"])
	}
	wantError(t, errs["kms:Encrypt"], keyset.Denied, target, "kms:Encrypt")
	wantError(t, errs["kms:GenerateDataKey"], keyset.Denied, target, "kms:GenerateDataKey")
	wantError(t, errs["rewrap"], keyset.Denied, key, "kms:ReEncryptFrom")
	wantError(t, call(t, "kms:ReEncryptFrom")["rewrap"], keyset.Denied, target, "kms:ReEncryptTo")
	if err := call(t, "kms:ReEncryptFrom", "kms:ReEncryptTo")["rewrap"]; err != nil {
		t.Error(err)
	}
	fake.SetState(target, "Disabled")
	wantError(t, call(t, "kms:ReEncryptFrom", "kms:ReEncryptTo")["rewrap"], keyset.Disabled, target, "kms:ReEncryptTo")
}
