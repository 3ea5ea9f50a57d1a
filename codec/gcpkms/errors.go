package gcpkms

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cloud.google.com/go/kms/apiv1/kmspb"
	"github.com/googleapis/gax-go/v2"
	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/echoseal/echoseal/keyset"
)

// Operations, by the name of the permission that each needs.
const (
	opDecrypt    = "cloudkms.cryptoKeyVersions.useToDecrypt"
	opEncrypt    = "cloudkms.cryptoKeyVersions.useToEncrypt"
	opGet        = "cloudkms.cryptoKeys.get"
	opGetVersion = "cloudkms.cryptoKeyVersions.get"
	opList       = "cloudkms.cryptoKeyVersions.list"
)

// A failure is what an error of the client means. In a remedy {key}, {location},
// {flags}, {version} and {op} stand for the key's name, where it is, how gcloud names
// it, the version and the operation.
type failure struct {
	kind   keyset.Kind
	remedy string
}

var (
	failedNotFound   = failure{keyset.NotFound, "check project, location, key ring and key of the name, and that the caller belongs to the same universe"}
	failedDisabled   = failure{keyset.Disabled, "enable version {version}: gcloud kms keys versions enable {version} {flags}"}
	failedScheduled  = failure{keyset.PendingDeletion, "rescue version {version} before it is gone: gcloud kms keys versions restore {version} {flags}, then the same with enable"}
	failedDestroyed  = failure{keyset.Destroyed, "the key material of version {version} is gone: unwrap with another key service, or replace what it wrapped; imported material can be imported again"}
	failedNoMaterial = failure{keyset.Disabled, "version {version} was never made: see why with gcloud kms keys versions describe {version} {flags}, and make a new one"}
	failedPending    = failure{keyset.Unavailable, "version {version} is being made: wait until gcloud kms keys versions describe {version} {flags} says ENABLED"}
	failedPrimary    = failure{keyset.Disabled, "the key has no primary version: make one with gcloud kms keys versions create --primary {flags}"}
	failedState      = failure{keyset.Disabled, "look at the state of version {version}: gcloud kms keys versions list {flags}"}
	failedUsage      = failure{keyset.WrongKey, "a key with the purpose ENCRYPT_DECRYPT is needed, and a data key within its limit (64 KiB, 8 KiB for an HSM): create one, it cannot be changed"}

	failedDenied     = failure{keyset.Denied, "allow {op} on {key} to the caller, if the key exists at all: Cloud KMS does not tell"}
	failedCredential = failure{keyset.Denied, "the credentials are missing, wrong, expired or could not be fetched: check them with gcloud auth application-default print-access-token >/dev/null"}
	failedScope      = failure{keyset.Denied, "the access token lacks the scope cloud-platform or cloudkms: give it to the instance, or to whatever makes the token"}
	failedAPI        = failure{keyset.Denied, "enable the API in the project that pays for the call: gcloud services enable cloudkms.googleapis.com"}

	failedThrottled = failure{keyset.Throttled, "too many calls in the project: spread the starts, or raise the quota of Cloud KMS"}
	failedService   = failure{keyset.Unavailable, "no answer, or a fault of Cloud KMS in {location}: try again; check DNS, the route, a proxy or Private Service Connect, and the endpoint if one is set"}
	failedSearch    = failure{keyset.Unavailable, "the time went by while looking for credentials: check the route to the metadata server or token endpoint, or name a file in GOOGLE_APPLICATION_CREDENTIALS"}
	failedClosed    = failure{keyset.Unavailable, "if it was not cancelled, the client or service has been closed: keep it open as long as it is used"}
	failedAnswer    = failure{keyset.Unavailable, "what answered is not Cloud KMS: check the endpoint, and for a proxy"}

	failedContext   = failure{keyset.ContextMismatch, ""} // see contextRemedy
	failedWrongKey  = failure{keyset.WrongKey, "nothing of the answer was used; write the project as the answer does if only that differs, else check the endpoint, and what stands between here and Cloud KMS"}
	failedIntegrity = failure{keyset.Corrupt, "it was tried twice, and nothing of the answer was used: look for what changes data between here and Cloud KMS, memory included"}
	failedInput     = failure{keyset.Corrupt, "the entry was damaged, or was not written by this service: take it back as it was written"}
	failedSize      = failure{keyset.Corrupt, "wrap a data key of 32 to 1024 bytes"}
)

