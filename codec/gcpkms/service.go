package gcpkms

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	kms "cloud.google.com/go/kms/apiv1"
	"cloud.google.com/go/kms/apiv1/kmspb"
	"github.com/googleapis/gax-go/v2"

	"github.com/echoseal/echoseal/keyset"
)

// Limits, in bytes. That of a data key is the one of Cloud KMS, whose ciphertexts are
// a little longer.
const (
	maxDataKey    = 64 << 10
	maxCiphertext = 2 * maxDataKey
)

// A Service wraps and unwraps data keys with keys of Cloud KMS. It is a
// [keyset.KeyService] and a [keyset.Describer], immutable and safe for concurrent use.
// [New] or [Open] makes one. Data keys are made by whoever wraps them, see
// [keyset.Services.Generate]: Cloud KMS has no operation that does both.
//
// A call takes as long as its context allows, however often it has to be repeated.
// Without a deadline it gives up after 6 attempts or a minute, twice that if something
// was damaged on the way.
type Service struct {
	keys    []key       // at least one; the first wraps
	closers []io.Closer // the clients that are this service's own
}

// String names the keys.
func (s *Service) String() string {
	names := make([]string, len(s.keys))
	for i, k := range s.keys {
		names[i] = k.service()
	}
	return strings.Join(names, ", ")
}

var _ interface {
	keyset.KeyService
	keyset.Describer
	io.Closer
} = (*Service)(nil)

// A key is a key of Cloud KMS and the client that reaches it.
type key struct {
	reference
	client *kms.KeyManagementClient
}

// New returns a service for the keys with the given resource names, as they stand
// after gcpkms:// in a URI. The first wraps, every one unwraps. It makes no call.
//
//	projects/P/locations/L/keyRings/R/cryptoKeys/K
//
// The primary version of the first key wraps, or the one that its name ends with
// (/cryptoKeyVersions/N). Unwrapping takes whichever version a data key was wrapped
// with.
//
// The client speaks gRPC. Only its connection is used, so that its call options and
// logger do not matter: retries follow the rules of this package, and requests and
// responses are never logged. It stays the caller's to close.
//
// The error is [keyset.ErrConfig] and names the key or setting: no client or one that
// speaks REST, no key, or not a key's name.
func New(client *kms.KeyManagementClient, keys ...string) (*Service, error) {
	own, err := newClient(client)
	if err != nil {
		return nil, err
	}
	s := &Service{}
	for _, text := range keys {
		r, err := parseReference(text)
		if err != nil {
			return nil, err
		}
		s.add(r, own)
	}
	if len(s.keys) == 0 {
		return nil, configError("no key: write %s", form)
	}
	return s, nil
}

// add appends a key that a client reaches. One that is there already is passed over.
func (s *Service) add(r reference, c *kms.KeyManagementClient) {
	if s.find(r.service()) < 0 {
		s.keys = append(s.keys, key{r, c})
	}
}

// find returns the index of the key with a stored name, or -1.
func (s *Service) find(service string) int {
	return slices.IndexFunc(s.keys, func(k key) bool { return k.service() == service })
}

// Close closes the connections that [Open] made; after that every call fails. It
// leaves alone the client that was given to [New].
func (s *Service) Close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Opens reports whether service names a listed key.
func (s *Service) Opens(service string) bool { return s.find(service) >= 0 }

// Wrap wraps a data key of 1 to 65536 bytes, with the operation Encrypt. A key in an
// HSM has a lower limit of 8 KiB, the encryption context included.
func (s *Service) Wrap(ctx context.Context, dataKey []byte, encryptionContext map[string]string) (keyset.WrappedKey, error) {
	k := s.keys[0]
	if len(dataKey) == 0 || len(dataKey) > maxDataKey {
		return keyset.WrappedKey{}, k.keyError(failedSize, opEncrypt, k.version, fmt.Errorf("a data key of %d bytes, where 1 to %d can be wrapped", len(dataKey), maxDataKey))
	}
	return again(func() (keyset.WrappedKey, error) { return k.encrypt(ctx, dataKey, encryptionContext) })
}

