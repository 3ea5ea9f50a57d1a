package kmsfake_test

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	kms "cloud.google.com/go/kms/apiv1"
	"cloud.google.com/go/kms/apiv1/kmspb"
	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/echoseal/echoseal/codec/gcpkms/internal/kmsfake"
)

// TestContract holds the fake to what Cloud KMS does. With ECHOSEAL_GCP_KMS_KEY set to
// the name of a symmetric key whose primary version is enabled, and after a comma that
// of another one, the very same assertions run against Cloud KMS, with Application
// Default Credentials. They need roles/cloudkms.cryptoKeyEncrypterDecrypter and
// roles/cloudkms.viewer on the key ring, and cost a few dozen requests. With the number
// of a version of the first key that is not enabled in ECHOSEAL_GCP_KMS_UNUSABLE, they
// also look at what is said about that.
func TestContract(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		fake := kmsfake.Start(t)
		key := fake.AddKey()
		fake.Rotate(key)
		fake.AddVersion(key, kmspb.CryptoKeyVersion_DISABLED)
		fake.AddVersion(key, kmspb.CryptoKeyVersion_DESTROY_SCHEDULED)
		fake.AddVersion(key, kmspb.CryptoKeyVersion_DESTROYED)
		c := fake.Client(t)
		contract(t, c, key, fake.AddKey())
		for _, number := range []string{"3", "4", "5"} {
			unusable(t, c, key+"/cryptoKeyVersions/"+number)
		}
	})
	first, second, _ := strings.Cut(os.Getenv("ECHOSEAL_GCP_KMS_KEY"), ",")
	if first == "" {
		t.Log("set ECHOSEAL_GCP_KMS_KEY to KEY,OTHER_KEY to run the contract against Cloud KMS")
		return
	}
	t.Run("Cloud KMS", func(t *testing.T) {
		c, err := kms.NewKeyManagementClient(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		contract(t, c, first, second)
		if number := os.Getenv("ECHOSEAL_GCP_KMS_UNUSABLE"); number != "" {
			unusable(t, c, first+"/cryptoKeyVersions/"+number)
		}
	})
}

func sum(b []byte) *wrapperspb.Int64Value {
	return wrapperspb.Int64(int64(crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))))
}

