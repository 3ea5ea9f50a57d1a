package keyset

import (
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/echoseal/echoseal/internal/canon"
)

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

// ContextBytes returns an encryption context as canonical JSON, for a key service
// that takes bytes ("additional authenticated data"). The members are in the order of
// their names' code points, without space, and all but printable ASCII is escaped:
//
//	{"echoseal:key":"…","echoseal:keyset":"…","echoseal:purpose":"data"}
//
// Two contexts have the same bytes only if they are equal. A byte that is not UTF-8 is
// written as the lone surrogate \udc80 to \udcff, as Python's surrogateescape does.
func ContextBytes(encryptionContext map[string]string) []byte {
	members := make(map[string]string, len(encryptionContext))
	for name, value := range encryptionContext {
		members[toText(name)] = toText(value)
	}
	dst := []byte{'{'}
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst, _ = canon.AppendString(dst, name) // toText has made it text
		dst = append(dst, ':')
		dst, _ = canon.AppendString(dst, members[name])
	}
	return append(dst, '}')
}

// toText returns s with a lone surrogate, in the form that package canon gives it, for
// each byte that is not UTF-8. Valid UTF-8 has none, so nothing else looks like it.
func toText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var text []byte
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 {
			const prefix, high, low = 0xed, 0xb0, 0x80 // U+DC00 in three bytes
			text = append(text, prefix, high|s[0]>>6, low|s[0]&0x3f)
		} else {
			text = append(text, s[:size]...)
		}
		s = s[size:]
	}
	return string(text)
}
