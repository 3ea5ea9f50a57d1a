package gcpkms_test

import (
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/echoseal/echoseal/codec/gcpkms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
)

func TestDescribe(t *testing.T) {
	fake := kmsfake.Start(t)
	plain, rotated, broken := fake.AddKey(), fake.AddKey(), fake.AddKey()
	fake.Rotate(rotated)
	fake.Rotate(rotated)
	end := timestamppb.New(time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC))
	fake.SetState(rotated, 1, kmspb.CryptoKeyVersion_DESTROYED, nil)
	fake.SetState(rotated, 2, kmspb.CryptoKeyVersion_DESTROY_SCHEDULED, end)
	fake.SetState(broken, 1, kmspb.CryptoKeyVersion_DESTROY_SCHEDULED, end)
	s := newService(t, fake.Client(t), plain, rotated, broken, rotated+"/cryptoKeyVersions/1")

	described, err := s.Describe(t.Context())
	if err != nil || len(described) != 3 {
		t.Fatalf("%d descriptions, %v", len(described), err)
	}
	for i, want := range []struct {
		key, version string
		warning      string
	}{
		{plain, "1", ""},
		{rotated, "3", "version 2 is DESTROY_SCHEDULED, to be destroyed at 2027-01-02T03:04:05Z"},
		{broken, "1", "version 1 is DESTROY_SCHEDULED, to be destroyed at 2027-01-02T03:04:05Z"},
	} {
		d := described[i]
		if d.Service != "gcpkms://"+want.key || d.Version != want.version || !d.CredentialExpires.IsZero() {
			t.Errorf("%+v, want %s version %s", d, want.key, want.version)
		}
		if want.warning == "" {
			if len(d.Warnings) > 0 {
				t.Errorf("warnings %q", d.Warnings)
			}
		} else if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], want.warning) || !strings.Contains(d.Warnings[0], "versions restore") {
			t.Errorf("warnings %q, want one that says %q", d.Warnings, want.warning)
		}
	}
	if described[0].Err != nil || described[1].Err != nil {
		t.Errorf("%v, %v", described[0].Err, described[1].Err)
	}
	wantError(t, described[2].Err, keyset.PendingDeletion, broken, opGet)
	if !strings.Contains(described[2].Err.Error(), "2027-01-02T03:04:05Z") {
		t.Error(described[2].Err)
	}
}

func TestDescribeListedVersion(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey()
	fake.Rotate(key)
	fake.SetState(key, 2, kmspb.CryptoKeyVersion_DISABLED, nil)
	s := newService(t, fake.Client(t), key+"/cryptoKeyVersions/1")
	described, _ := s.Describe(t.Context())
	if d := described[0]; d.Version != "1" || d.Err != nil {
		t.Errorf("%+v", d)
	}
	fake.SetState(key, 1, kmspb.CryptoKeyVersion_DISABLED, nil)
	described, _ = s.Describe(t.Context())
	wantError(t, described[0].Err, keyset.Disabled, key, opGet)

	absent := newService(t, fake.Client(t), key+"/cryptoKeyVersions/9")
	described, _ = absent.Describe(t.Context())
	wantError(t, described[0].Err, keyset.NotFound, key, opGetVersion)
	if described[0].Version != "9" {
		t.Errorf("version %q", described[0].Version)
	}
}

func TestDescribeOddAnswers(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey()
	s := newService(t, fake.Client(t), key)
	for name, c := range map[string]struct {
		change func(*kmspb.CryptoKey)
		kind   keyset.Kind
	}{
		"another key":           {func(k *kmspb.CryptoKey) { k.Name += "x" }, keyset.WrongKey},
		"another key's version": {func(k *kmspb.CryptoKey) { k.Primary.Name = "x" + k.Primary.Name }, keyset.WrongKey},
		"no primary version":    {func(k *kmspb.CryptoKey) { k.Primary = nil }, keyset.Disabled},
	} {
		fake.Fail("GetCryptoKey", kmsfake.Fault{Answer: func(a any) { c.change(a.(*kmspb.CryptoKey)) }})
		described, err := s.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { wantError(t, described[0].Err, c.kind, key, opGet) })
	}
}

// A server may lack the permission to list versions; it is told, and that is all.
func TestDescribeWithoutList(t *testing.T) {
	fake := kmsfake.Start(t)
	key := fake.AddKey()
	s := newService(t, fake.Client(t), key)
	fake.Fail("ListCryptoKeyVersions", kmsfake.Fault{Code: codes.Unavailable})
	described, _ := s.Describe(t.Context())
	if d := described[0]; d.Err != nil || len(d.Warnings) > 0 {
		t.Errorf("%+v", d)
	}
	fake.Deny(opList)
	described, _ = s.Describe(t.Context())
	if d := described[0]; d.Err != nil || d.Version != "1" || len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "allow "+opList) {
		t.Errorf("%+v", d)
	}
}
