package binding

import (
	"crypto/sha256"
	"fmt"

	"github.com/echoseal/echoseal/internal/base64url"
	"github.com/echoseal/echoseal/internal/canon"
)

// The methods whose requests carry a requestState.
const (
	MethodCallTool     = "tools/call"
	MethodGetPrompt    = "prompts/get"
	MethodReadResource = "resources/read"
)

// A Request is what a token is bound to.
type Request struct {
	// Method is tools/call, prompts/get or resources/read. On any other nothing can
	// be sealed, and every token is refused.
	Method string

	// Target is the name of the tool or prompt, or the URI of the resource.
	Target string

	// Arguments are the raw JSON of the arguments as the client sent it, the very
	// bytes from which the handler's arguments are decoded. nil means that the
	// request has none. They are not used for resources/read. They must not change
	// while the round is in use.
	Arguments []byte

	// UniqueNames refuses arguments in which an object has two members of one name,
	// or of names that differ in letter case only. The digest takes the last of two
	// members with one name, as Python does, but encoding/json merges them and does not
	// tell case apart: a handler that decodes the bytes with it would see something
	// else than what the token was made for. Set it wherever handlers get the bytes.
	UniqueNames bool
}

const (
	digestSize  = 16
	digestChars = 22
)

// Digest returns the request digest of raw JSON arguments: 22 characters, the
// base64url of the first 16 bytes of the SHA-256 of their canonical form, which is
// what Python's json.dumps(json.loads(arguments), sort_keys=True,
// separators=(",", ":")) prints. Absent (nil), null, and every value that Python
// calls false ({}, [], "", 0, 0.0, false) are {}.
//
// The error tells where arguments are not RFC 8259 JSON in UTF-8, nested deeper than
// 512, longer than 16 MiB, or hold an integer of more than 4300 digits; it holds nothing
// of them.
func Digest(arguments []byte) (string, error) {
	s := take()
	defer s.give()
	chars, err := s.digest(arguments)
	if err != nil {
		return "", err
	}
	return string(chars[:]), nil
}

func (s *scratch) digest(arguments []byte) (chars [digestChars]byte, err error) {
	if arguments != nil {
		if s.arguments, err = canon.Append(s.arguments[:0], arguments); err != nil {
			return chars, fmt.Errorf("arguments: %w", err)
		}
	}
	if arguments == nil || falsy(s.arguments) {
		s.arguments = append(s.arguments[:0], "{}"...)
	}
	sum := sha256.Sum256(s.arguments)
	base64url.AppendEncode(chars[:0], sum[:digestSize])
	return chars, nil
}

// falsy reports whether the canonical text is a value that is false in Python.
func falsy(text []byte) bool {
	switch string(text) {
	case "null", "{}", "[]", `""`, "0", "0.0", "-0.0", "false":
		return true
	}
	return false
}
