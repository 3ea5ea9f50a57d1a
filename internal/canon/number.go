package canon

import (
	"math"
	"strconv"
	"strings"
)

// maxDigits is CPython's limit on the digits of an integer.
const maxDigits = 4300

// AppendFloat appends f as Python's repr does: the fewest digits that read back as f,
// with a point for exponents from -4 to 15 and as 1e+16 otherwise.
func AppendFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	if a := math.Abs(f); a == 0 || a >= 1e-4 && a < 1e16 {
		if dst = strconv.AppendFloat(dst, f, 'f', -1, 64); f == math.Trunc(f) {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	return strconv.AppendFloat(dst, f, 'e', -1, 64)
}

// staysAsItIs reports whether a number of JSON's grammar is its own canonical form, or
// false if that takes more than a look.
func staysAsItIs(number string) bool {
	digits := strings.TrimPrefix(number, "-")
	return len(digits) < maxDigits && digits[0] != '0' && digitsEnd(digits, 0) == len(digits)
}

// appendNumber appends a number of JSON's grammar.
func appendNumber(dst []byte, number string) ([]byte, problem) {
	digits := number
	if digits[0] == '-' {
		digits = digits[1:]
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' { // a point or an exponent
			return AppendFloat(dst, ParseFloat(number)), ""
		}
	}
	switch {
	case len(digits) > maxDigits:
		return dst, "an integer of more than 4300 digits"
	case digits[0] == '0': // -0 too
		return append(dst, '0'), ""
	}
	return append(dst, number...), ""
}

// numberEnd returns the end of the number that starts at src[i], or i if there is none
// of JSON's grammar.
func numberEnd(src string, i int) int {
	start := i
	if i < len(src) && src[i] == '-' {
		i++
	}
	switch {
	case i < len(src) && src[i] == '0':
		i++
	default:
		n := digitsEnd(src, i)
		if n == i {
			return start
		}
		i = n
	}
	if i < len(src) && src[i] == '.' {
		n := digitsEnd(src, i+1)
		if n == i+1 {
			return start
		}
		i = n
	}
	if i < len(src) && src[i]|0x20 == 'e' {
		i++
		if i < len(src) && (src[i] == '+' || src[i] == '-') {
			i++
		}
		n := digitsEnd(src, i)
		if n == i {
			return start
		}
		i = n
	}
	return i
}

func digitsEnd(src string, i int) int {
	for i < len(src) && src[i] >= '0' && src[i] <= '9' {
		i++
	}
	return i
}
