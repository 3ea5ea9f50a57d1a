package canon

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Where strconv is right, both agree.
func TestParseFloatAgreesWithStrconv(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	numbers := []string{"0.0", "-0.0", "0e5", "1e400", "-1e400", "1e-400", "5e-324", "4.9e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "2.47032822920623272e-324", "7.4e-324", "2.2250738585072014e-308", "2.2250738585072011e-308",
		"2.225073858507201e-308", "4.450147717014403e-308", "1e-307", "1e-306", "9.99e-307", "1.7976931348623157e308", "1.7976931348623159e308", "1e308", "1e309", "9e-324", "1E+2", "100e-2", "0.0001e-305", "123456789012345678901234567890e-340",
		"0." + strings.Repeat("0", 330) + "5", strings.Repeat("7", 350) + "e-660", "1" + strings.Repeat("0", 300) + "e-620"}
	for range 100_000 {
		number := strconv.FormatFloat(math.Float64frombits(random.Uint64N(1<<55)), 'e', random.IntN(25)-1, 64)
		numbers = append(numbers, number, "-"+number)
		numbers = append(numbers, strconv.FormatFloat(math.Float64frombits(random.Uint64()), 'e', random.IntN(25)-1, 64))
	}
	for _, number := range numbers {
		if strings.ContainsAny(number, "NI") {
			continue
		}
		want, _ := strconv.ParseFloat(number, 64)
		if got := ParseFloat(number); math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("%.60s = %v, want %v", number, got, want)
		}
	}
}

// So close to the middle between two floats that the first 19 digits do not tell.
func TestParseFloatNearTheMiddle(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	largest := math.Float64bits(math.MaxFloat64)
	for i := range 20_000 {
		bits := random.Uint64N(largest + 1)
		if i%100 == 0 {
			bits = largest // the middle between it and what would come next
		}
		low := new(big.Float).SetPrec(54).SetFloat64(math.Float64frombits(bits))
		half := new(big.Float).SetMantExp(big.NewFloat(1), low.MantExp(nil)-54)
		middle := new(big.Float).SetPrec(54).Add(low, half)
		for _, number := range []string{
			middle.Text('e', 18+random.IntN(12)), middle.Text('e', 780), strings.Replace(middle.Text('e', 780), "e", "1e", 1),
		} {
			want, _ := strconv.ParseFloat(number, 64)
			if got := ParseFloat(number); math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("%s = %v, want %v", number, got, want)
			}
		}
	}
}

// Halfway between two floats the even one is taken, and the last of very many digits
// still counts.
func TestParseFloatRounds(t *testing.T) {
	zeros := strings.Repeat("0", 900)
	for number, want := range map[string]float64{
		"9007199254740993.0":                             9007199254740992,
		"9007199254740993.0" + zeros + "1":               9007199254740994,
		"1" + zeros + "e-900":                            1,
		"1" + zeros + zeros + "e-1801":                   0.1,
		"0." + strings.Repeat("0", 100_008) + "1e100009": 1,
		strings.Repeat("9", 100_000) + "e-100000":        1,
		"1e99999999999999999999999":                      math.Inf(1),
		"1e-99999999999999999999999":                     0,
		"0e99999999999999999999999":                      0,
		"1" + strings.Repeat("0", 50_000) + "e-50300":    1e-300,
		"5" + zeros + "e-1224":                           5e-324,
		"24703282292062327209" + zeros + "e-1243":        5e-324, // just above half of the smallest
		"2470328229206232720" + zeros + "e-1242":         0,
		"-4.450147717014403" + zeros + "e-308":           -4.450147717014403e-308,
	} {
		if got := ParseFloat(number); got != want {
			t.Errorf("%.30s… = %v, want %v", number, got, want)
		}
	}
}

// BenchmarkNumbers reports what a number costs against another one of about its length,
// in the same process. Without care a subnormal one costs a thousand times as much.
func BenchmarkNumbers(b *testing.B) {
	cost := func(number string) float64 {
		doc := []byte("[" + strings.Repeat(number+",", 20_000) + "0]")
		best := time.Hour
		for range 5 {
			start := time.Now()
			if _, err := Append(nil, doc); err != nil {
				b.Fatal(err)
			}
			best = min(best, time.Since(start))
		}
		return float64(best)
	}
	for _, number := range []string{"5e-324", "3e-310", "1.5e-308", "1e-307", "1e-400", "1e400",
		"1.2345000000000001285693e+290", "1.2345000000000000555758e-290"} {
		b.Run(number, func(b *testing.B) {
			b.ReportMetric(cost(number)/cost("1.5e-300"), "x/normal")
			b.ReportMetric(0, "ns/op")
		})
	}
}
