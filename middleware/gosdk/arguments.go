package gosdk

import (
	"encoding/json"
	"unicode/utf8"
)

// notText is a JSON string that is not UTF-8: the digest refuses it, and says why.
const notText = "\"\xff\""

// encode returns the arguments of a prompt as JSON. Two different maps never give the
// same JSON: json.Marshal would put U+FFFD for whatever is not UTF-8, so a map with
// such a string gives something that cannot be bound to at all.
func encode(arguments map[string]string) []byte {
	if len(arguments) == 0 {
		return nil
	}
	for name, value := range arguments {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return []byte(notText)
		}
	}
	text, err := json.Marshal(arguments)
	if err != nil {
		return []byte(notText) // cannot happen to a map of strings
	}
	return text
}
