package binding

import (
	"strconv"
	"time"

	"github.com/echoseal/echoseal/internal/canon"
)

// seconds returns t in seconds since the epoch.
func seconds(t time.Time) float64 {
	return float64(t.Unix()) + float64(t.Nanosecond())/1e9
}

// appendTime appends a time in seconds as [canon.AppendFloat] prints it: the fewest digits
// that tell it from the other floats, and of those the nearest.
//
// From 2004 to 2038 a float of seconds is a whole number of places, each 2^-22 of a second,
// so that the digits can be had from integers, in a fraction of the time. A decimal number
// reads back as the time if it is less than half a place away. Those of six decimals are four
// places apart, so that at most one of them does; of seven decimals, one always does.
func appendTime(dst []byte, t float64) []byte {
	const first, last = 1 << 30, 1 << 31
	if !(t >= first && t < last) {
		return canon.AppendFloat(dst, t)
	}
	const places, half = 1 << 22, 1 << 21
	whole := uint64(t * places)
	fraction := whole % places
	micros := (fraction*1e6 + half) / places
	decimals := micros * 10 // in seven places
	// Half a place is 500,000 where a place is a million.
	if far := int64(micros*places) - int64(fraction*1e6); far <= -500_000 || far >= 500_000 {
		scaled := fraction * 1e7
		if decimals = (scaled + half) / places; scaled%places == half { // as near to one as to the other
			decimals &^= 1
		}
	}
	const digits = len("1234567890")
	start := len(dst)
	dst = append(strconv.AppendUint(dst, whole/places*1e7+decimals, 10), 0)
	point := dst[start+digits:]
	copy(point[1:], point)
	point[0] = '.'
	for len(point) > len(".0") && point[len(point)-1] == '0' {
		point = point[:len(point)-1]
	}
	return dst[:start+digits+len(point)]
}
