package awskms

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/arn"

	"github.com/echoseal/echoseal/keyset"
)

const (
	scheme = "awskms"
	prefix = scheme + ":///"
)

// A reference is a key as people write it: a key id, a key ARN, an alias or an alias
// ARN.
type reference struct {
	id  string  // what the service takes as KeyId
	arn arn.ARN // the zero value unless id is an ARN
}

// parseReference reads what follows awskms:///. A leading slash, which stands in the
// text after awskms://, is passed over.
func parseReference(text string) (reference, error) {
	id := strings.TrimPrefix(text, "/")
	if id == "" {
		return reference{}, configError("no key: write a key ARN, a key id, alias/NAME or an alias ARN")
	}
	if strings.HasPrefix(id, "arn:") {
		a, err := arn.Parse(id)
		if err != nil {
			return reference{}, configError("key %q: %v", id, err)
		}
		if a.Service != "kms" || a.Partition == "" || a.Region == "" || a.AccountID == "" || !isResource(a.Resource) {
			return reference{}, configError("key %q is not the ARN of a KMS key or alias: it reads arn:PARTITION:kms:REGION:ACCOUNT:key/ID", id)
		}
		return reference{id, a}, nil
	}
	if strings.ContainsRune(id, ':') || strings.ContainsRune(id, '/') && !(strings.HasPrefix(id, "alias/") && isResource(id)) {
		return reference{}, configError("key %q is neither a key ARN, a key id, alias/NAME nor an alias ARN", id)
	}
	return reference{id: id}, nil
}

// isResource reports whether text is key/ID or alias/NAME. Only the name of an alias
// may hold a slash.
func isResource(text string) bool {
	kind, name, _ := strings.Cut(text, "/")
	switch kind {
	case "key":
		return name != "" && !strings.Contains(name, "/")
	case "alias":
		return name != ""
	}
	return false
}

// isKeyARN reports whether the reference names one key for good, so that nothing has
// to be asked.
func (r reference) isKeyARN() bool { return strings.HasPrefix(r.arn.Resource, "key/") }

// isAnswer reports whether a key with the ARN a is one that the reference can mean.
func (r reference) isAnswer(a arn.ARN) bool {
	if a.Service != "kms" || !strings.HasPrefix(a.Resource, "key/") {
		return false
	}
	if r.arn != (arn.ARN{}) {
		return a.Partition == r.arn.Partition && a.Region == r.arn.Region && a.AccountID == r.arn.AccountID
	}
	return strings.HasPrefix(r.id, "alias/") || a.Resource == "key/"+r.id
}

// keyID returns what the service takes as KeyId. What has not been looked up yet has
// no account.
func keyID(a arn.ARN) string {
	if a.AccountID == "" {
		return a.Resource
	}
	return a.String()
}

// serviceName returns the stored name of the key with an ARN.
func serviceName(a arn.ARN) string { return prefix + keyID(a) }

// parseServiceName is the inverse of serviceName. It accepts nothing else: a stored
// name carries no region, endpoint or alias to follow.
func parseServiceName(service string) (a arn.ARN, ok bool) {
	text, ok := strings.CutPrefix(service, prefix)
	if !ok {
		return a, false
	}
	r, err := parseReference(text)
	return r.arn, err == nil && r.id == text && r.isKeyARN()
}

// isReplica reports whether a and b are a multi-Region key and its replica, or two
// replicas: they have the id, the account and the partition in common, and the key
// material.
func isReplica(a, b arn.ARN) bool {
	return a != b && strings.HasPrefix(a.Resource, "key/mrk-") &&
		a.Resource == b.Resource && a.AccountID == b.AccountID && a.Partition == b.Partition && a.Service == b.Service
}

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: awskms: %s", keyset.ErrConfig, fmt.Sprintf(format, args...))
}
