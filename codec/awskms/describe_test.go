package awskms_test

import (
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec/awskms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
)

func TestDescribe(t *testing.T) {
	fake := kmsfake.Start(t)
	keys := []string{
		fake.AddKey(kmsfake.Key{}),
		fake.AddKey(kmsfake.Key{ValidTo: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}),
		fake.AddKey(kmsfake.Key{Spec: "ECC_NIST_P256", Usage: "SIGN_VERIFY"}),
		"arn:aws:kms:eu-west-1:111122223333:key/absent",
	}
	s := newService(t, newClient(fake), append(keys, keys[0])...)
	described, err := s.Describe(t.Context())
	if err != nil || len(described) != len(keys) {
		t.Fatalf("%d descriptions, %v, want one for each key", len(described), err)
	}
	for i, d := range described {
		if d.Service != "awskms:///"+keys[i] || d.Version != "" || !d.CredentialExpires.IsZero() {
			t.Errorf("description %d: %+v", i, d)
		}
	}
	if d := described[0]; d.Err != nil || len(d.Warnings) > 0 {
		t.Errorf("a good key: %+v", d)
	}
	if d := described[1]; d.Err != nil || len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0], "2030-01-02T03:04:05Z") {
		t.Errorf("imported material: %+v", d)
	}
	wantError(t, described[2].Err, keyset.WrongKey, keys[2], "kms:DescribeKey")
	wantError(t, described[3].Err, keyset.NotFound, keys[3], "kms:DescribeKey")
}
