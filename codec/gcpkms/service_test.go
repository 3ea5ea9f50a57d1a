package gcpkms_test

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	kms "cloud.google.com/go/kms/apiv1"
	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/api/option"

	"github.com/echoseal/echoseal/codec/gcpkms"
	"github.com/echoseal/echoseal/codec/gcpkms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
)

func TestWrapAndUnwrap(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey()
	s := newService(t, fake.Client(t), key)
	for name, dataKey := range map[string][]byte{
		"new":   []byte("0123456789abcdef0123456789abcdef"),
		"short": {7},
		"long":  bytes.Repeat([]byte{7}, 65536),
	} {
		w := wrap(t, s, dataKey)
		if w.Service != "gcpkms://"+key || w.Version != "1" {
			t.Errorf("%s: wrapped by %s, version %q", name, w.Service, w.Version)
		}
		if got, err := s.Unwrap(t.Context(), w, secretContext); err != nil || !bytes.Equal(got, dataKey) {
			t.Errorf("%s: another data key, or %v", name, err)
		}
	}
}

// The version that encrypted is stored, and an older one goes on to unwrap.
func TestRotation(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey()
	s := newService(t, fake.Client(t), key)
	old := wrap(t, s, []byte("data key"))
	fake.Rotate(key)
	w := wrap(t, s, []byte("data key"))
	if old.Version != "1" || w.Version != "2" || old.Service != w.Service {
		t.Errorf("wrapped by version %q, and after rotation by %q", old.Version, w.Version)
	}
	for _, w := range []keyset.WrappedKey{old, w, {Service: old.Service, Ciphertext: old.Ciphertext}} {
		if got, err := s.Unwrap(t.Context(), w, secretContext); err != nil || string(got) != "data key" {
			t.Errorf("version %q: another data key, or %v", w.Version, err)
		}
	}
}

// A version in the name of a key is the one that wraps. Unwrapping does without.
func TestListedVersion(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey()
	fake.Rotate(key)
	s := newService(t, fake.Client(t), key+"/cryptoKeyVersions/1", key)
	w := wrap(t, s, []byte("data key"))
	if w.Service != "gcpkms://"+key || w.Version != "1" {
		t.Errorf("wrapped by %s, version %q", w.Service, w.Version)
	}
	if !s.Opens("gcpkms://"+key) || s.Opens("gcpkms://"+key+"/cryptoKeyVersions/1") {
		t.Error("a stored name has no version")
	}
	newest := wrap(t, newService(t, fake.Client(t), key), []byte("data key"))
	for _, w := range []keyset.WrappedKey{w, newest} {
		if _, err := s.Unwrap(t.Context(), w, secretContext); err != nil {
			t.Error(err)
		}
	}
	want := []kmsfake.Call{{Method: "Encrypt", Name: key + "/cryptoKeyVersions/1"}, {Method: "Encrypt", Name: key}, {Method: "Decrypt", Name: key}, {Method: "Decrypt", Name: key}}
	if got := fake.Seen(); !slices.Equal(got, want) {
		t.Errorf("calls %v, want %v", got, want)
	}
}

// The fake refuses a call without the routing header, which is how a request finds the
// location of its key.
func TestCallsAreRouted(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey()
	s := newService(t, fake.Client(t), key+"/cryptoKeyVersions/1")
	w := wrap(t, s, []byte("data key"))
	if _, err := s.Unwrap(t.Context(), w, secretContext); err != nil {
		t.Error(err)
	}
	described, err := s.Describe(t.Context())
	if err != nil || described[0].Err != nil || len(described[0].Warnings) > 0 {
		t.Errorf("%+v, %v", described, err)
	}
	for _, method := range []string{"Encrypt", "Decrypt", "GetCryptoKey", "GetCryptoKeyVersion", "ListCryptoKeyVersions"} {
		if fake.Calls(method) != 1 {
			t.Errorf("%d calls of %s", fake.Calls(method), method)
		}
	}
}