// failures tells what a gRPC code means; others mean that something else answered.
var failures = map[codes.Code]failure{
	codes.NotFound:          failedNotFound,
	codes.PermissionDenied:  failedDenied,
	codes.Unauthenticated:   failedCredential,
	codes.ResourceExhausted: failedThrottled,
	codes.Canceled:          failedClosed,
	codes.Aborted:           failedService,
	codes.DeadlineExceeded:  failedService,
	codes.Internal:          failedService,
	codes.Unavailable:       failedService,
	codes.Unknown:           failedService,
}

// reasons tells what the reason of a google.rpc.ErrorInfo means, whatever the code.
var reasons = map[string]failure{
	"SERVICE_DISABLED":                failedAPI,
	"ACCESS_TOKEN_SCOPE_INSUFFICIENT": failedScope,
	"RATE_LIMIT_EXCEEDED":             failedThrottled,
}

// stateFailures tells why a version in a state cannot be used. One that is not listed
// can.
var stateFailures = map[kmspb.CryptoKeyVersion_CryptoKeyVersionState]failure{
	kmspb.CryptoKeyVersion_DISABLED:                     failedDisabled,
	kmspb.CryptoKeyVersion_DESTROY_SCHEDULED:            failedScheduled,
	kmspb.CryptoKeyVersion_DESTROYED:                    failedDestroyed,
	kmspb.CryptoKeyVersion_PENDING_EXTERNAL_DESTRUCTION: failedDestroyed,
	kmspb.CryptoKeyVersion_EXTERNAL_DESTRUCTION_FAILED:  failedDestroyed,
	kmspb.CryptoKeyVersion_IMPORT_FAILED:                failedNoMaterial,
	kmspb.CryptoKeyVersion_GENERATION_FAILED:            failedNoMaterial,
	kmspb.CryptoKeyVersion_PENDING_GENERATION:           failedPending,
	kmspb.CryptoKeyVersion_PENDING_IMPORT:               failedPending,
}

// classify tells what an error of an operation means, from the error alone.
func classify(op string, err error) failure {
	api, ok := apierror.ParseError(err, false)
	if !ok {
		return failedService
	}
	if isTooLarge(err) {
		return failedAnswer
	}
	if f, ok := reasons[api.Reason()]; ok {
		return f
	}
	switch c := api.GRPCStatus().Code(); c {
	case codes.FailedPrecondition:
		f, _ := classifyState(api)
		return f
	case codes.InvalidArgument:
		if op == opDecrypt {
			return failedContext
		}
		return failedUsage
	default:
		if f, ok := failures[c]; ok {
			return f
		}
		return failedAnswer
	}
}

// isTooLarge reports whether gRPC has refused an answer of more than maxAnswer. It has the
// code of a quota for that, and nothing but its words tells them apart.
func isTooLarge(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "grpc: received message")
}

// classifyState tells what a failed precondition is, and the version it is about: from
// its details, which have KEY_ and the state; else from the message, "… is not enabled,
// current state is: DISABLED."
func classifyState(err *apierror.APIError) (f failure, version string) {
	f = failedState
	for _, violation := range err.Details().PreconditionFailure.GetViolations() {
		state, isKey := strings.CutPrefix(violation.GetType(), "KEY_")
		if found, ok := stateFailures[stateOf(state)]; isKey && ok {
			f = found
			_, version, _ = strings.Cut(violation.GetSubject(), versions)
		}
	}
	if _, state, ok := strings.Cut(err.GRPCStatus().Message(), "current state is: "); f == failedState && ok {
		if found, ok := stateFailures[stateOf(strings.TrimRight(state, ". "))]; ok {
			f = found
		}
	}
	if !isVersion(version) {
		version = ""
	}
	return f, version
}

func stateOf(name string) kmspb.CryptoKeyVersion_CryptoKeyVersionState {
	return kmspb.CryptoKeyVersion_CryptoKeyVersionState(kmspb.CryptoKeyVersion_CryptoKeyVersionState_value[name])
}

