package kmsfake

import (
	"context"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	maxPlaintext = 64 << 10
	maxPage      = 1000
)

// Encrypt encrypts with the version that is named, or the primary one of the key.
func (s *Service) Encrypt(_ context.Context, r *kmspb.EncryptRequest) (*kmspb.EncryptResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, v, err := s.use("useToEncrypt", r.GetName())
	if err != nil {
		return nil, err
	}
	if v == nil {
		if k.primary < 0 {
			return nil, status.Errorf(codes.FailedPrecondition, "CryptoKey %s has no primary version.", k.name)
		}
		v = k.versions[k.primary]
	}
	if err := checkAll(
		field{"plaintext", r.GetPlaintext(), r.GetPlaintextCrc32C()},
		field{"additional_authenticated_data", r.GetAdditionalAuthenticatedData(), r.GetAdditionalAuthenticatedDataCrc32C()},
	); err != nil {
		return nil, err
	}
	if err := checkState(v); err != nil {
		return nil, err
	}
	if len(r.GetPlaintext()) > maxPlaintext {
		return nil, status.Error(codes.InvalidArgument, "The plaintext is longer than 65536 bytes.")
	}
	s.secrets = append(s.secrets, slices.Clone(r.GetPlaintext()))
	ciphertext := v.encrypt(r.GetPlaintext(), r.GetAdditionalAuthenticatedData())
	return &kmspb.EncryptResponse{
		Name: v.name, Ciphertext: ciphertext, CiphertextCrc32C: sum(ciphertext),
		VerifiedPlaintextCrc32C:                   r.GetPlaintextCrc32C() != nil,
		VerifiedAdditionalAuthenticatedDataCrc32C: r.GetAdditionalAuthenticatedDataCrc32C() != nil,
	}, nil
}

// Decrypt decrypts with the version of the named key that encrypted.
func (s *Service) Decrypt(_ context.Context, r *kmspb.DecryptRequest) (*kmspb.DecryptResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, v, err := s.use("useToDecrypt", r.GetName())
	if err != nil {
		return nil, err
	}
	if v != nil {
		return nil, status.Error(codes.InvalidArgument, "The name is that of a version.")
	}
	if err := checkAll(
		field{"ciphertext", r.GetCiphertext(), r.GetCiphertextCrc32C()},
		field{"additional_authenticated_data", r.GetAdditionalAuthenticatedData(), r.GetAdditionalAuthenticatedDataCrc32C()},
	); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(k.versions, func(v *version) bool {
		return len(r.GetCiphertext()) > markSize+v.aead.NonceSize() && strings.HasPrefix(string(r.GetCiphertext()), v.mark)
	})
	if at < 0 {
		return nil, status.Error(codes.InvalidArgument, "Decryption failed: verify that 'name' refers to the correct CryptoKey.")
	}
	if err := checkState(k.versions[at]); err != nil {
		return nil, err
	}
	plaintext, err := k.versions[at].decrypt(r.GetCiphertext(), r.GetAdditionalAuthenticatedData())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "Decryption failed: the ciphertext is invalid.")
	}
	s.secrets = append(s.secrets, slices.Clone(plaintext))
	return &kmspb.DecryptResponse{Plaintext: plaintext, PlaintextCrc32C: sum(plaintext), UsedPrimary: at == k.primary}, nil
}

// GetCryptoKey tells of a key and its primary version.
func (s *Service) GetCryptoKey(_ context.Context, r *kmspb.GetCryptoKeyRequest) (*kmspb.CryptoKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.allow("cloudkms.cryptoKeys.get", r.GetName()); err != nil {
		return nil, err
	}
	k, v := s.find(r.GetName())
	if k == nil || v != nil {
		return nil, notFound(r.GetName())
	}
	answer := &kmspb.CryptoKey{Name: k.name, Purpose: k.purpose}
	if k.primary >= 0 && k.purpose == kmspb.CryptoKey_ENCRYPT_DECRYPT {
		answer.Primary = k.versions[k.primary].proto()
	}
	return answer, nil
}

// GetCryptoKeyVersion tells of a version.
func (s *Service) GetCryptoKeyVersion(_ context.Context, r *kmspb.GetCryptoKeyVersionRequest) (*kmspb.CryptoKeyVersion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.allow("cloudkms.cryptoKeyVersions.get", r.GetName()); err != nil {
		return nil, err
	}
	_, v := s.find(r.GetName())
	if v == nil {
		return nil, notFound(r.GetName())
	}
	return v.proto(), nil
}

// ListCryptoKeyVersions tells of all versions, by pages.
func (s *Service) ListCryptoKeyVersions(_ context.Context, r *kmspb.ListCryptoKeyVersionsRequest) (*kmspb.ListCryptoKeyVersionsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.allow("cloudkms.cryptoKeyVersions.list", r.GetParent()); err != nil {
		return nil, err
	}
	k, v := s.find(r.GetParent())
	if k == nil || v != nil {
		return nil, notFound(r.GetParent())
	}
	from, _ := strconv.Atoi(r.GetPageToken())
	size := min(max(int(r.GetPageSize()), 1), maxPage)
	answer := &kmspb.ListCryptoKeyVersionsResponse{TotalSize: int32(len(k.versions))}
	for i, v := range k.versions[min(from, len(k.versions)):] {
		if i == size {
			answer.NextPageToken = strconv.Itoa(from + size)
			break
		}
		answer.CryptoKeyVersions = append(answer.CryptoKeyVersions, v.proto())
	}
	return answer, nil
}

// use returns a key that the caller may use, and its version if that is named.
func (s *Service) use(permission, name string) (*key, *version, error) {
	if err := s.allow("cloudkms.cryptoKeyVersions."+permission, name); err != nil {
		return nil, nil, err
	}
	k, v := s.find(name)
	if k == nil {
		return nil, nil, notFound(name)
	}
	if k.purpose != kmspb.CryptoKey_ENCRYPT_DECRYPT {
		return nil, nil, status.Errorf(codes.InvalidArgument, "CryptoKey %s has the purpose %s.", k.name, k.purpose)
	}
	return k, v, nil
}

func (s *Service) allow(permission, name string) error {
	if !s.denied[permission] {
		return nil
	}
	return status.Errorf(codes.PermissionDenied, "Permission '%s' denied on resource '%s' (or it may not exist).", permission, name)
}

func notFound(name string) error { return status.Errorf(codes.NotFound, "%s not found.", name) }

// checkState returns an error unless a version is enabled.
func checkState(v *version) error {
	if v.state == kmspb.CryptoKeyVersion_ENABLED {
		return nil
	}
	return Disabled(v.name, v.state).err()
}

// Disabled is the fault of a version in a state.
func Disabled(name string, state kmspb.CryptoKeyVersion_CryptoKeyVersionState) Fault {
	return Fault{
		Code:    codes.FailedPrecondition,
		Message: name + " is not enabled, current state is: " + state.String() + ".",
		Details: []protoadapt.MessageV1{&errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{
			{Type: "KEY_" + state.String(), Subject: name},
		}}},
	}
}

// A field is a field of a request with its checksum.
type field struct {
	name string
	data []byte
	sum  *wrapperspb.Int64Value
}

// checkAll returns an error if there is a checksum that does not match.
func checkAll(fields ...field) error {
	for _, f := range fields {
		if f.sum != nil && f.sum.Value != sum(f.data).Value {
			return status.Errorf(codes.InvalidArgument, "The checksum in field %s_crc32c did not match the data in field %s.", f.name, f.name)
		}
	}
	return nil
}

func sum(b []byte) *wrapperspb.Int64Value {
	return wrapperspb.Int64(int64(crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))))
}
