package awskms_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/smithy-go/logging"

	"github.com/echoseal/echoseal/codec/awskms"
	"github.com/echoseal/echoseal/codec/awskms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
)

// deafProvider does not keep to its context until the test ends.
type deafProvider struct{ done <-chan struct{} }

func (p deafProvider) Retrieve(context.Context) (aws.Credentials, error) {
	<-p.done
	return aws.Credentials{}, errors.New("the test is over")
}

func TestCredentialSearchHangs(t *testing.T) {
	done := make(chan struct{})
	defer close(done)
	fake := kmsfake.Start(t)
	key := fake.AddKey(kmsfake.Key{})
	s := newService(t, newClient(fake, func(o *kms.Options) { o.Credentials = deafProvider{done} }), key)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := s.Unwrap(ctx, keyset.WrappedKey{Service: "awskms:///" + key, Ciphertext: []byte{1}}, secretContext)
	took := time.Since(start)
	wantError(t, err, keyset.Unavailable, key, "kms:Decrypt")
	if took > 1100*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "finding credentials") {
		t.Errorf("%v after %v: it has to name the step that waited", err, took)
	}
	if len(fake.Seen()) > 0 {
		t.Error("a call was made without credentials")
	}
}

func TestBadCredentials(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey(kmsfake.Key{})
	fake.SetCaller("AKIAEXPIRED", kmsfake.Caller{SessionToken: "canary-session-token", Expired: true})
	failing := func(o *kms.Options) { o.Credentials = failingProvider{} }
	for name, change := range map[string]func(*kms.Options){
		"expired":     as("AKIAEXPIRED", "canary-session-token"),
		"unknown":     as("AKIAUNKNOWN", ""),
		"wrong token": as("AKIAEXPIRED", "canary-of-another"),
		"none found":  failing,
	} {
		t.Run(name, func(t *testing.T) {
			before := len(fake.Seen())
			s := newService(t, newClient(fake, change), key)
			_, _, err := s.Generate(t.Context(), secretContext)
			wantError(t, err, keyset.Denied, key, "kms:GenerateDataKey")
			if n := len(fake.Seen()) - before; n > 1 {
				t.Errorf("%d calls, want no retry", n)
			}
			if found := strings.Contains(err.Error(), "finding credentials"); found != (name == "none found") {
				t.Errorf("%v: it has to tell a missing credential from one that was refused", err)
			}
		})
	}
}

type failingProvider struct{}

func (failingProvider) Retrieve(context.Context) (aws.Credentials, error) {
	return aws.Credentials{}, errors.New("no role is attached")
}

// What a credential_process prints may be half a credential, and must not be quoted.
func TestCredentialProcessIsNotQuoted(t *testing.T) {
	dir := isolate(t)
	script := filepath.Join(dir, "helper")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho '{\"SecretAccessKey\": \"canary\",'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte("[profile helper]\ncredential_process = "+script+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const key = "arn:aws:kms:eu-west-1:111122223333:key/1234"
	s, err := awskms.Open(t.Context(), "awskms:///"+key+"?profile=helper&endpoint=http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Generate(t.Context(), secretContext)
	wantError(t, err, keyset.Denied, key, "kms:GenerateDataKey")
	if text := fmt.Sprintf("%v %+v", err, err); !strings.Contains(text, "credential_process") || strings.Contains(text, "canary") {
		t.Errorf("%s has to name the credential_process, and not to quote it", text)
	}
}

// journal is a log of the SDK.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Logf(_ logging.Classification, format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, _ = fmt.Fprintf(&j.text, format+"\n", args...)
}

const everything = aws.LogSigning | aws.LogRetries | aws.LogRequest | aws.LogRequestWithBody | aws.LogResponse |
	aws.LogResponseWithBody | aws.LogDeprecatedUsage | aws.LogRequestEventMessage | aws.LogResponseEventMessage

// With all of the SDK's own logging on, nothing secret is in the log or in an error.
func TestNothingSecretIsLogged(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey(kmsfake.Key{})
	const token = "canary-session-token"
	fake.SetCaller("AKIALOGGED", kmsfake.Caller{SessionToken: token})
	var log journal
	options := newClient(fake, as("AKIALOGGED", token)).Options()
	options.Logger, options.ClientLogMode = &log, everything
	options.HTTPSignerV4, options.AuthSchemes = nil, nil // made anew with this log mode
	client := kms.New(options)

	s := newService(t, client, key)
	data, w, err := s.Generate(t.Context(), secretContext)
	if err != nil {
		t.Fatal(err)
	}
	wrap(t, s, []byte("canary-data-key-of-32-bytes-0000"))
	if _, err := s.Unwrap(t.Context(), w, secretContext); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rewrap(t.Context(), w, secretContext); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	plaintext := base64.StdEncoding.EncodeToString(data)
	for _, fault := range []kmsfake.Fault{
		{Code: "InvalidCiphertextException"}, {Status: 500, Code: "KMSInternalException"}, {KeyID: "arn:aws:kms:eu-west-1:111122223333:key/other"},
		{Body: `{"Plaintext":["` + plaintext + `"]}`}, {Body: `{"Plaintext":"` + plaintext[:40]}, {Body: `{"Plaintext":"` + plaintext + `\q"}`}, {Drop: true},
	} {
		fake.Fail("Decrypt", fault)
		if _, err := s.Unwrap(t.Context(), w, secretContext); err != nil {
			log.Logf("", "%v %+v", err, err)
			for cause := err; cause != nil; cause = errors.Unwrap(cause) {
				log.Logf("", "%#v", cause)
			}
		}
	}
	wantSilent := secrets(fake, token)
	if found := find(log.text.String(), wantSilent); len(found) > 0 {
		t.Errorf("the log holds %q:\n%s", found, log.text.String())
	}
	if !strings.Contains(log.text.String(), "HTTP/1.1 200 OK") || !strings.Contains(log.text.String(), "retrying request") {
		t.Errorf("the log lacks what it may hold:\n%s", log.text.String())
	}

	// The search finds what is there: the caller's own client writes all of it.
	log.text.Reset()
	if _, err := client.Decrypt(t.Context(), &kms.DecryptInput{CiphertextBlob: w.Ciphertext, EncryptionContext: secretContext}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{token, plaintext, "AWS4-HMAC-SHA256"} {
		if len(find(log.text.String(), []string{want})) == 0 {
			t.Errorf("a plain client does not log %q, so that this test shows nothing:\n%s", want, log.text.String())
		}
	}
}

// secrets returns all that must not be in a log, in every form.
func secrets(fake *kmsfake.Service, token string) []string {
	found := []string{token, "canary-secret-access-key", "canary-in-the-context", "AWS4-HMAC-SHA256"}
	for _, s := range fake.Secrets() {
		found = append(found, string(s), hex.EncodeToString(s), base64.StdEncoding.EncodeToString(s)[:32], base64.RawURLEncoding.EncodeToString(s)[:32],
			fmt.Sprint(s), strings.TrimPrefix(fmt.Sprintf("%#v", s), "[]byte"))
	}
	return found
}

func find(text string, secrets []string) (found []string) {
	for _, s := range secrets {
		if strings.Contains(text, s) {
			found = append(found, s)
		}
	}
	return found
}
