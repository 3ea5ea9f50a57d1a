// Package moto_test runs the AWS KMS key service against moto, an AWS that was written
// by others, for the wire protocol. What moto gets wrong is left to the fake of the
// service's own module: it takes another key's ciphertext or a wrong encryption context
// that reads alike, does not know key states when it decrypts, and mixes up
// multi-Region keys.
package moto_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/echoseal/echoseal/codec/awskms"
	"github.com/echoseal/echoseal/keyset"
)

const region = "eu-central-1"

func TestAWSKMS(t *testing.T) {
	endpoint := startMoto(t)
	client := kms.New(kms.Options{
		Region:       region,
		BaseEndpoint: aws.String(endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider("testing", "testing", ""),
	})
	first, second := createKey(t, client), createKey(t, client)
	encryptionContext := keyset.EncryptionContext("fleet", "7b0c7a2e-0000-4000-8000-000000000000", keyset.Data)

	service, err := awskms.New(client, first, second)
	if err != nil {
		t.Fatal(err)
	}
	old, err := awskms.New(client, second)
	if err != nil {
		t.Fatal(err)
	}
	dataKey, generated, err := service.Generate(t.Context(), encryptionContext)
	if err != nil || len(dataKey) != 32 || generated.Service != "awskms:///"+first {
		t.Fatalf("Generate: %d bytes by %s, %v", len(dataKey), generated.Service, err)
	}
	unwrap := func(t *testing.T, w keyset.WrappedKey) {
		t.Helper()
		if got, err := service.Unwrap(t.Context(), w, encryptionContext); err != nil || !bytes.Equal(got, dataKey) {
			t.Errorf("another data key, or %v", err)
		}
	}

	t.Run("unwrap", func(t *testing.T) { unwrap(t, generated) })
	t.Run("wrap", func(t *testing.T) {
		w, err := service.Wrap(t.Context(), dataKey, encryptionContext)
		if err != nil {
			t.Fatal(err)
		}
		unwrap(t, w)
	})
	t.Run("rewrap", func(t *testing.T) {
		w, err := old.Wrap(t.Context(), dataKey, encryptionContext)
		if err != nil || w.Service != "awskms:///"+second {
			t.Fatalf("wrapped by %s, %v", w.Service, err)
		}
		moved, err := service.Rewrap(t.Context(), w, encryptionContext)
		if err != nil || moved.Service != "awskms:///"+first {
			t.Fatalf("rewrapped by %s, %v", moved.Service, err)
		}
		unwrap(t, moved)
	})
	t.Run("another context", func(t *testing.T) {
		for name, other := range map[string]map[string]string{
			"another purpose": keyset.EncryptionContext("fleet", "7b0c7a2e-0000-4000-8000-000000000000", keyset.Auth),
			"none":            nil,
		} {
			if _, err := service.Unwrap(t.Context(), generated, other); !errors.Is(err, keyset.ContextMismatch) {
				t.Errorf("%s: %v, want a context mismatch", name, err)
			}
		}
	})
	t.Run("damaged", func(t *testing.T) {
		w := generated
		w.Ciphertext = bytes.Clone(w.Ciphertext)
		w.Ciphertext[len(w.Ciphertext)-1] ^= 1
		if _, err := service.Unwrap(t.Context(), w, encryptionContext); !errors.Is(err, keyset.ContextMismatch) {
			t.Errorf("%v, want a context mismatch, which a damaged ciphertext is told as", err)
		}
	})
	t.Run("another key's ciphertext", func(t *testing.T) {
		w, err := old.Wrap(t.Context(), dataKey, encryptionContext)
		if err != nil {
			t.Fatal(err)
		}
		w.Service = "awskms:///" + first
		if got, err := service.Unwrap(t.Context(), w, encryptionContext); err == nil || got != nil {
			t.Errorf("%d bytes, %v: it has to be refused, whatever the reason", len(got), err)
		}
	})
	t.Run("describe", func(t *testing.T) {
		if _, err := client.DisableKey(t.Context(), &kms.DisableKeyInput{KeyId: aws.String(id(second))}); err != nil { // moto takes no ARN here
			t.Fatal(err)
		}
		described, err := service.Describe(t.Context())
		if err != nil || len(described) != 2 || described[0].Err != nil || !errors.Is(described[1].Err, keyset.Disabled) {
			t.Errorf("%+v, %v, want one good key and a disabled one", described, err)
		}
	})
	t.Run("absent", func(t *testing.T) {
		key := strings.Replace(first, id(first), "00000000-0000-4000-8000-000000000000", 1)
		absent, err := awskms.New(client, key)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := absent.Generate(t.Context(), encryptionContext); !errors.Is(err, keyset.NotFound) || !strings.Contains(err.Error(), key) {
			t.Errorf("%v, want not found with the key's ARN", err)
		}
	})
	t.Run("open", func(t *testing.T) {
		nowhere := filepath.Join(t.TempDir(), "none")
		t.Setenv("AWS_CONFIG_FILE", nowhere)
		t.Setenv("AWS_SHARED_CREDENTIALS_FILE", nowhere)
		t.Setenv("AWS_PROFILE", "")
		t.Setenv("AWS_ACCESS_KEY_ID", "testing")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "testing")
		alias := "alias/echoseal"
		if _, err := client.CreateAlias(t.Context(), &kms.CreateAliasInput{AliasName: &alias, TargetKeyId: &first}); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{first, alias, id(first), strings.Replace(first, "key/"+id(first), alias, 1)} {
			services, err := keyset.Openers{awskms.Opener()}.Open(t.Context(), "awskms:///"+key+"?region="+region+"&endpoint="+endpoint)
			if err != nil {
				t.Errorf("%s: %v", key, err)
				continue
			}
			if got, err := services.Unwrap(t.Context(), []keyset.WrappedKey{generated}, encryptionContext); err != nil || !bytes.Equal(got, dataKey) {
				t.Errorf("%s: another data key, or %v", key, err)
			}
		}
	})
}

// id returns the key id in a key ARN.
func id(arn string) string { return arn[strings.LastIndex(arn, "/")+1:] }

func createKey(t *testing.T, client *kms.Client) (arn string) {
	t.Helper()
	out, err := client.CreateKey(t.Context(), &kms.CreateKeyInput{
		KeySpec:  types.KeySpecSymmetricDefault,
		KeyUsage: types.KeyUsageTypeEncryptDecrypt, // which moto does not take by itself
	})
	if err != nil {
		t.Fatal(err)
	}
	return aws.ToString(out.KeyMetadata.Arn)
}
