package local

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
)

// Base64 takes longer than the cipher, so whole groups go by tables here: 48 bits, which
// are 8 characters, at a time. The ends, and whatever is not right, are left to
// encoding/base64. What is looked up are tokens and sealed bytes, which are not secret.

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// encoding refuses stray trailing bits. It still skips CR and LF, which decode therefore
// looks for.
var encoding = base64.RawURLEncoding.Strict()

// pairs are the two characters of each 12 bits, the first one in the low byte.
var pairs = func() (table [1 << 12]uint16) {
	for i := range table {
		table[i] = uint16(alphabet[i>>6]) | uint16(alphabet[i&63])<<8
	}
	return table
}()

// sextets are the six bits of each character where they belong in 24 bits, for each place
// in a group of four. Those of any other byte are invalid.
var sextets = func() (tables [4][256]uint32) {
	for place := range tables {
		for c := range tables[place] {
			tables[place][c] = invalid
		}
		for bits, c := range []byte(alphabet) {
			tables[place][c] = uint32(bits) << (18 - 6*place)
		}
	}
	return tables
}()

const invalid = 1 << 24

// appendEncode appends the base64url of src to dst.
func appendEncode(dst, src []byte) []byte {
	for len(src) >= 8 {
		bits := binary.BigEndian.Uint64(src)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(pairs[bits>>52])|uint64(pairs[bits>>40&0xfff])<<16|
			uint64(pairs[bits>>28&0xfff])<<32|uint64(pairs[bits>>16&0xfff])<<48)
		src = src[6:]
	}
	return encoding.AppendEncode(dst, src)
}

// appendDecode appends the bytes of text to dst. It reports false if text is not base64url
// in its only spelling.
func appendDecode(dst []byte, text string) (_ []byte, ok bool) {
	for len(text) >= 8 {
		high := sextets[0][text[0]] | sextets[1][text[1]] | sextets[2][text[2]] | sextets[3][text[3]]
		low := sextets[0][text[4]] | sextets[1][text[5]] | sextets[2][text[6]] | sextets[3][text[7]]
		if high|low >= invalid {
			break
		}
		dst = binary.BigEndian.AppendUint64(dst, uint64(high)<<40|uint64(low)<<16)[:len(dst)+6]
		text = text[8:]
	}
	dst, err := encoding.AppendDecode(dst, []byte(text))
	return dst, err == nil && !strings.ContainsAny(text, "\r\n")
}
