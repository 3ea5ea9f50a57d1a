package awskms

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/echoseal/echoseal/keyset"
)

// Describe tells the state of every listed key with kms:DescribeKey, a permission
// that a server does not need otherwise: where it is missing, the description says so
// by an error of the kind [keyset.Denied] that names this operation. Imported key
// material that is going to expire is a warning. When a credential ends is not told,
// since what AWS issues for a time is renewed by the SDK.
func (s *Service) Describe(ctx context.Context) ([]keyset.KeyDescription, error) {
	descriptions := make([]keyset.KeyDescription, 0, len(s.keys))
	for _, k := range s.keys {
		descriptions = append(descriptions, k.describe(ctx))
	}
	return descriptions, nil
}

func (k key) describe(ctx context.Context) keyset.KeyDescription {
	d := keyset.KeyDescription{Service: serviceName(k.arn)}
	out, err := k.client.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: aws.String(k.arn.String())}, k.client.bounded(ctx))
	if err != nil {
		d.Err = k.fail(ctx, opDescribe, nil, err)
		return d
	}
	if out.KeyMetadata == nil {
		out.KeyMetadata = &types.KeyMetadata{}
	}
	if d.Err = k.checkAnswer(opDescribe, out.KeyMetadata.Arn); d.Err != nil {
		return d
	}
	if d.Err = checkUsage(k.arn, out.KeyMetadata); d.Err == nil {
		d.Err = checkState(k.arn, out.KeyMetadata)
	}
	if end := out.KeyMetadata.ValidTo; end != nil {
		d.Warnings = append(d.Warnings, "the imported key material expires at "+end.UTC().Format(time.RFC3339)+": import the very same material again before, with a later date or none")
	}
	return d
}

// checkUsage returns an error if a key was not made for this.
func checkUsage(a arn.ARN, m *types.KeyMetadata) error {
	if m.KeySpec == types.KeySpecSymmetricDefault && m.KeyUsage == types.KeyUsageTypeEncryptDecrypt {
		return nil
	}
	return keyError(failedUsage, opDescribe, a, fmt.Errorf("the key has the spec %s and the usage %s", m.KeySpec, m.KeyUsage))
}

// checkState returns an error if a key is in a state in which it does nothing.
func checkState(a arn.ARN, m *types.KeyMetadata) error {
	f, bad := keyStates[m.KeyState]
	if !bad {
		return nil
	}
	state := string(m.KeyState)
	if m.DeletionDate != nil {
		state += ", to be deleted at " + m.DeletionDate.UTC().Format(time.RFC3339)
	}
	return keyError(f, opDescribe, a, errors.New("the key's state is "+state))
}

// resolve returns the ARN of the key that a reference means now.
func (r reference) resolve(ctx context.Context, c *kms.Client) (arn.ARN, error) {
	if r.isKeyARN() {
		return r.arn, nil
	}
	// Until it is found, the key goes by the name it was given.
	name := r.arn
	if name == (arn.ARN{}) {
		name = arn.ARN{Partition: "aws", Service: "kms", Region: c.Options().Region, Resource: r.id}
	}
	client, err := newClient(c, name.Region)
	if err != nil {
		return arn.ARN{}, err
	}
	k := key{name, client}
	out, err := client.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: aws.String(r.id)}, client.bounded(ctx))
	if err != nil {
		return arn.ARN{}, k.fail(ctx, opDescribe, nil, err)
	}
	if out.KeyMetadata == nil {
		out.KeyMetadata = &types.KeyMetadata{}
	}
	a, err := arn.Parse(aws.ToString(out.KeyMetadata.Arn))
	if err != nil || !r.isAnswer(a) || a.Region != name.Region {
		return arn.ARN{}, keyError(failedAnswer, opDescribe, name, fmt.Errorf("the key that answered is %.256q", aws.ToString(out.KeyMetadata.Arn)))
	}
	return a, checkUsage(a, out.KeyMetadata)
}
