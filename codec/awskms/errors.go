package awskms

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/echoseal/echoseal/keyset"
)

// Operations, by the name of the permission that each needs.
const (
	opDecrypt       = "kms:Decrypt"
	opDescribe      = "kms:DescribeKey"
	opEncrypt       = "kms:Encrypt"
	opGenerate      = "kms:GenerateDataKey"
	opReEncryptFrom = "kms:ReEncryptFrom"
	opReEncryptTo   = "kms:ReEncryptTo"
)

// A failure is what an error of the SDK means. In a remedy {key}, {region} and {op}
// stand for the key, its region and the operation.
type failure struct {
	kind   keyset.Kind
	remedy string
}

var (
	failedNotFound = failure{keyset.NotFound, "check its id, the account of the credentials and the region {region}; a key that KMS has deleted does not come back"}
	failedDisabled = failure{keyset.Disabled, "enable it: aws kms enable-key --region {region} --key-id {key}"}
	failedDeletion = failure{keyset.PendingDeletion, "rescue it before it is gone: aws kms cancel-key-deletion, then aws kms enable-key, both with --region {region} --key-id {key}"}
	failedImport   = failure{keyset.Destroyed, "its imported key material is missing, deleted or expired: import the very same material again"}
	failedState    = failure{keyset.Disabled, "look at its state: aws kms describe-key --region {region} --key-id {key}"}
	failedStore    = failure{keyset.Unavailable, "the key store behind the key does not work: look at the connection of the custom or external key store"}
	failedChange   = failure{keyset.Unavailable, "KMS is creating or updating the key: wait until aws kms describe-key says Enabled"}
	failedUsage    = failure{keyset.WrongKey, "a key with the spec SYMMETRIC_DEFAULT and the usage ENCRYPT_DECRYPT is needed: create one, it cannot be changed"}

	failedDenied     = failure{keyset.Denied, "allow {op} on {key} to the caller, in the key policy or an IAM policy; without a Deny and, in another account, in both"}
	failedCredential = failure{keyset.Denied, "the credentials are missing, wrong, expired or of another partition: check them with aws sts get-caller-identity"}
	failedClock      = failure{keyset.Denied, "the request's signature or time is not accepted: check the secret access key and the clock of this host"}

	failedThrottled = failure{keyset.Throttled, "too many calls in the account and region {region}: spread the starts, or raise the KMS request quota"}
	failedService   = failure{keyset.Unavailable, "a fault of KMS in {region}: try again later"}
	failedNetwork   = failure{keyset.Unavailable, "no answer: check DNS, the route, proxy or VPC endpoint to KMS in {region}, and the endpoint if one is set"}
	failedSearch    = failure{keyset.Unavailable, "where no metadata service answers, set AWS_EC2_METADATA_DISABLED=true or raise its hop limit; name credentials by environment, profile or role"}

	failedContext  = failure{keyset.ContextMismatch, ""} // see contextRemedy
	failedWrongKey = failure{keyset.WrongKey, "the ciphertext was made under another key: take back the entry as it was written, or list the key that made it"}
	failedInput    = failure{keyset.Corrupt, "KMS refuses the form of the request: the ciphertext or data key is damaged or too long"}
	failedOther    = failure{keyset.Denied, "KMS refuses the request for the reason that its code tells"}
	failedAnswer   = failure{keyset.Unavailable, "what answered is not KMS, or is damaged on the way: check the endpoint, and for a proxy"}
)

// failures tells what an error code means. The codes are compared as text: one code
// comes as a modelled Go type or not, as the service's model has it.
var failures = map[string]failure{
	"NotFoundException":        failedNotFound,
	"InvalidArnException":      failedNotFound,
	"DisabledException":        failedDisabled,
	"InvalidKeyUsageException": failedUsage,

	"AccessDeniedException":       failedDenied,
	"AccessDenied":                failedDenied,
	"NotAuthorized":               failedDenied,
	"InvalidGrantTokenException":  failedDenied,
	"ExpiredToken":                failedCredential,
	"ExpiredTokenException":       failedCredential,
	"UnrecognizedClientException": failedCredential,
	"InvalidClientTokenId":        failedCredential,
	"InvalidAccessKeyId":          failedCredential,
	"MissingAuthenticationToken":  failedCredential,
	"OptInRequired":               failedCredential,
	"AuthFailure":                 failedClock,
	"IncompleteSignature":         failedClock,
	"InvalidSignatureException":   failedClock,
	"RequestExpired":              failedClock,
	"RequestTimeTooSkewed":        failedClock,
	"SignatureDoesNotMatch":       failedClock,

	"DependencyTimeoutException":           failedService,
	"InternalError":                        failedService,
	"InternalFailure":                      failedService,
	"InternalServerError":                  failedService,
	"KMSInternalException":                 failedService,
	"KeyUnavailableException":              failedService,
	"RequestTimeout":                       failedService,
	"RequestTimeoutException":              failedService,
	"ServiceUnavailable":                   failedService,
	"ServiceUnavailableException":          failedService,
	"CustomKeyStoreInvalidStateException":  failedStore,
	"XksProxyUriUnreachableException":      failedStore,
	"XksProxyInvalidResponseException":     failedStore,
	"CloudHsmClusterNotActiveException":    failedStore,
	"CloudHsmClusterInvalidStateException": failedStore,

	"InvalidCiphertextException": failedContext,
	"IncorrectKeyException":      failedWrongKey,
	"ValidationException":        failedInput,
	"ValidationError":            failedInput,
}

