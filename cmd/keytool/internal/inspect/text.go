package inspect

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns the text of a JSON string, which encoding/json has decoded, and as it
// stands in the input. A lone surrogate, for which encoding/json puts U+FFFD, is written
// as package binding has it: in its three-byte form.
func Text(decoded string, raw []byte) string {
	if !bytes.Contains(raw, []byte(`\u`)) {
		return decoded
	}
	begin, end := bytes.IndexByte(raw, '"'), bytes.LastIndexByte(raw, '"')
	var out []byte
	for rest := raw[begin+1 : end]; len(rest) > 0; {
		r, size := unit(rest)
		if low, lowSize := unit(rest[size:]); size == unitSize && lowSize == unitSize && utf16.IsSurrogate(r) {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				out, rest = utf8.AppendRune(out, pair), rest[size+lowSize:]
				continue
			}
		}
		switch {
		case utf16.IsSurrogate(r):
			out = append(out, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
		default:
			out = utf8.AppendRune(out, r)
		}
		rest = rest[size:]
	}
	return string(out)
}

// unitSize is the size of an escape with four hex digits.
const unitSize = len(`\u0000`)

// unit returns the first character of the inside of a valid JSON string, or the UTF-16 unit
// that an escape stands for, and how long it is there. It is 0, 0 for nothing.
func unit(s []byte) (r rune, size int) {
	switch {
	case len(s) == 0:
		return 0, 0
	case s[0] != '\\' || len(s) < 2:
		return utf8.DecodeRune(s)
	case s[1] == 'u' && len(s) >= unitSize:
		v, err := strconv.ParseUint(string(s[2:unitSize]), 16, 16)
		if err != nil {
			return utf8.RuneError, unitSize
		}
		return rune(v), unitSize
	}
	if plain, ok := map[byte]rune{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}[s[1]]; ok {
		return plain, 2
	}
	return rune(s[1]), 2
}
