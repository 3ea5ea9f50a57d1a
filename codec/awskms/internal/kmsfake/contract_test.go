package kmsfake_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"

	"github.com/echoseal/echoseal/codec/awskms/internal/kmsfake"
)

// TestContract holds the fake to what AWS KMS does. With ECHOSEAL_AWS_KMS_KEY set to
// the ARN of an enabled symmetric key, and after a comma that of another one in the
// same region, the very same assertions run against AWS, with the credentials of the
// environment. They need kms:Encrypt, kms:Decrypt, kms:GenerateDataKey,
// kms:ReEncrypt* and kms:DescribeKey on both, and cost a few dozen requests.
func TestContract(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		fake := kmsfake.Start(t)
		contract(t, client(fake.URL), fake.AddKey(kmsfake.Key{}), fake.AddKey(kmsfake.Key{}))
	})
	first, second, _ := strings.Cut(os.Getenv("ECHOSEAL_AWS_KMS_KEY"), ",")
	if first == "" {
		t.Log("set ECHOSEAL_AWS_KMS_KEY to KEY_ARN,OTHER_KEY_ARN to run the contract against AWS")
		return
	}
	t.Run("aws", func(t *testing.T) {
		a, err := arn.Parse(first)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRegion(a.Region))
		if err != nil {
			t.Fatal(err)
		}
		contract(t, kms.NewFromConfig(cfg), first, second)
	})
}

func client(url string) *kms.Client {
	return kms.New(kms.Options{
		Region:       "eu-west-1",
		BaseEndpoint: aws.String(url),
		Credentials:  credentials.NewStaticCredentialsProvider(kmsfake.AccessKey, "secret", ""),
		Retryer:      aws.NopRetryer{},
	})
}

func contract(t *testing.T, c *kms.Client, key, other string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	right := map[string]string{"a": "b", "cd": "e"}

	generated, err := c.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{KeyId: &key, KeySpec: types.DataKeySpecAes256, EncryptionContext: right})
	if err != nil {
		t.Fatal(err)
	}
	if aws.ToString(generated.KeyId) != key || len(generated.Plaintext) != 32 || len(generated.CiphertextBlob) < 32 {
		t.Fatalf("GenerateDataKey: key %s, %d bytes of plaintext, %d of ciphertext", aws.ToString(generated.KeyId), len(generated.Plaintext), len(generated.CiphertextBlob))
	}
	blob := generated.CiphertextBlob
	open := func(keyID *string, blob []byte, encryptionContext map[string]string) ([]byte, error) {
		out, err := c.Decrypt(ctx, &kms.DecryptInput{KeyId: keyID, CiphertextBlob: blob, EncryptionContext: encryptionContext})
		if err != nil {
			return nil, err
		}
		if aws.ToString(out.KeyId) != key {
			t.Errorf("Decrypt: the response names %s", aws.ToString(out.KeyId))
		}
		return out.Plaintext, nil
	}

	for name, keyID := range map[string]*string{"named": &key, "not named": nil} {
		if plaintext, err := open(keyID, blob, right); err != nil || !bytes.Equal(plaintext, generated.Plaintext) {
			t.Errorf("Decrypt, key %s: another plaintext, or %v", name, err)
		}
	}

	wrongContexts := map[string]map[string]string{
		"none":             nil,
		"another value":    {"a": "x", "cd": "e"},
		"another case":     {"A": "b", "cd": "e"},
		"one less":         {"a": "b"},
		"one more":         {"a": "b", "cd": "e", "f": "g"},
		"the same letters": {"a": "bc", "d": "e"},
		"swapped":          {"b": "a", "e": "cd"},
	}
	for name, wrong := range wrongContexts {
		_, err := open(&key, blob, wrong)
		wantCode(t, "wrong context, "+name, err, "InvalidCiphertextException", true)
	}

	damaged := bytes.Clone(blob)
	damaged[len(damaged)-1] ^= 1
	for name, wrong := range map[string][]byte{"flipped": damaged, "cut": blob[:len(blob)-1], "text": []byte("not a ciphertext"), "one byte": {1}} {
		_, err := open(&key, wrong, right)
		wantCode(t, "damaged, "+name, err, "InvalidCiphertextException", true)
	}
	_, err = open(&key, make([]byte, 6145), right)
	wantCode(t, "too long", err, "ValidationException", false)
	_, err = c.Encrypt(ctx, &kms.EncryptInput{KeyId: &key, Plaintext: make([]byte, 4097)})
	wantCode(t, "plaintext too long", err, "ValidationException", false)

	a, err := arn.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	absent, abroad := a, a
	absent.Resource = "key/00000000-0000-4000-8000-000000000000"
	abroad.Region = map[bool]string{true: "us-east-1", false: "eu-west-1"}[a.Region == "eu-west-1"]
	for name, id := range map[string]string{"absent": absent.String(), "of another region": abroad.String()} {
		_, err := open(&id, blob, right)
		wantCode(t, "key "+name, err, "NotFoundException", false)
	}
	missing := "alias/echoseal-that-nobody-has"
	_, err = c.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &missing})
	wantCode(t, "absent alias", err, "NotFoundException", false)

	described, err := c.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: aws.String(strings.TrimPrefix(a.Resource, "key/"))})
	if err != nil {
		t.Fatal(err)
	}
	if m := described.KeyMetadata; aws.ToString(m.Arn) != key || m.KeyState != types.KeyStateEnabled || m.KeySpec != types.KeySpecSymmetricDefault || m.KeyUsage != types.KeyUsageTypeEncryptDecrypt {
		t.Errorf("DescribeKey: %s %s %s %s", aws.ToString(m.Arn), m.KeyState, m.KeySpec, m.KeyUsage)
	}

	if other == "" {
		return
	}
	_, err = open(&other, blob, right)
	wantCode(t, "another key", err, "IncorrectKeyException", false)
	moved, err := c.ReEncrypt(ctx, &kms.ReEncryptInput{
		SourceKeyId: &key, SourceEncryptionContext: right, CiphertextBlob: blob,
		DestinationKeyId: &other, DestinationEncryptionContext: map[string]string{"new": "context"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if aws.ToString(moved.SourceKeyId) != key || aws.ToString(moved.KeyId) != other {
		t.Errorf("ReEncrypt: from %s to %s", aws.ToString(moved.SourceKeyId), aws.ToString(moved.KeyId))
	}
	back, err := c.Decrypt(ctx, &kms.DecryptInput{KeyId: &other, CiphertextBlob: moved.CiphertextBlob, EncryptionContext: map[string]string{"new": "context"}})
	if err != nil || !bytes.Equal(back.Plaintext, generated.Plaintext) {
		t.Errorf("Decrypt after ReEncrypt: another plaintext, or %v", err)
	}
}

// wantCode checks for an error code, and that the service says nothing more if silent.
func wantCode(t *testing.T, what string, err error, code string, silent bool) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != code {
		t.Errorf("%s: %v, want %s", what, err, code)
		return
	}
	// The SDK puts UnknownError or nothing where the message is missing.
	if m := api.ErrorMessage(); silent && m != "" && m != "UnknownError" {
		t.Errorf("%s: the message is %q, want none", what, m)
	}
}