// classify tells what an error of the SDK means, from the error alone.
func classify(err error) failure {
	var credential *credentialError
	if errors.As(err, &credential) {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return failedSearch
		}
		return failedCredential
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return classifyCode(api, status(err))
	}
	if isUnreadable(err) {
		return failedAnswer
	}
	return failedNetwork
}

func classifyCode(err smithy.APIError, status int) failure {
	code := err.ErrorCode()
	if f, ok := failures[code]; ok {
		return f
	}
	if _, ok := retry.DefaultThrottleErrorCodes[code]; ok {
		return failedThrottled
	}
	switch {
	case code == "KMSInvalidStateException":
		return classifyState(err.ErrorMessage())
	case strings.HasSuffix(code, "TokenException"), status == http.StatusUnauthorized:
		return failedCredential
	case status == http.StatusTooManyRequests:
		return failedThrottled
	case status >= 500:
		return failedService
	}
	return failedOther
}

// classifyState tells what an invalid state is. The service tells only in words:
// "arn:… is pending deletion."
func classifyState(message string) failure {
	message = strings.ToLower(message)
	for _, state := range []struct {
		words string
		failure
	}{
		{"pending deletion", failedDeletion},
		{"pending replica deletion", failedDeletion},
		{"pending import", failedImport},
		{"is disabled", failedDisabled},
		{"is creating", failedChange},
		{"is updating", failedChange},
		{"is unavailable", failedStore},
	} {
		if strings.Contains(message, state.words) {
			return state.failure
		}
	}
	return failedState
}

// keyStates tells why a key in a state cannot be used. One that is not listed can.
var keyStates = map[types.KeyState]failure{
	types.KeyStateCreating:               failedChange,
	types.KeyStateDisabled:               failedDisabled,
	types.KeyStatePendingDeletion:        failedDeletion,
	types.KeyStatePendingImport:          failedImport,
	types.KeyStatePendingReplicaDeletion: failedDeletion,
	types.KeyStateUnavailable:            failedStore,
	types.KeyStateUpdating:               failedChange,
}

// keyError returns the error for a failure of an operation with a key, of which the
// SDK says err.
func keyError(f failure, op string, key arn.ARN, err error) *keyset.KeyError {
	remedy := strings.NewReplacer("{key}", keyID(key), "{region}", key.Region, "{op}", op).Replace(f.remedy)
	return &keyset.KeyError{Kind: f.kind, Key: serviceName(key), Operation: op, Remedy: remedy, Err: err}
}

// fail returns the error for a call that failed with err. The context is that of
// the encryption; only its keys are told.
func (k key) fail(ctx context.Context, op string, encryptionContext map[string]string, err error) error {
	f := classify(err)
	switch f {
	case failedState:
		f = k.askState(ctx)
	case failedContext:
		f.remedy = contextRemedy(encryptionContext)
	case failedAnswer:
		err = errors.New("the response cannot be read (it is not shown, since it may hold a data key)")
	}
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w; the last attempt: %w", cause, err)
	}
	return keyError(f, op, k.arn, err)
}

// askState asks for the state of a key that is in an invalid one, which takes a
// permission that the caller may lack.
func (k key) askState(ctx context.Context) failure {
	out, err := k.client.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: aws.String(k.arn.String())}, k.client.bounded(ctx))
	if err != nil || out.KeyMetadata == nil {
		return failedState
	}
	if f, ok := keyStates[out.KeyMetadata.KeyState]; ok {
		return f
	}
	return failedStore // the key is as it should be; what is behind it is not
}

// contextRemedy names all that can be behind an InvalidCiphertextException, which
// the service sends without a word.
func contextRemedy(encryptionContext map[string]string) string {
	names := "none"
	if len(encryptionContext) > 0 {
		names = strings.Join(slices.Sorted(maps.Keys(encryptionContext)), ", ")
	}
	return "context mismatch or corrupt, KMS does not tell which: check the name of the keyset and that the entry was not moved or edited (keys of the encryption context: " + names + ")"
}

// checkAnswer returns an error unless the key that answered is k.
func (k key) checkAnswer(op string, keyID *string) error {
	answered := aws.ToString(keyID)
	if answered == k.arn.String() {
		return nil
	}
	if answered == "" {
		return keyError(failedAnswer, op, k.arn, errors.New("the response names no key"))
	}
	f := failure{keyset.WrongKey, "nothing of the answer was used; check the endpoint, and what stands between here and KMS"}
	return keyError(f, op, k.arn, fmt.Errorf("the key that answered is %.256q", answered))
}

// isDenied reports whether the service refused the caller.
func isDenied(err error) bool { return classify(err).kind == keyset.Denied }

// isUnreadable reports whether there was a response that the SDK could not make
// sense of. The text of such an error may quote the response.
func isUnreadable(err error) bool {
	var d *smithy.DeserializationError
	return errors.As(err, &d)
}

// status returns the HTTP status of the response behind err, or 0.
func status(err error) int {
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		return response.HTTPStatusCode()
	}
	return 0
}