func TestContextMismatch(t *testing.T) {
	fake := kmsfake.Start(t)
	key, listed, other := fake.AddKey(), fake.AddKey(), fake.AddKey()
	fake.Rotate(key)
	s := newService(t, fake.Client(t), key, listed)
	w := wrap(t, s, []byte("data key"))
	swapped := func(maker string) keyset.WrappedKey {
		w := wrap(t, newService(t, fake.Client(t), maker), []byte("data key"))
		w.Service, w.Version = "gcpkms://"+key, "2"
		return w
	}
	change := func(name, value string) map[string]string {
		changed := maps.Clone(secretContext)
		changed[name] = value
		return changed
	}
	damaged, encoded := w, w
	damaged.Ciphertext = bytes.Clone(w.Ciphertext)
	damaged.Ciphertext[len(damaged.Ciphertext)-1] ^= 1
	encoded.Ciphertext = []byte("CiQA" + strings.Repeat("A", 80))
	for name, c := range map[string]struct {
		w       keyset.WrappedKey
		context map[string]string
	}{
		"another keyset":              {w, change("echoseal:keyset", "canary")},
		"another entry":               {w, change("echoseal:key", "canary")},
		"another purpose":             {w, change("echoseal:purpose", "auth")},
		"one more":                    {w, change("echoseal:more", "canary")},
		"damaged":                     {damaged, secretContext},
		"encoded twice":               {encoded, secretContext},
		"made under a listed key":     {swapped(listed), secretContext},
		"made under a key not listed": {swapped(other), secretContext},
	} {
		t.Run(name, func(t *testing.T) {
			before := fake.Calls("Decrypt")
			got, err := s.Unwrap(t.Context(), c.w, c.context)
			wantError(t, err, keyset.ContextMismatch, key, opDecrypt)
			for _, want := range []string{"INVALID_ARGUMENT: Decryption failed", "wrong key, wrong context or damaged", "stored version: 2", "echoseal:key, echoseal:keyset", "echoseal:purpose"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if n := fake.Calls("Decrypt") - before; n != 1 || got != nil {
				t.Errorf("%d calls, %d bytes", n, len(got))
			}
		})
	}
}

func TestImpossibleInputTakesNoCall(t *testing.T) {
	fake := kmsfake.Start(t)
	key, other := fake.AddKey(), fake.AddKey()
	s := newService(t, fake.Client(t), key)
	for _, w := range []keyset.WrappedKey{
		{Ciphertext: nil},
		{Ciphertext: make([]byte, 128<<10+1)},
		{Ciphertext: []byte{1}, Version: "canary"},
		{Ciphertext: []byte{1}, Version: "0"},
		{Ciphertext: []byte{1}, Version: "-1"},
		{Ciphertext: []byte{1}, Version: "1/../../canary"},
		{Ciphertext: []byte{1}, Version: "12345678901234567890"},
	} {
		w.Service = "gcpkms://" + key
		if _, err := s.Unwrap(t.Context(), w, secretContext); w.Version != "" {
			if !errors.Is(err, keyset.Corrupt) {
				t.Errorf("version %q: %v", w.Version, err)
			}
		} else {
			wantError(t, err, keyset.Corrupt, key, opDecrypt)
		}
	}
	for _, n := range []int{0, 65537} {
		_, err := s.Wrap(t.Context(), make([]byte, n), secretContext)
		wantError(t, err, keyset.Corrupt, key, opEncrypt)
	}
	for _, service := range []string{"gcpkms://" + other, key, "gcpkms://" + key + "/cryptoKeyVersions/1", "gcpkms://" + key + "?endpoint=127.0.0.1:1", ""} {
		_, err := s.Unwrap(t.Context(), keyset.WrappedKey{Service: service, Ciphertext: []byte{1}}, secretContext)
		if s.Opens(service) || !errors.Is(err, keyset.WrongKey) || !strings.Contains(err.Error(), opDecrypt) {
			t.Errorf("%q is opened: %v", service, err)
		}
	}
	if calls := fake.Seen(); len(calls) > 0 {
		t.Errorf("calls %v, want none", calls)
	}
}

// What encrypted has to be the key, and the version if one was asked for.
func TestAnotherKeyAnswers(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey()
	version := key + "/cryptoKeyVersions/1"
	for listed, answers := range map[string][]string{
		key: {
			"", key, key + "/cryptoKeyVersions/", key + "/cryptoKeyVersions/0", key + "/cryptoKeyVersions/x", version + "/1", key + "x/cryptoKeyVersions/1",
			strings.Replace(version, "test-project", "other-project", 1), strings.Replace(version, "europe-west3", "us-east1", 1),
		},
		version: {key + "/cryptoKeyVersions/2", key},
	} {
		s := newService(t, fake.Client(t), listed)
		for _, answer := range answers {
			fake.Fail("Encrypt", kmsfake.Fault{Answer: func(a any) { a.(*kmspb.EncryptResponse).Name = answer }})
			before := fake.Calls("Encrypt")
			w, err := s.Wrap(t.Context(), []byte("data key"), secretContext)
			wantError(t, err, keyset.WrongKey, key, opEncrypt)
			if n := fake.Calls("Encrypt") - before; n != 1 || w.Ciphertext != nil {
				t.Errorf("%q: %d calls, %d bytes", answer, n, len(w.Ciphertext))
			}
		}
	}
}

func TestBuffersAreZeroed(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey()
	var seen spy
	s := newService(t, fake.Client(t, seen.watch()), key)
	dataKey := []byte("data key")
	w := wrap(t, s, dataKey)
	if string(dataKey) != "data key" {
		t.Error("the caller's data key was changed")
	}
	fake.Fail("Encrypt", kmsfake.Disabled(key+"/cryptoKeyVersions/1", kmspb.CryptoKeyVersion_DISABLED))
	if _, err := s.Wrap(t.Context(), dataKey, secretContext); err == nil {
		t.Error("a fault is passed over")
	}
	seen.wantZeroed(t, 2, 0)

	// What the client received is handed over, not copied: the caller zeroes it.
	got, err := s.Unwrap(t.Context(), w, secretContext)
	if err != nil {
		t.Fatal(err)
	}
	clear(got)
	seen.wantZeroed(t, 2, 1)

	without := kmsfake.Fault{Answer: func(a any) { a.(*kmspb.DecryptResponse).PlaintextCrc32C = nil }}
	fake.Fail("Decrypt", without, without)
	if got, err := s.Unwrap(t.Context(), w, secretContext); err == nil || got != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	seen.wantZeroed(t, 2, 3)
}

func TestNewErrors(t *testing.T) {
	fake := kmsfake.Start(t)
	client, key := fake.Client(t), fake.AddKey()
	rest, err := kms.NewKeyManagementRESTClient(t.Context(), option.WithoutAuthentication())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rest.Close() })
	for name, c := range map[string]struct {
		client *kms.KeyManagementClient
		keys   []string
		want   string
	}{
		"no client":         {nil, []string{key}, "no client"},
		"a REST client":     {rest, []string{key}, "REST"},
		"no key":            {client, nil, "no key"},
		"a URI":             {client, []string{"gcpkms://" + key}, "not the resource name of a key"},
		"a slash before":    {client, []string{"/" + key}, "not the resource name of a key"},
		"a slash after":     {client, []string{key + "/"}, "not the resource name of a key"},
		"a key ring":        {client, []string{"projects/p/locations/l/keyRings/r"}, "not the resource name of a key"},
		"another resource":  {client, []string{"projects/p/locations/l/keyRings/r/importJobs/j"}, "not the resource name of a key"},
		"no project":        {client, []string{"projects//locations/l/keyRings/r/cryptoKeys/k"}, "not the resource name of a key"},
		"dots":              {client, []string{"projects/../locations/l/keyRings/r/cryptoKeys/k"}, "not the resource name of a key"},
		"a query":           {client, []string{key + "?endpoint=x"}, "not the resource name of a key"},
		"a line end":        {client, []string{key + "\n"}, "not the resource name of a key"},
		"the second":        {client, []string{key, "k"}, "not the resource name of a key"},
		"no version":        {client, []string{key + "/cryptoKeyVersions/"}, "not the resource name of a key"},
		"the version 0":     {client, []string{key + "/cryptoKeyVersions/0"}, "not the resource name of a key"},
		"a version in text": {client, []string{key + "/cryptoKeyVersions/latest"}, "not the resource name of a key"},
	} {
		s, err := gcpkms.New(c.client, c.keys...)
		if s != nil || !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := gcpkms.New(client, "projects/example.com:p-1/locations/global/keyRings/R_1/cryptoKeys/K-1", "projects/123/locations/eu/keyRings/r/cryptoKeys/k"); err != nil {
		t.Error(err)
	}
}
