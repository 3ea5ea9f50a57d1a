package vault

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A ciphertext of Transit is text: vault:vN:BASE64, where N is the version of the key
// and BASE64 at least a nonce of 12 bytes, a byte and a tag of 16. OpenBao writes the
// same.
const (
	ciphertextPrefix = "vault:v"
	minSealed        = 12 + 1 + 16
	maxCiphertext    = 8 << 10
)

// versionOf returns the version of the key that made a ciphertext, if text can be
// one. What it accepts stands in a JSON string as it is.
func versionOf(text string) (string, error) {
	if len(text) > maxCiphertext {
		return "", fmt.Errorf("a ciphertext of %d characters, where at most %d can be", len(text), maxCiphertext)
	}
	rest, ok := strings.CutPrefix(text, ciphertextPrefix)
	version, sealed, found := strings.Cut(rest, ":")
	if !ok || !found {
		return "", errors.New("the ciphertext does not begin with vault:vN: as one of Transit does")
	}
	if n, err := strconv.ParseUint(version, 10, 31); err != nil || n == 0 || strconv.FormatUint(n, 10) != version {
		return "", errors.New("the ciphertext has no version between vault:v and the next colon")
	}
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil || base64.StdEncoding.EncodeToString(raw) != sealed {
		return "", errors.New("the ciphertext is not canonical base64 behind its version")
	}
	if len(raw) < minSealed {
		return "", fmt.Errorf("the ciphertext holds %d bytes, where at least %d are needed", len(raw), minSealed)
	}
	return version, nil
}
