package binding

import (
	"encoding/json"
	"unicode/utf8"
)

// notText is a JSON string that is not UTF-8: the digest refuses it, and says why.
const notText = "\"\xff\""

// PromptArguments returns the arguments of a prompt as JSON for [Request.Arguments],
// where an SDK hands them over decoded and the bytes that the client sent are gone.
// nil and an empty map give nil. Two different maps never give the same JSON:
// json.Marshal would put U+FFFD for whatever is not UTF-8, so a map with such a string
// gives something to which nothing can be bound.
//
// An SDK that decodes with encoding/json has put U+FFFD for every lone surrogate
// before: there, other than in Python, all of them are alike.
func PromptArguments(arguments map[string]string) []byte {
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
