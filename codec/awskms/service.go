package awskms

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"

	"github.com/echoseal/echoseal/keyset"
)

// Limits of KMS, in bytes.
const (
	maxDataKey    = 4096
	maxCiphertext = 6144
)

// dataKeySize is the size of a data key that KMS makes, in bytes.
const dataKeySize = 32

// A Service wraps and unwraps data keys with keys of AWS KMS. It is a
// [keyset.KeyService], a [keyset.Generator], a [keyset.Rewrapper] and a
// [keyset.Describer], immutable and safe for concurrent use. [New] or [Open] makes
// one; there is nothing to close.
//
// A call takes as long as its context allows, however often it has to be repeated.
// Without a deadline it gives up after 6 attempts, but waits for a silent endpoint as
// long as the operating system does: set one.
type Service struct {
	keys []key // at least one; the first wraps
}

// String names the keys.
func (s *Service) String() string {
	names := make([]string, len(s.keys))
	for i, k := range s.keys {
		names[i] = serviceName(k.arn)
	}
	return strings.Join(names, ", ")
}

// checkContext refuses what JSON cannot carry: AWS would get U+FFFD for each byte that
// is not UTF-8, and could not tell two such contexts apart.
func (k key) checkContext(op string, encryptionContext map[string]string) error {
	for name, value := range encryptionContext {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return &keyset.KeyError{
				Kind: keyset.ContextMismatch, Key: serviceName(k.arn), Operation: op,
				Remedy: "give the keyset a name in UTF-8; no call was made",
				Err:    errors.New("a name or value of the encryption context is not UTF-8"),
			}
		}
	}
	return nil
}

var _ interface {
	keyset.KeyService
	keyset.Generator
	keyset.Rewrapper
	keyset.Describer
} = (*Service)(nil)

// A key is a KMS key and the client that reaches it.
type key struct {
	arn    arn.ARN
	client *client
}

// New returns a service for the keys with the given ARNs. The first wraps, every one
// unwraps. They are in one region, which is the client's. It makes no call.
//
// The client is copied; the copy differs in this: it retries by the rules of this
// package whatever the client's Retryer is, and of the client's log mode only
// retries, deprecations and the headers of responses are left, since request headers
// and bodies hold session tokens and data keys.
//
// The error is [keyset.ErrConfig] and names the key or setting: no client, no key, not
// a key ARN, two regions, or FIPS together with an endpoint of one's own. A key id or
// an alias has to be looked up first: [Open] does, or take the ARN from DescribeKey.
func New(client *kms.Client, keys ...string) (*Service, error) {
	if client == nil {
		return nil, configError("no client")
	}
	s := &Service{}
	for _, text := range keys {
		r, err := parseReference(text)
		if err != nil {
			return nil, err
		}
		if !r.isKeyARN() {
			return nil, configError("key %q is not a key ARN: take Open, which looks it up, or the ARN that aws kms describe-key prints", r.id)
		}
		if err := s.add(client, r.arn); err != nil {
			return nil, err
		}
	}
	if len(s.keys) == 0 {
		return nil, configError("no key")
	}
	return s, nil
}

// add appends a key that c reaches. One that is there already is passed over.
func (s *Service) add(c *kms.Client, a arn.ARN) error {
	var shared *client
	for _, k := range s.keys {
		if k.arn == a {
			return nil
		}
		if k.client.source == c {
			shared = k.client
		}
	}
	if shared == nil {
		var err error
		if shared, err = newClient(c, a.Region); err != nil {
			return err
		}
	}
	if region := shared.Options().Region; region != a.Region {
		return configError("key %s is in the region %s, and the client in %s: take a client for %s, or the key's replica in %s if it is a multi-Region key", a, a.Region, region, a.Region, region)
	}
	s.keys = append(s.keys, key{a, shared})
	return nil
}

// Opens reports whether service names a listed key: by its ARN, or by that of
// another replica of a multi-Region key that is listed.
func (s *Service) Opens(service string) bool { return len(s.openers(service)) > 0 }

// openers returns the listed keys that can unwrap what the key with a stored name
// wrapped, that very key first.
func (s *Service) openers(service string) []key {
	a, ok := parseServiceName(service)
	if !ok {
		return nil
	}
	var exact, replicas []key
	for _, k := range s.keys {
		switch {
		case k.arn == a:
			exact = append(exact, k)
		case isReplica(k.arn, a):
			replicas = append(replicas, k)
		}
	}
	return append(exact, replicas...)
}

