package keyset

// A Purpose says what a wrapped key is for.
type Purpose string

// The purposes.
const (
	Data Purpose = "data" // the secret of a token key
	Auth Purpose = "auth" // the key that authenticates a keyset
)

// EncryptionContext returns the encryption context of a wrapped key: the name of the
// keyset, the id of the entry and the purpose. It is never stored; whoever unwraps
// builds it from configuration, so that a ciphertext moved to another place does not
// open there.
func EncryptionContext(keyset, id string, purpose Purpose) map[string]string {
	return map[string]string{
		"echoseal:keyset":  keyset,
		"echoseal:key":     id,
		"echoseal:purpose": string(purpose),
	}
}