func contract(t *testing.T, c *kms.KeyManagementClient, key, other string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	plaintext, aad := []byte("a data key that is no secret"), []byte(`{"a":"b"}`)

	sealed, err := c.Encrypt(ctx, &kmspb.EncryptRequest{
		Name: key, Plaintext: plaintext, PlaintextCrc32C: sum(plaintext),
		AdditionalAuthenticatedData: aad, AdditionalAuthenticatedDataCrc32C: sum(aad),
	})
	if err != nil {
		t.Fatal(err)
	}
	if name, number, ok := strings.Cut(sealed.GetName(), "/cryptoKeyVersions/"); name != key || !ok || number == "" {
		t.Errorf("Encrypt: the version is %s", sealed.GetName())
	}
	if !sealed.GetVerifiedPlaintextCrc32C() || !sealed.GetVerifiedAdditionalAuthenticatedDataCrc32C() || sealed.GetCiphertextCrc32C().GetValue() != sum(sealed.GetCiphertext()).GetValue() {
		t.Errorf("Encrypt: checksums %v %v %v", sealed.GetVerifiedPlaintextCrc32C(), sealed.GetVerifiedAdditionalAuthenticatedDataCrc32C(), sealed.GetCiphertextCrc32C())
	}
	named, err := c.Encrypt(ctx, &kmspb.EncryptRequest{Name: sealed.GetName(), Plaintext: plaintext})
	if err != nil || named.GetName() != sealed.GetName() || named.GetVerifiedPlaintextCrc32C() || named.GetVerifiedAdditionalAuthenticatedDataCrc32C() {
		t.Errorf("Encrypt with a version, no checksum: %s, %v", named.GetName(), err)
	}

	open := func(change func(*kmspb.DecryptRequest)) (*kmspb.DecryptResponse, error) {
		r := &kmspb.DecryptRequest{Name: key, Ciphertext: bytes.Clone(sealed.GetCiphertext()), AdditionalAuthenticatedData: bytes.Clone(aad)}
		change(r)
		if r.CiphertextCrc32C == nil {
			r.CiphertextCrc32C = sum(r.Ciphertext)
		}
		if r.AdditionalAuthenticatedDataCrc32C == nil {
			r.AdditionalAuthenticatedDataCrc32C = sum(r.AdditionalAuthenticatedData)
		}
		return c.Decrypt(ctx, r)
	}
	opened, err := open(func(*kmspb.DecryptRequest) {})
	if err != nil || !bytes.Equal(opened.GetPlaintext(), plaintext) || opened.GetPlaintextCrc32C().GetValue() != sum(plaintext).GetValue() || !opened.GetUsedPrimary() {
		t.Errorf("Decrypt: %v, %v", opened, err)
	}
	flip := func(at int) func(*kmspb.DecryptRequest) {
		return func(r *kmspb.DecryptRequest) { r.Ciphertext[at] ^= 1 }
	}
	for name, change := range map[string]func(*kmspb.DecryptRequest){
		"another AAD":        func(r *kmspb.DecryptRequest) { r.AdditionalAuthenticatedData[2] ^= 1 },
		"no AAD":             func(r *kmspb.DecryptRequest) { r.AdditionalAuthenticatedData = nil },
		"the first byte":     flip(0),
		"the last byte":      flip(len(sealed.GetCiphertext()) - 1),
		"cut":                func(r *kmspb.DecryptRequest) { r.Ciphertext = r.Ciphertext[:len(r.Ciphertext)-1] },
		"one byte":           func(r *kmspb.DecryptRequest) { r.Ciphertext = r.Ciphertext[:1] },
		"text":               func(r *kmspb.DecryptRequest) { r.Ciphertext = []byte("not a ciphertext") },
		"wrong checksum":     func(r *kmspb.DecryptRequest) { r.CiphertextCrc32C = wrapperspb.Int64(1) },
		"wrong AAD checksum": func(r *kmspb.DecryptRequest) { r.AdditionalAuthenticatedDataCrc32C = wrapperspb.Int64(1) },
	} {
		_, err := open(change)
		wantCode(t, name, err, codes.InvalidArgument)
		field := map[string]string{"wrong checksum": "ciphertext", "wrong AAD checksum": "additional_authenticated_data"}[name]
		if want := "The checksum in field " + field + "_crc32c did not match the data in field " + field + "."; field != "" && !strings.Contains(status.Convert(err).Message(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	_, err = open(func(r *kmspb.DecryptRequest) { r.Name = sealed.GetName() })
	if err == nil {
		t.Error("Decrypt takes the name of a version")
	}
	_, err = c.Encrypt(ctx, &kmspb.EncryptRequest{Name: key, Plaintext: make([]byte, 64<<10+1)})
	wantCode(t, "a long plaintext", err, codes.InvalidArgument)
	_, err = c.Encrypt(ctx, &kmspb.EncryptRequest{Name: key, Plaintext: plaintext, PlaintextCrc32C: wrapperspb.Int64(1)})
	wantCode(t, "wrong plaintext checksum", err, codes.InvalidArgument)
	absent := key[:strings.LastIndex(key, "/")+1] + "echoseal-that-nobody-has"
	_, err = c.GetCryptoKey(ctx, &kmspb.GetCryptoKeyRequest{Name: absent})
	wantCode(t, "an absent key", err, codes.NotFound)

	described, err := c.GetCryptoKey(ctx, &kmspb.GetCryptoKeyRequest{Name: key})
	if err != nil || described.GetName() != key || described.GetPurpose() != kmspb.CryptoKey_ENCRYPT_DECRYPT ||
		described.GetPrimary().GetName() != sealed.GetName() || described.GetPrimary().GetState() != kmspb.CryptoKeyVersion_ENABLED {
		t.Errorf("GetCryptoKey: %v, %v", described, err)
	}
	version, err := c.GetCryptoKeyVersion(ctx, &kmspb.GetCryptoKeyVersionRequest{Name: sealed.GetName()})
	if err != nil || version.GetName() != sealed.GetName() || version.GetState() != kmspb.CryptoKeyVersion_ENABLED {
		t.Errorf("GetCryptoKeyVersion: %v, %v", version, err)
	}
	var all []string
	for pages := c.ListCryptoKeyVersions(ctx, &kmspb.ListCryptoKeyVersionsRequest{Parent: key, PageSize: 1}); ; {
		version, err := pages.Next()
		if errors.Is(err, iterator.Done) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, version.GetName())
	}
	if slices.Sort(all); !slices.Contains(all, sealed.GetName()) || len(slices.Compact(all)) != len(all) {
		t.Errorf("ListCryptoKeyVersions: %v", all)
	}

	if other == "" {
		return
	}
	_, err = open(func(r *kmspb.DecryptRequest) { r.Name = other })
	wantCode(t, "another key", err, codes.InvalidArgument)
}

// unusable looks at what is said about a version that is not enabled.
func unusable(t *testing.T, c *kms.KeyManagementClient, name string) {
	version, err := c.GetCryptoKeyVersion(t.Context(), &kmspb.GetCryptoKeyVersionRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Encrypt(t.Context(), &kmspb.EncryptRequest{Name: name, Plaintext: []byte("no secret")})
	wantCode(t, name, err, codes.FailedPrecondition)
	var api *apierror.APIError
	if !errors.As(err, &api) {
		t.Fatalf("%v", err)
	}
	violations := api.Details().PreconditionFailure.GetViolations()
	if len(violations) != 1 || violations[0].GetType() != "KEY_"+version.GetState().String() || violations[0].GetSubject() != name {
		t.Errorf("%s: violations %v", version.GetState(), violations)
	}
	if want := name + " is not enabled, current state is: " + version.GetState().String() + "."; api.GRPCStatus().Message() != want {
		t.Errorf("%q, want %q", api.GRPCStatus().Message(), want)
	}
}

func wantCode(t *testing.T, what string, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}