// Wrap wraps a data key of 1 to 4096 bytes with kms:Encrypt.
func (s *Service) Wrap(ctx context.Context, dataKey []byte, encryptionContext map[string]string) (keyset.WrappedKey, error) {
	k := s.keys[0]
	if len(dataKey) == 0 || len(dataKey) > maxDataKey {
		return keyset.WrappedKey{}, keyError(failedInput, opEncrypt, k.arn, fmt.Errorf("a data key of %d bytes, where 1 to %d can be wrapped", len(dataKey), maxDataKey))
	}
	if err := k.checkContext(opEncrypt, encryptionContext); err != nil {
		return keyset.WrappedKey{}, err
	}
	out, err := k.client.Encrypt(ctx, &kms.EncryptInput{
		KeyId:             aws.String(k.arn.String()),
		Plaintext:         dataKey,
		EncryptionContext: encryptionContext,
	}, k.client.bounded(ctx))
	if err != nil {
		return keyset.WrappedKey{}, k.fail(ctx, opEncrypt, encryptionContext, err)
	}
	return k.wrapped(opEncrypt, out.KeyId, out.CiphertextBlob)
}

// Generate makes a data key with kms:GenerateDataKey (AES_256). The caller zeroes it.
func (s *Service) Generate(ctx context.Context, encryptionContext map[string]string) ([]byte, keyset.WrappedKey, error) {
	k := s.keys[0]
	if err := k.checkContext(opGenerate, encryptionContext); err != nil {
		return nil, keyset.WrappedKey{}, err
	}
	out, err := k.client.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{
		KeyId:             aws.String(k.arn.String()),
		KeySpec:           types.DataKeySpecAes256,
		EncryptionContext: encryptionContext,
	}, k.client.bounded(ctx))
	if err != nil {
		return nil, keyset.WrappedKey{}, k.fail(ctx, opGenerate, encryptionContext, err)
	}
	w, err := k.wrapped(opGenerate, out.KeyId, out.CiphertextBlob)
	if err == nil && len(out.Plaintext) != dataKeySize {
		err = keyError(failedAnswer, opGenerate, k.arn, fmt.Errorf("a data key of %d bytes, where %d were asked for", len(out.Plaintext), dataKeySize))
	}
	if err != nil {
		clear(out.Plaintext)
		return nil, keyset.WrappedKey{}, err
	}
	return out.Plaintext, w, nil
}

// wrapped returns the wrapped key in a response, if it is k that answered.
func (k key) wrapped(op string, keyID *string, ciphertext []byte) (keyset.WrappedKey, error) {
	if err := k.checkAnswer(op, keyID); err != nil {
		return keyset.WrappedKey{}, err
	}
	if len(ciphertext) == 0 {
		return keyset.WrappedKey{}, keyError(failedAnswer, op, k.arn, errors.New("the response holds no ciphertext"))
	}
	return keyset.WrappedKey{Service: serviceName(k.arn), Ciphertext: ciphertext}, nil
}

