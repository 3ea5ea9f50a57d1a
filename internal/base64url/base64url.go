// Package base64url is base64 in the alphabet that is safe in a URL, without padding (RFC
// 4648, section 5), in its only spelling.
//
// encoding/base64 takes longer than the cipher for a token, and in decoding it skips line
// ends, which would give a token a second spelling. Here 48 bits, which are 8 characters,
// go at a time. What is looked up in tables are tokens, salts and tags, which are not
// secret.
package base64url

import (
	"encoding/base64"
	"encoding/binary"
)

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

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

// EncodedLen returns how many characters n bytes make.
func EncodedLen(n int) int { return base64.RawURLEncoding.EncodedLen(n) }

// DecodedLen returns how many bytes n characters make. AppendDecode needs [Room] more to
// work without growing dst.
func DecodedLen(n int) int { return base64.RawURLEncoding.DecodedLen(n) }

// Room is how much more of dst than the bytes need is written to.
const Room = 2

// AppendEncode appends the base64url of src to dst.
func AppendEncode(dst, src []byte) []byte {
	for len(src) >= 8 {
		bits := binary.BigEndian.Uint64(src)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(pairs[bits>>52])|uint64(pairs[bits>>40&0xfff])<<16|
			uint64(pairs[bits>>28&0xfff])<<32|uint64(pairs[bits>>16&0xfff])<<48)
		src = src[6:]
	}
	return base64.RawURLEncoding.AppendEncode(dst, src)
}

// AppendDecode appends the bytes of text to dst. It reports false if text is not base64url
// in its only spelling, in which no bit is left over but zeros.
func AppendDecode(dst []byte, text string) (_ []byte, ok bool) {
	for ; len(text) >= 8; text = text[8:] {
		high, low := group(text), group(text[4:])
		if high|low >= invalid {
			return dst, false
		}
		dst = binary.BigEndian.AppendUint64(dst, uint64(high)<<40|uint64(low)<<16)[:len(dst)+6]
	}
	if len(text) >= 4 {
		bits := group(text)
		if bits >= invalid {
			return dst, false
		}
		dst = append(dst, byte(bits>>16), byte(bits>>8), byte(bits))
		text = text[4:]
	}
	switch len(text) {
	case 0:
		return dst, true
	case 2:
		bits := sextets[0][text[0]] | sextets[1][text[1]]
		return append(dst, byte(bits>>16)), bits&^0xff0000 == 0
	case 3:
		bits := sextets[0][text[0]] | sextets[1][text[1]] | sextets[2][text[2]]
		return append(dst, byte(bits>>16), byte(bits>>8)), bits&^0xffff00 == 0
	}
	return dst, false
}

// group returns the 24 bits of the first four characters of text, or more than that if
// there is another byte among them.
func group(text string) uint32 {
	return sextets[0][text[0]] | sextets[1][text[1]] | sextets[2][text[2]] | sextets[3][text[3]]
}
