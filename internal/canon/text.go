package canon

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

const hexDigits = "0123456789abcdef"

// word returns the first eight bytes of s, the first one lowest.
func word(s string) uint64 {
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// view returns b as a string without a copy. The string must not outlive a change of b.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) } //nolint:gosec // G103: the comment above is the audit

// special looks at the eight bytes of a word at once. It is 0 if all are plain, else its
// lowest bit is the high bit of the first byte that is not.
func special(w uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	// Each of these sets the high bit of the bytes that it is about. A borrow or a carry
	// can set others, but only above such a byte.
	control, beyond := w-ones*0x20, w|(w+ones)
	quote, slash := (w^ones*'"')-ones, (w^ones*'\\')-ones
	return (control | beyond | quote | slash) & highs
}

// plain returns how many bytes at the start of s are plain.
func plain(s string) int {
	rest := s
	for len(rest) >= 8 {
		if found := special(word(rest)); found != 0 {
			return len(s) - len(rest) + bits.TrailingZeros64(found)/8
		}
		rest = rest[8:]
		for len(rest) >= 32 && special(word(rest))|special(word(rest[8:]))|special(word(rest[16:]))|special(word(rest[24:])) == 0 {
			rest = rest[32:]
		}
	}
	for rest != "" && isPlain(rest[0]) {
		rest = rest[1:]
	}
	return len(s) - len(rest)
}

// IsPlain reports whether s stands for itself in a canonical string.
func IsPlain(s string) bool { return plain(s) == len(s) }

// appendPlain appends what is plain at the start of s and returns how much that is.
// Behind it, up to seven bytes of s may have been written into the room of dst.
func appendPlain(dst []byte, s string) ([]byte, int) {
	// JSON within JSON is made of short runs, for which one store is faster than a copy.
	if len(s) >= 8 {
		w := word(s)
		if found := special(w); found != 0 {
			n := bits.TrailingZeros64(found) / 8
			return binary.LittleEndian.AppendUint64(dst, w)[:len(dst)+n], n
		}
	}
	n := plain(s)
	return append(dst, s[:n]...), n
}

// isPlain reports whether c stands for itself in a canonical string: printable ASCII
// except the quote and the backslash.
func isPlain(c byte) bool { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\' }

// AppendString appends s as a JSON string in ASCII. It reports false, with dst as
// far as it got and maybe a piece of s behind it, if s is not text as [IsText] has it.
func AppendString(dst []byte, s string) ([]byte, bool) {
	dst = append(dst, '"')
	high := false // a lone high surrogate was written last
	for {
		var n int
		dst, n = appendPlain(dst, s)
		if s = s[n:]; s == "" {
			return append(dst, '"'), true
		}
		if c := s[0]; c < utf8.RuneSelf {
			dst = appendEscape(dst, c)
			s, high = s[1:], false
			continue
		}
		r, size := decode(s)
		if size == 0 || high && n == 0 && isLow(r) {
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

// letters are the short forms of escapes: \n for a line end.
var letters = [utf8.RuneSelf]byte{'"': '"', '\\': '\\', '\b': 'b', '\t': 't', '\n': 'n', '\f': 'f', '\r': 'r'}

// appendEscape appends an ASCII character that is not plain.
func appendEscape(dst []byte, c byte) []byte {
	if letter := letters[c]; letter != 0 {
		return append(dst, '\\', letter)
	}
	return appendUnit(dst, rune(c))
}

// appendEscaped appends r as it stands inside a canonical string.
func appendEscaped(dst []byte, r rune) []byte {
	switch {
	case r < utf8.RuneSelf && isPlain(byte(r)):
		return append(dst, byte(r))
	case r < utf8.RuneSelf:
		return appendEscape(dst, byte(r))
	case r > 0xffff:
		r1, r2 := utf16.EncodeRune(r)
		return appendUnit(appendUnit(dst, r1), r2)
	}
	return appendUnit(dst, r)
}

func appendUnit(dst []byte, unit rune) []byte {
	return append(dst, '\\', 'u', hexDigits[unit>>12&15], hexDigits[unit>>8&15], hexDigits[unit>>4&15], hexDigits[unit&15])
}

// AppendText appends the text of a JSON string, given without its quotes. If s cannot
// stand between quotes it reports false, and leaves nothing of the text behind dst.
func AppendText(dst, s []byte) (_ []byte, ok bool) { return appendText(dst, view(s)) }

func appendText(dst []byte, s string) (_ []byte, ok bool) {
	start := len(dst)
	dst = slices.Grow(dst, len(s)) // no text is longer than its string
	written := dst[start : start+len(s)]
	for rest := s; ; {
		var n int
		dst, n = appendPlain(dst, rest)
		if rest = rest[n:]; rest == "" {
			clear(written[len(dst)-start:]) // see appendPlain
			return dst, true
		}
		if c := short(rest); c != 0 {
			dst = append(dst, c)
			rest = rest[2:]
			continue
		}
		r, size := character(rest)
		if size == 0 {
			clear(written)
			return dst[:start], false
		}
		dst = appendRune(dst, r)
		rest = rest[size:]
	}
}

// character returns the first character of what stands in a JSON string, which may be a
// surrogate; size 0 means that it may not stand there.
func character(s string) (r rune, size int) {
	if s[0] != '\\' {
		return decodeRaw(s)
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
func decodeRaw(s string) (r rune, size int) {
	if s[0] < 0x20 || s[0] == '"' {
		return 0, 0
	}
	r, size = utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && size == 1 {
		return 0, 0
	}
	return r, size
}

// characters are what the short forms of escapes stand for.
var characters = [utf8.RuneSelf]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 't': '\t', 'n': '\n', 'f': '\f', 'r': '\r'}

// short returns the character of the escape at the start of s if it has the short form,
// else 0.
func short(s string) byte {
	if len(s) < 2 || s[0] != '\\' || s[1] >= utf8.RuneSelf {
		return 0
	}
	return characters[s[1]]
}

// unescape returns the code unit of the escape at the start of s and the escape's
// size, or size 0 if there is no escape or it is not one of JSON's.
func unescape(s string) (unit rune, size int) {
	if c := short(s); c != 0 {
		return rune(c), 2
	}
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, 0
	}
	for i := 2; i < 6; i++ {
		c := s[i]
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
