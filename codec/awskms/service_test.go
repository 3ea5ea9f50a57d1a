package awskms_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/echoseal/echoseal/codec/awskms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
)

func TestWrapAndUnwrap(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey(kmsfake.Key{})
	s := newService(t, newClient(fake), key)

	generated, w, err := s.Generate(t.Context(), secretContext)
	if err != nil || len(generated) != 32 {
		t.Fatalf("Generate: %d bytes, %v", len(generated), err)
	}
	for name, pair := range map[string]struct {
		dataKey []byte
		wrapped keyset.WrappedKey
	}{
		"generated": {generated, w},
		"wrapped":   {[]byte("0123456789abcdef0123456789abcdef"), wrap(t, s, []byte("0123456789abcdef0123456789abcdef"))},
		"long":      {bytes.Repeat([]byte{7}, 4096), wrap(t, s, bytes.Repeat([]byte{7}, 4096))},
	} {
		if pair.wrapped.Service != "awskms:///"+key || pair.wrapped.Version != "" {
			t.Errorf("%s: wrapped by %+v", name, pair.wrapped)
		}
		if got, err := s.Unwrap(t.Context(), pair.wrapped, secretContext); err != nil || !bytes.Equal(got, pair.dataKey) {
			t.Errorf("%s: another data key, or %v", name, err)
		}
	}
	for _, call := range fake.Seen() {
		if call.KeyID != key || call.Region != home {
			t.Errorf("call %+v, want the ARN in every one", call)
		}
	}
}