func (k key) encrypt(ctx context.Context, dataKey []byte, encryptionContext map[string]string) (keyset.WrappedKey, error) {
	aad := keyset.ContextBytes(encryptionContext)
	request := &kmspb.EncryptRequest{
		Name:                              k.id(),
		Plaintext:                         bytes.Clone(dataKey), // the call may outlast the caller's buffer
		PlaintextCrc32C:                   checksum(dataKey),
		AdditionalAuthenticatedData:       aad,
		AdditionalAuthenticatedDataCrc32C: checksum(aad),
	}
	answer, err := invoke(ctx, opEncrypt, func(options gax.CallOption) (*kmspb.EncryptResponse, error) {
		defer clear(request.Plaintext)
		return k.client.Encrypt(ctx, request, options)
	}, nil)
	if err != nil {
		return keyset.WrappedKey{}, k.fail(ctx, opEncrypt, k.version, encryptionContext, err)
	}
	if err := checkEncrypted(answer); err != nil {
		return keyset.WrappedKey{}, k.keyError(failedIntegrity, opEncrypt, k.version, err)
	}
	version, err := k.checkVersion(opEncrypt, answer.GetName())
	if err != nil {
		return keyset.WrappedKey{}, err
	}
	return keyset.WrappedKey{Service: k.service(), Version: version, Ciphertext: answer.GetCiphertext()}, nil
}

// checkEncrypted returns a damage unless Cloud KMS got what was sent, and sent what has
// arrived.
func checkEncrypted(answer *kmspb.EncryptResponse) error {
	switch {
	case !answer.GetVerifiedPlaintextCrc32C():
		return &damage{"request (plaintext), which Cloud KMS did not confirm,"}
	case !answer.GetVerifiedAdditionalAuthenticatedDataCrc32C():
		return &damage{"request (additional authenticated data), which Cloud KMS did not confirm,"}
	case len(answer.GetCiphertext()) == 0:
		return &damage{"response, which is empty,"}
	}
	return checkField("response (ciphertext)", answer.GetCiphertext(), answer.GetCiphertextCrc32C())
}

// checkVersion returns the version that answered, if it is one of k, and the one that
// was asked for.
func (k key) checkVersion(op, name string) (string, error) {
	keyName, version, _ := strings.Cut(name, versions)
	if keyName == k.name && isVersion(version) && (k.version == "" || version == k.version) {
		return version, nil
	}
	return "", k.keyError(failedWrongKey, op, k.version, fmt.Errorf("the key version that answered is %.256q", name))
}

// Unwrap returns a data key, with the operation Decrypt. The caller zeroes it.
func (s *Service) Unwrap(ctx context.Context, w keyset.WrappedKey, encryptionContext map[string]string) ([]byte, error) {
	i := s.find(w.Service)
	if i < 0 {
		return nil, &keyset.KeyError{
			Kind: keyset.WrongKey, Key: fmt.Sprintf("%.256q", w.Service), Operation: opDecrypt,
			Remedy: "it is not one of the keys that this service was given: list it if it may be used",
		}
	}
	k := s.keys[i]
	if w.Version != "" && !isVersion(w.Version) {
		return nil, k.keyError(failedInput, opDecrypt, "", fmt.Errorf("the version %.32q is no number", w.Version))
	}
	if n := len(w.Ciphertext); n == 0 || n > maxCiphertext {
		return nil, k.keyError(failedInput, opDecrypt, w.Version, fmt.Errorf("a ciphertext of %d bytes, where 1 to %d are possible", n, maxCiphertext))
	}
	return again(func() ([]byte, error) { return k.decrypt(ctx, w, encryptionContext) })
}

func (k key) decrypt(ctx context.Context, w keyset.WrappedKey, encryptionContext map[string]string) ([]byte, error) {
	aad := keyset.ContextBytes(encryptionContext)
	request := &kmspb.DecryptRequest{
		Name:                              k.name,
		Ciphertext:                        bytes.Clone(w.Ciphertext), // the call may outlast the caller's buffer
		CiphertextCrc32C:                  checksum(w.Ciphertext),
		AdditionalAuthenticatedData:       aad,
		AdditionalAuthenticatedDataCrc32C: checksum(aad),
	}
	answer, err := invoke(ctx, opDecrypt, func(options gax.CallOption) (*kmspb.DecryptResponse, error) {
		return k.client.Decrypt(ctx, request, options)
	}, func(late *kmspb.DecryptResponse) { clear(late.GetPlaintext()) })
	if err != nil {
		return nil, k.fail(ctx, opDecrypt, w.Version, encryptionContext, err)
	}
	dataKey := answer.GetPlaintext()
	if err := checkField("response (plaintext)", dataKey, answer.GetPlaintextCrc32C()); err != nil {
		clear(dataKey)
		return nil, k.keyError(failedIntegrity, opDecrypt, w.Version, err)
	}
	if len(dataKey) == 0 {
		return nil, k.keyError(failedInput, opDecrypt, w.Version, errors.New("what was wrapped is empty, and no data key"))
	}
	return dataKey, nil
}
