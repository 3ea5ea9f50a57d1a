package canon

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain returns how many bytes at the start of s stand for themselves in a JSON
// string: printable ASCII except the quote and the backslash.
func plain[T string | []byte](s T) int {
	n := 0
	// Eight bytes at a time. Each term sets the high bit of the lowest byte that is
	// not plain; borrows and carries can only set bits above one that is set rightly.
	for ; len(s)-n >= 8; n += 8 {
		w := uint64(s[n]) | uint64(s[n+1])<<8 | uint64(s[n+2])<<16 | uint64(s[n+3])<<24 |
			uint64(s[n+4])<<32 | uint64(s[n+5])<<40 | uint64(s[n+6])<<48 | uint64(s[n+7])<<56
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		below := (w - ones*0x20) &^ w
		equal := (quote-ones)&^quote | (slash-ones)&^slash
		above := w | (w + ones)
		if (below|equal|above)&highs != 0 {
			break
		}
	}
	for n < len(s) && isPlain(s[n]) {
		n++
	}
	return n
}

func isPlain(c byte) bool { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\' }

// AppendString appends s as a JSON string in ASCII. It reports false, with dst as
// far as it got, if s is not text as [IsText] has it.
func AppendString(dst []byte, s string) ([]byte, bool) {
	dst = append(dst, '"')
	high := false // a lone high surrogate was written last
	for {
		n := plain(s)
		dst = append(dst, s[:n]...)
		s = s[n:]
		if s == "" {
			return append(dst, '"'), true
		}
		high = high && n == 0
		if s[0] < utf8.RuneSelf {
			dst = appendEscaped(dst, rune(s[0]))
			s, high = s[1:], false
			continue
		}
		r, size := decode(s)
		if size == 0 || high && isLow(r) {
			return dst, false
		}
		dst = appendEscaped(dst, r)
		s, high = s[size:], isHigh(r)
	}
}

// IsText reports whether s is valid UTF-8, or would be if UTF-8 could hold lone
// surrogates. A high surrogate before a low one is not lone: in any other encoding
// the two are one character, so they would not come back as they were.
func IsText(s string) bool {
	if utf8.ValidString(s) {
		return true
	}
	high := false
	for s != "" {
		r, size := decode(s)
		if size == 0 || high && isLow(r) {
			return false
		}
		s, high = s[size:], isHigh(r)
	}
	return true
}

// decode returns the first code point of s, which may be a surrogate; size 0 means
// that there is none.
func decode(s string) (r rune, size int) {
	r, size = utf8.DecodeRuneInString(s)
	if r != utf8.RuneError || size != 1 {
		return r, size
	}
	if len(s) >= 3 && s[0] == 0xed && s[1]&0xe0 == 0xa0 && s[2]&0xc0 == 0x80 {
		return 0xd000 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f), 3
	}
	return 0, 0
}

func isHigh(r rune) bool { return r >= 0xd800 && r < 0xdc00 }
func isLow(r rune) bool  { return r >= 0xdc00 && r < 0xe000 }

// appendRune appends r as WTF-8.
func appendRune(dst []byte, r rune) []byte {
	if isHigh(r) || isLow(r) {
		return append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
	}
	return utf8.AppendRune(dst, r)
}

// appendEscaped appends r as it stands inside a canonical string.
func appendEscaped(dst []byte, r rune) []byte {
	switch {
	case r < utf8.RuneSelf && isPlain(byte(r)):
		return append(dst, byte(r))
	case r > 0xffff:
		r1, r2 := utf16.EncodeRune(r)
		return appendUnit(appendUnit(dst, r1), r2)
	}
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, '\\', 'b')
	case '\t':
		return append(dst, '\\', 't')
	case '\n':
		return append(dst, '\\', 'n')
	case '\f':
		return append(dst, '\\', 'f')
	case '\r':
		return append(dst, '\\', 'r')
	}
	return appendUnit(dst, r)
}

func appendUnit(dst []byte, unit rune) []byte {
	return append(dst, '\\', 'u', hexDigits[unit>>12&15], hexDigits[unit>>8&15], hexDigits[unit>>4&15], hexDigits[unit&15])
}

// AppendText appends the text of a JSON string, given with its quotes and known to
// be valid, to dst.
func AppendText(dst, quoted []byte) []byte {
	s := quoted[1 : len(quoted)-1]
	for {
		n := bytes.IndexByte(s, '\\')
		if n < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:n]...)
		r, size := codePoint(s[n:])
		dst = appendRune(dst, r)
		s = s[n+size:]
	}
}

// unescape returns the code unit of the escape at the start of s and the escape's
// size, or size 0 if there is no escape or it is not one of JSON's.
func unescape(s []byte) (unit rune, size int) {
	if len(s) < 2 || s[0] != '\\' {
		return 0, 0
	}
	switch s[1] {
	case '"', '\\', '/':
		return rune(s[1]), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		if len(s) < 6 {
			return 0, 0
		}
		for _, c := range s[2:6] {
			switch {
			case c >= '0' && c <= '9':
				c -= '0'
			case c >= 'a' && c <= 'f':
				c -= 'a' - 10
			case c >= 'A' && c <= 'F':
				c -= 'A' - 10
			default:
				return 0, 0
			}
			unit = unit<<4 | rune(c)
		}
		return unit, 6
	}
	return 0, 0
}

// codePoint returns the first code point of the text of a string, which is ASCII
// there, and its size.
func codePoint(s []byte) (r rune, size int) {
	if s[0] != '\\' {
		return rune(s[0]), 1
	}
	r, size = unescape(s)
	if isHigh(r) {
		if low, n := unescape(s[size:]); isLow(low) {
			return utf16.DecodeRune(r, low), size + n
		}
	}
	return r, size
}

// decodeRaw returns the first character of s, which stands there unescaped; size 0
// means that it may not.
func decodeRaw(s []byte) (r rune, size int) {
	if s[0] < 0x20 {
		return 0, 0
	}
	r, size = utf8.DecodeRune(s)
	if r == utf8.RuneError && size == 1 {
		return 0, 0
	}
	return r, size
}