func TestContextMismatch(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey(kmsfake.Key{})
	s := newService(t, newClient(fake), key)
	w := wrap(t, s, []byte("data key"))

	change := func(name, value string) map[string]string {
		changed := maps.Clone(secretContext)
		changed[name] = value
		return changed
	}
	damaged := w
	damaged.Ciphertext = bytes.Clone(w.Ciphertext)
	damaged.Ciphertext[len(damaged.Ciphertext)-1] ^= 1
	encoded := w
	encoded.Ciphertext = []byte("AQICAHh" + strings.Repeat("A", 80))
	for name, c := range map[string]struct {
		w       keyset.WrappedKey
		context map[string]string
	}{
		"another keyset":  {w, change("echoseal:keyset", "canary")},
		"another entry":   {w, change("echoseal:key", "canary")},
		"another purpose": {w, change("echoseal:purpose", "auth")},
		"one more":        {w, change("echoseal:more", "canary")},
		"damaged":         {damaged, secretContext},
		"encoded twice":   {encoded, secretContext},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Unwrap(t.Context(), c.w, c.context)
			wantError(t, err, keyset.ContextMismatch, key, "kms:Decrypt")
			for _, want := range []string{"context mismatch or corrupt", "echoseal:key, echoseal:keyset", "echoseal:purpose"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestImpossibleLengthTakesNoCall(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey(kmsfake.Key{})
	s := newService(t, newClient(fake), key)

	for _, n := range []int{0, 6145} {
		w := keyset.WrappedKey{Service: "awskms:///" + key, Ciphertext: make([]byte, n)}
		_, err := s.Unwrap(t.Context(), w, secretContext)
		wantError(t, err, keyset.Corrupt, key, "kms:Decrypt")
		_, err = s.Rewrap(t.Context(), w, secretContext)
		wantError(t, err, keyset.Corrupt, key, "kms:ReEncryptFrom")
	}
	for _, n := range []int{0, 4097} {
		_, err := s.Wrap(t.Context(), make([]byte, n), secretContext)
		wantError(t, err, keyset.Corrupt, key, "kms:Encrypt")
	}
	if calls := fake.Seen(); len(calls) > 0 {
		t.Errorf("calls %v, want none", calls)
	}
}

// A ciphertext that was swapped for one under another key is refused, be that key
// listed or not, and even if what answers decrypts it.
func TestSwappedCiphertext(t *testing.T) {
	fake := kmsfake.Start(t)
	key, listed, other := fake.AddKey(kmsfake.Key{}), fake.AddKey(kmsfake.Key{}), fake.AddKey(kmsfake.Key{})
	var seen spy
	s := newService(t, newClient(fake, seen.watch), key, listed)

	for name, maker := range map[string]string{"listed": listed, "not listed": other} {
		t.Run(name, func(t *testing.T) {
			w := wrap(t, newService(t, newClient(fake), maker), []byte("data key"))
			w.Service = "awskms:///" + key
			_, err := s.Unwrap(t.Context(), w, secretContext)
			wantError(t, err, keyset.WrongKey, key, "kms:Decrypt")
			_, err = s.Rewrap(t.Context(), w, secretContext)
			wantError(t, err, keyset.WrongKey, key, "kms:ReEncryptFrom")
		})
	}
	if n := fake.Calls("Decrypt"); n != 2 {
		t.Errorf("%d calls of Decrypt, want one for each ciphertext: no other key may be tried", n)
	}
}

func TestNotListedTakesNoCall(t *testing.T) {
	fake := kmsfake.Start(t)
	key, other := fake.AddKey(kmsfake.Key{}), fake.AddKey(kmsfake.Key{})
	s := newService(t, newClient(fake), key)
	w := wrap(t, newService(t, newClient(fake), other), []byte("data key"))
	before := len(fake.Seen())

	_, err := s.Unwrap(t.Context(), w, secretContext)
	if e := err.Error(); !strings.Contains(e, other) || !strings.Contains(e, "kms:Decrypt") {
		t.Errorf("%q names neither key nor operation", e)
	}
	if _, err2 := s.Rewrap(t.Context(), w, secretContext); !isKind(err, keyset.WrongKey) || !isKind(err2, keyset.WrongKey) {
		t.Errorf("Unwrap: %v, Rewrap: %v, want wrong key", err, err2)
	}
	if n := len(fake.Seen()); n != before {
		t.Errorf("%d calls, want none", n-before)
	}
}

// Whatever the answer of another key holds, nothing of it is used, and a plaintext in
// it is zeroed.
func TestAnotherKeyAnswers(t *testing.T) {
	for _, answer := range []string{"arn:aws:kms:eu-west-1:111122223333:key/other", "alias/echoseal", "1234"} {
		t.Run(answer, func(t *testing.T) {
			fake := kmsfake.Start(t)
			key := fake.AddKey(kmsfake.Key{})
			var seen spy
			s := newService(t, newClient(fake, seen.watch), key)
			w := wrap(t, s, []byte("data key"))
			for _, operation := range []string{"Decrypt", "GenerateDataKey", "Encrypt", "ReEncrypt", "DescribeKey"} {
				fake.Fail(operation, kmsfake.Fault{KeyID: answer})
			}

			_, err := s.Unwrap(t.Context(), w, secretContext)
			wantError(t, err, keyset.WrongKey, key, "kms:Decrypt")
			_, _, err = s.Generate(t.Context(), secretContext)
			wantError(t, err, keyset.WrongKey, key, "kms:GenerateDataKey")
			_, err = s.Wrap(t.Context(), []byte("data key"), secretContext)
			wantError(t, err, keyset.WrongKey, key, "kms:Encrypt")
			_, err = s.Rewrap(t.Context(), w, secretContext)
			wantError(t, err, keyset.WrongKey, key, "kms:ReEncryptTo")
			described, _ := s.Describe(t.Context())
			wantError(t, described[0].Err, keyset.WrongKey, key, "kms:DescribeKey")
			seen.wantZeroed(t, 2)
		})
	}
}

// What is no answer of KMS is an error, and never an empty data key.
func TestMalformedAnswer(t *testing.T) {
	for name, body := range map[string]string{
		"empty":          "",
		"no member":      "{}",
		"text":           "<html>canary</html>",
		"cut":            `{"KeyId":"KEY","Plaintext":"Y2FuYXJ5`,
		"wrong type":     `{"KeyId":"KEY","Plaintext":["canary"]}`,
		"a string":       `"canary"`,
		"not base64":     `{"KeyId":"KEY","Plaintext":"canary!","CiphertextBlob":"AA=="}`,
		"no plaintext":   `{"KeyId":"KEY","CiphertextBlob":"AA=="}`,
		"no ciphertext":  `{"KeyId":"KEY","Plaintext":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`,
		"short data key": `{"KeyId":"KEY","Plaintext":"","CiphertextBlob":"AA=="}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := kmsfake.New()
				key := fake.AddKey(kmsfake.Key{})
				s := newService(t, newClient(fake), key)
				w := wrap(t, s, []byte("data key"))
				fault := kmsfake.Fault{Body: strings.ReplaceAll(body, "KEY", key)}
				fake.FailAll(fault, -1)

				if name != "no ciphertext" {
					_, err := s.Unwrap(t.Context(), w, secretContext)
					wantError(t, err, keyset.Unavailable, key, "kms:Decrypt")
				}
				_, _, err := s.Generate(t.Context(), secretContext)
				wantError(t, err, keyset.Unavailable, key, "kms:GenerateDataKey")
				described, _ := s.Describe(t.Context())
				wantError(t, described[0].Err, keyset.Unavailable, key, "kms:DescribeKey")
			})
		})
	}
}

func TestOpens(t *testing.T) {
	const (
		plain   = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
		replica = "arn:aws:kms:eu-west-1:111122223333:key/mrk-1234abcd12ab34cd56ef1234567890ab"
	)
	s := newService(t, kms.New(kms.Options{Region: home}), plain, replica)
	for service, want := range map[string]bool{
		"awskms:///" + plain:   true,
		"awskms:///" + replica: true,
		"awskms:///" + strings.Replace(replica, home, "us-east-1", 1):                                      true, // another replica
		"awskms:///" + strings.Replace(plain, home, "us-east-1", 1):                                        false,
		"awskms:///" + strings.Replace(replica, "111122223333", "444455556666", 1):                         false,
		"awskms:///" + strings.Replace(replica, "arn:aws:", "arn:aws-cn:", 1):                              false,
		"awskms:///" + strings.Replace(replica, "mrk-1", "mrk-2", 1):                                       false,
		"awskms:///" + strings.Replace(strings.Replace(replica, home, "us-east-1", 1), "/mrk", "/mrk-", 1): false,
		"awskms:///" + plain + "?endpoint=https://example.com":                                             false,
		"awskms:////" + plain: false,
		"awskms://" + plain:   false,
		"AWSKMS:///" + plain:  false,
		plain:                 false,
		"awskms:///1234abcd-12ab-34cd-56ef-1234567890ab": false,
		"awskms:///alias/echoseal":                       false,
		"gcpkms://" + plain:                              false,
		"":                                               false,
	} {
		if got := s.Opens(service); got != want {
			t.Errorf("Opens(%q) is %t, want %t", service, got, want)
		}
	}
}