// Unwrap returns a data key with kms:Decrypt. Every call names the key, which is a
// listed one, and the answer must come from it.
//
// For a multi-Region key of which several replicas are listed, the next one is tried
// if one cannot answer, each with an equal share of the time that ctx has left; the
// error is that of the first.
func (s *Service) Unwrap(ctx context.Context, w keyset.WrappedKey, encryptionContext map[string]string) ([]byte, error) {
	openers, err := s.check(w, opDecrypt)
	if err != nil {
		return nil, err
	}
	var first error
	for i, k := range openers {
		shareCtx, cancel := share(ctx, len(openers)-i)
		dataKey, err := k.decrypt(shareCtx, w.Ciphertext, encryptionContext)
		cancel()
		if err == nil {
			return dataKey, nil
		}
		if first == nil {
			first = err
		}
		if isVerdict(err) || ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

// share returns a context for one of n tries that share the time of ctx.
func share(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok || n == 1 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(n))
}

// isVerdict reports whether err is about the wrapped key, on which all replicas
// agree.
func isVerdict(err error) bool {
	return errors.Is(err, keyset.ContextMismatch) || errors.Is(err, keyset.Corrupt) || errors.Is(err, keyset.WrongKey)
}

func (k key) decrypt(ctx context.Context, ciphertext []byte, encryptionContext map[string]string) ([]byte, error) {
	if err := k.checkContext(opDecrypt, encryptionContext); err != nil {
		return nil, err
	}
	out, err := k.client.Decrypt(ctx, &kms.DecryptInput{
		KeyId:             aws.String(k.arn.String()),
		CiphertextBlob:    ciphertext,
		EncryptionContext: encryptionContext,
	}, k.client.bounded(ctx))
	if err != nil {
		return nil, k.fail(ctx, opDecrypt, encryptionContext, err)
	}
	if err := k.checkAnswer(opDecrypt, out.KeyId); err != nil {
		clear(out.Plaintext)
		return nil, err
	}
	if len(out.Plaintext) == 0 {
		return nil, keyError(failedAnswer, opDecrypt, k.arn, errors.New("the response holds no data key"))
	}
	return out.Plaintext, nil
}

// Rewrap wraps a data key anew under the first key with kms:ReEncrypt, so that it
// does not leave KMS. KMS does that within a region only; a data key wrapped in another
// one is unwrapped and wrapped here.
func (s *Service) Rewrap(ctx context.Context, w keyset.WrappedKey, encryptionContext map[string]string) (keyset.WrappedKey, error) {
	openers, err := s.check(w, opReEncryptFrom)
	if err != nil {
		return keyset.WrappedKey{}, err
	}
	for _, source := range openers {
		if source.client == s.keys[0].client {
			return s.keys[0].reEncrypt(ctx, source, w.Ciphertext, encryptionContext)
		}
	}
	dataKey, err := s.Unwrap(ctx, w, encryptionContext)
	if err != nil {
		return keyset.WrappedKey{}, err
	}
	defer clear(dataKey)
	return s.Wrap(ctx, dataKey, encryptionContext)
}

func (k key) reEncrypt(ctx context.Context, source key, ciphertext []byte, encryptionContext map[string]string) (keyset.WrappedKey, error) {
	if err := k.checkContext(opReEncryptFrom, encryptionContext); err != nil {
		return keyset.WrappedKey{}, err
	}
	out, err := k.client.ReEncrypt(ctx, &kms.ReEncryptInput{
		SourceKeyId:                  aws.String(source.arn.String()),
		SourceEncryptionContext:      encryptionContext,
		DestinationKeyId:             aws.String(k.arn.String()),
		DestinationEncryptionContext: encryptionContext,
		CiphertextBlob:               ciphertext,
	}, k.client.bounded(ctx))
	if err != nil {
		failed, op := k.culprit(source, err)
		return keyset.WrappedKey{}, failed.fail(ctx, op, encryptionContext, err)
	}
	if err := source.checkAnswer(opReEncryptFrom, out.SourceKeyId); err != nil {
		return keyset.WrappedKey{}, err
	}
	return k.wrapped(opReEncryptTo, out.KeyId, out.CiphertextBlob)
}

// culprit returns which of the two keys of a ReEncrypt the error is about, and the
// permission that this key needs.
func (k key) culprit(source key, err error) (key, string) {
	var api smithy.APIError
	if errors.As(err, &api) && !isVerdict(classify(err).kind) {
		message := api.ErrorMessage()
		if strings.Contains(message, opReEncryptTo) || k.arn != source.arn && strings.Contains(message, k.arn.String()) {
			return k, opReEncryptTo
		}
	}
	return source, opReEncryptFrom
}

// check returns the keys to unwrap w with, or an error for what needs no call.
func (s *Service) check(w keyset.WrappedKey, op string) ([]key, error) {
	openers := s.openers(w.Service)
	if len(openers) == 0 {
		return nil, &keyset.KeyError{
			Kind: keyset.WrongKey, Key: fmt.Sprintf("%.256q", w.Service), Operation: op,
			Remedy: "it is not one of the keys that this service was given: list its ARN if it may be used",
		}
	}
	if n := len(w.Ciphertext); n == 0 || n > maxCiphertext {
		return nil, keyError(failedInput, op, openers[0].arn, fmt.Errorf("a ciphertext of %d bytes, where KMS makes 1 to %d", n, maxCiphertext))
	}
	return openers, nil
}
