package gcpkms

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/kms/apiv1/kmspb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/iterator"

	"github.com/echoseal/echoseal/keyset"
)

// Describe tells the state of every listed key, and of the version that wraps: the
// primary one, or the one that was listed. A version of the key that is scheduled for
// destruction is a warning, since what it wrapped is lost with it.
//
// It takes permissions that a server does not need: cloudkms.cryptoKeys.get, and
// cloudkms.cryptoKeyVersions.get and .list. Where the first is missing, the
// description says so by an error of the kind [keyset.Denied]; where it is the last, a
// warning says that not every version was looked at. When a credential ends is not
// told, since the vendor's client renews it.
func (s *Service) Describe(ctx context.Context) ([]keyset.KeyDescription, error) {
	descriptions := make([]keyset.KeyDescription, 0, len(s.keys))
	for _, k := range s.keys {
		descriptions = append(descriptions, k.describe(ctx))
	}
	return descriptions, nil
}

func (k key) describe(ctx context.Context) keyset.KeyDescription {
	d := keyset.KeyDescription{Service: k.service(), Version: k.version}
	wrapping, err := k.wrapping(ctx)
	if err != nil {
		d.Err = err
		return d
	}
	if d.Version, d.Err = k.checkVersion(opGet, wrapping.GetName()); d.Err != nil {
		return d
	}
	if f, bad := stateFailures[wrapping.GetState()]; bad {
		d.Err = k.keyError(f, opGet, d.Version, errors.New("the state of version "+d.Version+" is "+stateText(wrapping)))
	}
	d.Warnings = k.warnings(ctx)
	return d
}

// wrapping returns the version that wraps.
func (k key) wrapping(ctx context.Context) (*kmspb.CryptoKeyVersion, error) {
	found, err := invoke(ctx, opGet, func(options gax.CallOption) (*kmspb.CryptoKey, error) {
		return k.client.GetCryptoKey(ctx, &kmspb.GetCryptoKeyRequest{Name: k.name}, options)
	}, nil)
	switch {
	case err != nil:
		return nil, k.fail(ctx, opGet, k.version, nil, err)
	case found.GetName() != k.name:
		return nil, k.keyError(failedWrongKey, opGet, k.version, fmt.Errorf("the key that answered is %.256q", found.GetName()))
	case found.GetPurpose() != kmspb.CryptoKey_ENCRYPT_DECRYPT:
		return nil, k.keyError(failedUsage, opGet, k.version, fmt.Errorf("the key has the purpose %s", found.GetPurpose()))
	case k.version == "" && found.GetPrimary() == nil:
		return nil, k.keyError(failedPrimary, opGet, "", nil)
	case k.version == "":
		return found.GetPrimary(), nil
	}
	version, err := invoke(ctx, opGetVersion, func(options gax.CallOption) (*kmspb.CryptoKeyVersion, error) {
		return k.client.GetCryptoKeyVersion(ctx, &kmspb.GetCryptoKeyVersionRequest{Name: k.id()}, options)
	}, nil)
	if err != nil {
		return nil, k.fail(ctx, opGetVersion, k.version, nil, err)
	}
	return version, nil
}

// warnings tells of versions that are going to be destroyed.
func (k key) warnings(ctx context.Context) []string {
	const pageSize = 1000 // the most that Cloud KMS gives at once
	found, err := invoke(ctx, opList, func(options gax.CallOption) ([]string, error) {
		var warnings []string
		all := k.client.ListCryptoKeyVersions(ctx, &kmspb.ListCryptoKeyVersionsRequest{Parent: k.name, PageSize: pageSize}, options)
		for {
			version, err := all.Next()
			if errors.Is(err, iterator.Done) {
				return warnings, nil
			}
			if err != nil {
				return nil, err
			}
			if version.GetState() == kmspb.CryptoKeyVersion_DESTROY_SCHEDULED {
				warnings = append(warnings, k.scheduled(version))
			}
		}
	}, nil)
	if err != nil {
		return []string{"not every version was looked at: " + k.fail(ctx, opList, "", nil, err).Error()}
	}
	return found
}

func (k key) scheduled(version *kmspb.CryptoKeyVersion) string {
	number := strings.TrimPrefix(version.GetName(), k.name+versions)
	if !isVersion(number) {
		number = "VERSION"
	}
	return fmt.Sprintf("the state of version %s is %s: what it wrapped is lost then; wrap that anew before, or run gcloud kms keys versions restore %s %s",
		number, stateText(version), number, k.flags())
}

// stateText returns the state of a version, with the date at which it is destroyed.
func stateText(version *kmspb.CryptoKeyVersion) string {
	state := version.GetState().String()
	if at := version.GetDestroyTime(); at != nil && version.GetState() == kmspb.CryptoKeyVersion_DESTROY_SCHEDULED {
		state += ", to be destroyed at " + at.AsTime().Format(time.RFC3339)
	}
	return state
}
