package canon

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"sync"
)

// ParseFloat returns the binary64 value of a number of JSON's grammar, rounded half to
// even; out of range it is an infinity or 0, as in Python.
//
// It is strconv.ParseFloat but for two things. That is wrong for numbers of more than
// 800 digits, or with an exponent beyond 10,000, as nobody writes them but an attacker.
// And it takes a thousand times as long for subnormal numbers, which can be written in
// six characters, and a hundred times for numbers of more than 19 digits so close to the
// middle between two floats that the first 19 do not tell which is nearer.
func ParseFloat(number string) float64 {
	if len(number) < 300 && !strings.ContainsAny(number, "eE") {
		f, _ := strconv.ParseFloat(number, 64)
		return f
	}
	d := readDecimal(number)
	var f float64
	switch {
	case len(d.digits) == 0 || d.exponent < -323: // below half of the smallest
		f = 0
	case d.exponent > 309:
		f = math.Inf(1)
	case d.exponent <= -306:
		f = d.subnormal()
	case len(d.digits) <= maxFast && len(number) < 400:
		f, _ = strconv.ParseFloat(number, 64)
		return f
	default:
		f = d.normal()
	}
	if d.negative {
		return -f
	}
	return f
}

// A decimal is ±0.digits × 10^exponent; the first digit is not 0.
type decimal struct {
	negative bool
	digits   []byte
	exponent int
}

// maxSignificant is how many digits can matter: 767, and whether anything follows.
const maxSignificant = 768

func readDecimal(number string) decimal {
	var d decimal
	i := 0
	if number[0] == '-' {
		d.negative, i = true, 1
	}
	point, sticky := false, false
	buf := make([]byte, 0, 32)
	for ; i < len(number) && number[i]|0x20 != 'e'; i++ {
		c := number[i]
		switch {
		case c == '.':
			point = true
			continue
		case c == '0' && len(buf) == 0: // a leading zero
		case len(buf) < maxSignificant:
			buf = append(buf, c)
		case c != '0':
			sticky = true
		}
		switch {
		case !point && len(buf) > 0:
			d.exponent++
		case point && len(buf) == 0:
			d.exponent--
		}
	}
	if sticky {
		buf = append(buf, '1')
	}
	d.digits = buf
	if i < len(number) {
		d.exponent += readExponent(number[i+1:])
	}
	return d
}

// readExponent returns the value of what stands behind the e, which stays clear of
// overflow by more than any document has digits.
func readExponent(text string) int {
	const enough = 1 << 27 // ten times that is an int on every platform
	negative := text[0] == '-'
	value := 0
	for _, c := range []byte(text) {
		if c >= '0' && c <= '9' && value < enough {
			value = value*10 + int(c-'0')
		}
	}
	if negative {
		return -value
	}
	return value
}

// subnormal returns the value of a number below 10^-306, in units of 2^-1074. The
// floats in that range up to 2^-1022 are those units in order, and so are the first
// normal ones up to 2^-1021; above them this leaves the rounding to strconv.
func (d decimal) subnormal() float64 {
	const unit = 1074
	m, _ := new(big.Int).SetString(string(d.digits), 10)
	power := powerOfTen(len(d.digits) - d.exponent)
	q, r := m.Lsh(m, unit).QuoRem(m, power, new(big.Int))
	if q.BitLen() > 53 {
		f, _ := strconv.ParseFloat("0."+string(d.digits)+"e"+strconv.Itoa(d.exponent), 64)
		return f
	}
	bits := q.Uint64()
	switch half := r.Lsh(r, 1).Cmp(power); {
	case half > 0, half == 0 && bits&1 == 1:
		bits++
	}
	return math.Float64frombits(bits)
}

// maxFast is how many digits strconv takes in without a look at the others.
const maxFast = 19

// normal returns the value of a number that is in the range of the normal floats, or
// rounds up to an infinity.
func (d decimal) normal() float64 {
	if len(d.digits) <= maxFast {
		return scaled(string(d.digits), d.exponent-len(d.digits))
	}
	head, _ := strconv.ParseUint(string(d.digits[:maxFast]), 10, 64)
	low := scaled(strconv.FormatUint(head, 10), d.exponent-maxFast)
	high := scaled(strconv.FormatUint(head+1, 10), d.exponent-maxFast)
	if low == high {
		return low
	}
	// They are neighbours. The number is held against the middle, half a unit above low.
	const fraction, bias = 52, 1075
	bits := math.Float64bits(low)
	mantissa, power := bits&(1<<fraction-1)|1<<fraction, int(bits>>fraction)-bias
	middle := new(big.Int).SetUint64(2*mantissa + 1)
	number, _ := new(big.Int).SetString(string(d.digits), 10)
	if ten := d.exponent - len(d.digits); ten >= 0 {
		number.Mul(number, powerOfTen(ten))
	} else {
		middle.Mul(middle, powerOfTen(-ten))
	}
	if two := power - 1; two >= 0 {
		middle.Lsh(middle, uint(two))
	} else {
		number.Lsh(number, uint(-two))
	}
	if order := number.Cmp(middle); order < 0 || order == 0 && mantissa&1 == 0 {
		return low
	}
	return high
}

// scaled returns digits × 10^exponent.
func scaled(digits string, exponent int) float64 {
	f, _ := strconv.ParseFloat(digits+"e"+strconv.Itoa(exponent), 64)
	return f
}

// powersOfTen are those that numbers of up to 20 digits need.
var powersOfTen = sync.OnceValue(func() (powers [350]*big.Int) {
	ten := big.NewInt(10)
	powers[0] = big.NewInt(1)
	for i := 1; i < len(powers); i++ {
		powers[i] = new(big.Int).Mul(powers[i-1], ten)
	}
	return powers
})

func powerOfTen(n int) *big.Int {
	if cached := powersOfTen(); n < len(cached) {
		return cached[n]
	}
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}
