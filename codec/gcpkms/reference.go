package gcpkms

import (
	"fmt"
	"strings"

	"github.com/echoseal/echoseal/keyset"
)

const (
	scheme = "gcpkms"
	prefix = scheme + "://"
	form   = "projects/P/locations/L/keyRings/R/cryptoKeys/K"

	versions = "/cryptoKeyVersions/"
)

// A reference is a key as people write it: the resource name of a CryptoKey, or of one
// of its versions.
type reference struct {
	name    string // of the CryptoKey
	version string // the number; "" for whichever is the primary version
}

// parseReference reads what follows gcpkms://.
func parseReference(text string) (reference, error) {
	name, version, pinned := strings.Cut(text, versions)
	if !isKeyName(name) || pinned && !isVersion(version) {
		return reference{}, configError("key %.256q is not the resource name of a key: write %s, with or without %sN", text, form, versions)
	}
	return reference{name, version}, nil
}

// isKeyName reports whether text has the form of a CryptoKey's name.
func isKeyName(text string) bool {
	parts := strings.Split(text, "/")
	if len(parts) != 8 {
		return false
	}
	for i, collection := range []string{"projects", "locations", "keyRings", "cryptoKeys"} {
		if parts[2*i] != collection || !isID(parts[2*i+1]) {
			return false
		}
	}
	return true
}

// isID reports whether text can be the id of a project, location, key ring or key. Only
// that of a project has dots and colons: example.com:project.
func isID(text string) bool {
	for _, c := range text {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || strings.ContainsRune("-_.:", c)) {
			return false
		}
	}
	return len(text) > 0 && len(text) <= 255 && strings.Trim(text, ".") != ""
}

// isVersion reports whether text is the number of a version, as Cloud KMS writes it.
func isVersion(text string) bool {
	for _, c := range text {
		if !isDigit(c) {
			return false
		}
	}
	return len(text) > 0 && len(text) <= 19 && text[0] != '0'
}

func isDigit(c rune) bool { return c >= '0' && c <= '9' }

// id returns what encrypts: the version if one is named, else the key, of which Cloud
// KMS then takes the primary version.
func (r reference) id() string {
	if r.version == "" {
		return r.name
	}
	return r.versionName(r.version)
}

func (r reference) versionName(version string) string { return r.name + versions + version }

// service returns the stored name of the key.
func (r reference) service() string { return prefix + r.name }

// flags returns how gcloud names the key.
func (r reference) flags() string {
	parts := strings.Split(r.name, "/")
	return fmt.Sprintf("--project=%s --location=%s --keyring=%s --key=%s", parts[1], parts[3], parts[5], parts[7])
}

// location returns where the key is.
func (r reference) location() string { return strings.Split(r.name, "/")[3] }

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: gcpkms: %w", keyset.ErrConfig, fmt.Errorf(format, args...))
}