// A refusal is what the client said after some attempts. Its text is one short line;
// the vendor's has several, with all details.
type refusal struct {
	err      error
	attempts int
}

func (r *refusal) Error() string {
	s := status.Convert(r.err)
	text := fmt.Sprintf("%s: %.1024s", code.Code(s.Code()), strings.TrimRight(s.Message(), ". "))
	if r.attempts > 1 {
		text += fmt.Sprintf(" (after %d attempts)", r.attempts)
	}
	return text
}

func (r *refusal) Unwrap() error { return r.err }

// keyError returns the error for a failure of an operation, of which the client says
// err.
func (r reference) keyError(f failure, op, version string, err error) *keyset.KeyError {
	if version == "" {
		version = "VERSION"
	}
	remedy := strings.NewReplacer("{key}", r.name, "{location}", r.location(), "{flags}", r.flags(), "{version}", version, "{op}", op).Replace(f.remedy)
	return &keyset.KeyError{Kind: f.kind, Key: r.service(), Operation: op, Remedy: remedy, Err: err}
}

// fail returns the error for a call that failed with err. The version is the one that
// was used, if known; of the encryption context only the names are told.
func (k key) fail(ctx context.Context, op, version string, encryptionContext map[string]string, err error) error {
	if d := damageOf(err); d != nil {
		return k.keyError(failedIntegrity, op, version, d)
	}
	f := classify(op, err)
	api, _ := apierror.ParseError(err, false)
	if status.Code(err) == codes.FailedPrecondition && api != nil {
		if _, named := classifyState(api); named != "" {
			version = named
		}
		if f == failedState {
			f, version = k.askState(ctx, op, version)
		}
	}
	cause := ctx.Err()
	switch {
	case errors.Is(err, errDeaf), cause != nil && isSearch(err):
		f = failedSearch
	case f == failedContext:
		f.remedy = contextRemedy(version, encryptionContext)
	case cause == nil && status.Code(err) == codes.DeadlineExceeded:
		cause = context.DeadlineExceeded // the other side's clock was first
	}
	if cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return k.keyError(f, op, version, err)
}

// isSearch reports whether it was the search for credentials that failed. gRPC tells
// only in words.
func isSearch(err error) bool {
	s := status.Convert(err)
	return s.Code() == codes.Unauthenticated && strings.Contains(s.Message(), "per-RPC creds failed")
}

// contextRemedy names all that can be behind an INVALID_ARGUMENT of Decrypt.
func contextRemedy(version string, encryptionContext map[string]string) string {
	if version == "" {
		version = "unknown"
	}
	names := "none"
	if len(encryptionContext) > 0 {
		names = strings.Join(slices.Sorted(maps.Keys(encryptionContext)), ", ")
	}
	return "wrong key, wrong context or damaged ciphertext, Cloud KMS does not tell which: check the name of the keyset and that the entry was not moved or edited (stored version: " + version + "; keys of the encryption context: " + names + ")"
}

// askState asks for the state of the version that an operation used, which takes a
// permission that the caller may lack. It returns the version, too.
func (k key) askState(ctx context.Context, op, version string) (failure, string) {
	once := gax.WithRetry(func() gax.Retryer { return nil })
	asked, err := await(ctx, func() (*kmspb.CryptoKeyVersion, error) {
		if version != "" {
			return k.client.GetCryptoKeyVersion(ctx, &kmspb.GetCryptoKeyVersionRequest{Name: k.versionName(version)}, once)
		}
		if op != opEncrypt {
			return nil, errors.New("nobody knows which version it was")
		}
		found, err := k.client.GetCryptoKey(ctx, &kmspb.GetCryptoKeyRequest{Name: k.name}, once)
		return found.GetPrimary(), err
	}, nil)
	if err != nil {
		return failedState, version
	}
	if asked == nil {
		return failedPrimary, version
	}
	if f, ok := stateFailures[asked.GetState()]; ok {
		if _, number, ok := strings.Cut(asked.GetName(), versions); ok && isVersion(number) {
			version = number
		}
		return f, version
	}
	return failedState, version
}
