package canonical

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"unicode/utf16"
)

// A generator writes JSON documents, and documents that are almost JSON.
type generator struct {
	*rand.Rand
	out []byte
}

// document returns the next document.
func (g *generator) document() []byte {
	g.out = g.out[:0]
	switch n := g.IntN(200); {
	case n < 12:
		g.space()
		g.add(pick(g, falsy))
		g.space()
	case n == 12:
		g.tower(500 + g.IntN(24)) // on both sides of the limit of 512
	case n == 13:
		g.add(`{"n":`, pick(g, []string{"", "-"}), "1", strings.Repeat("7", 4296+g.IntN(8)), "}") // of 4300 digits
	case n == 14:
		g.add(`{"n":`, pick(g, []string{"NaN", "Infinity", "-Infinity"}), "}")
	case n == 15:
		g.add("\xef\xbb\xbf")
		g.object(2)
	case n < 40:
		g.value(1) // a scalar at the top
	default:
		g.object(2 + g.IntN(4))
	}
	if g.IntN(3) == 0 {
		g.mutate()
	}
	return bytes.Clone(g.out)
}

// falsy are the values that Python calls false, and their neighbours.
var falsy = []string{
	"null", "{}", "[]", `""`, "0", "-0", "0.0", "-0.0", "0e5", "-0E-1", "1e-400", "-1e-400", "false", "{ }", "[\n]",
	"true", `"0"`, "[0]", `{"":0}`, `"\u0000"`, "1", "5e-324", "[null]", `" "`,
}

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

func (g *generator) add(texts ...string) {
	for _, text := range texts {
		g.out = append(g.out, text...)
	}
}

func (g *generator) space() {
	for g.IntN(4) == 0 {
		g.add(pick(g, []string{" ", "\t", "\n", "\r", "  "}))
	}
}

// value writes a value of at most so many levels.
func (g *generator) value(levels int) {
	kinds := 10
	if levels <= 1 {
		kinds = 7
	}
	switch g.IntN(kinds) {
	case 0:
		g.add(pick(g, []string{"null", "true", "false"}))
	case 1, 2:
		g.integer()
	case 3, 4:
		g.float()
	case 5, 6:
		g.text()
	case 7:
		g.array(levels - 1)
	default:
		g.object(levels - 1)
	}
}

func (g *generator) array(levels int) {
	g.add("[")
	g.space()
	for i := range g.IntN(5) {
		if i > 0 {
			g.add(",")
			g.space()
		}
		g.value(levels)
		g.space()
	}
	g.add("]")
}

func (g *generator) object(levels int) {
	g.add("{")
	g.space()
	for i := range g.IntN(8) {
		if i > 0 {
			g.add(",")
			g.space()
		}
		g.name()
		g.space()
		g.add(":")
		g.space()
		g.value(levels)
		g.space()
	}
	g.add("}")
}

// tower writes arrays and objects inside one another.
func (g *generator) tower(levels int) {
	var closing []byte
	for range levels {
		if g.IntN(2) == 0 {
			g.add("[")
			closing = append(closing, ']')
		} else {
			g.add(`{"b":0,"a":`)
			closing = append(closing, '}')
		}
	}
	g.add("1")
	for i := range closing {
		g.out = append(g.out, closing[len(closing)-1-i])
	}
}

func (g *generator) integer() {
	switch g.IntN(4) {
	case 0:
		g.add(pick(g, []string{"0", "-0", "1", "-1", "10", "9007199254740993", "18446744073709551616", "-9223372036854775809"}))
	case 1:
		g.add(strconv.Itoa(g.IntN(2000) - 1000))
	case 2:
		g.add(strconv.FormatInt(int64(g.Uint64()), 10))
	default:
		g.add(pick(g, []string{"", "-"}), strconv.Itoa(1+g.IntN(9)))
		for range g.IntN(60) {
			g.add(strconv.Itoa(g.IntN(10)))
		}
	}
}

// floats are hard to read or to print right.
var floats = []string{
	"1.0", "-0.0", "1e0", "1E+2", "1e-2", "100e-2", "0.1", "1e15", "1e16", "1e17", "9999999999999998.0", "9007199254740993.0",
	"0.0001", "0.00001", "0.00009999999999999999", "1e22", "1e23", "5e-324", "2.4703282292062328e-324", "2.4703282292062327e-324",
	"2.2250738585072011e-308", "2.2250738585072014e-308", "1.7976931348623157e308", "1.7976931348623159e308", "1e400", "-1e400",
	"1e99999999999999999999", "1e-99999999999999999999", "0e99999999999999999999", "123456789012345680.0", "0.30000000000000004", "8.41e21", "4.35", "2e-44",
}

func (g *generator) float() {
	switch g.IntN(4) {
	case 0:
		g.add(pick(g, floats))
	case 1: // every exponent
		f := math.Float64frombits(g.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			f = 0.5
		}
		g.out = strconv.AppendFloat(g.out, f, 'e', pick(g, []int{-1, 0, 3, 16, 17, 25}), 64)
	case 2: // around where the notation changes
		g.out = strconv.AppendFloat(g.out, g.Float64()*math.Pow10(g.IntN(26)-8), 'f', 1+g.IntN(20), 64)
	default:
		g.add(fmt.Sprintf("%s%d.%d%s%s%0*d", pick(g, []string{"", "-"}), g.IntN(1000), g.Uint64(),
			pick(g, []string{"e", "E"}), pick(g, []string{"", "+", "-"}), 1+g.IntN(4), g.IntN(340)))
	}
}

// names collide in several spellings and differ in order between code points, UTF-16
// and bytes.
var names = []string{
	`"a"`, `"\u0061"`, `"b"`, `"A"`, `""`, `"a\u0000"`, `"é"`, `"\u00E9"`, `"e\u0301"`, `"\/"`, `"/"`, `"\\"`, `"\""`, `"~"`, `"\u007f"`, "\"\x7f\"",
	`"\ud800"`, `"\uDBFF"`, `"\udfff"`, `"\ud83d\ude00"`, `"😀"`, `"\ude00\ud83d"`, `"\ud83d\ud83d\ude00"`, `"\uffff"`, "\"\uffff\"", `"\ue000"`, `"ｋ"`, `"\n"`, `"\u000a"`, `"10"`, `"9"`,
}

func (g *generator) name() {
	if g.IntN(3) == 0 {
		g.text()
		return
	}
	g.add(pick(g, names))
}

func (g *generator) text() {
	g.add(`"`)
	for range g.IntN(12) {
		g.character()
	}
	g.add(`"`)
}

func (g *generator) character() {
	switch g.IntN(9) {
	case 0, 1:
		if c := byte(0x20 + g.IntN(0x60)); c != '"' && c != '\\' {
			g.out = append(g.out, c)
		}
	case 2:
		g.add(pick(g, []string{`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`}))
	case 3:
		g.unit(uint16(g.IntN(0x100)))
	case 4:
		g.unit(uint16(g.IntN(0x10000)))
	case 5: // a surrogate, alone or not
		g.unit(uint16(0xd800 + g.IntN(0x800)))
	case 6:
		hi, lo := utf16.EncodeRune(rune(0x10000 + g.IntN(0x100000)))
		g.unit(uint16(hi))
		g.unit(uint16(lo))
	case 7: // a rune outside of the surrogates, as it is
		r := rune(0x80 + g.IntN(0xd780))
		g.out = append(g.out, string(r)...)
	default:
		r := rune(0xe000 + g.IntN(0x102000))
		g.out = append(g.out, string(r)...)
	}
}

func (g *generator) unit(u uint16) {
	g.add(fmt.Sprintf(pick(g, []string{`\u%04x`, `\u%04X`}), u))
}

// foreign is what some readers of JSON take and others do not.
var foreign = []string{
	"NaN", "Infinity", "-Infinity", "nan", "-NaN", "+1", ".5", "1.", "01", "-", "0x1", "1e", "1e+", "1_000", "１", "True", "None", "undefined", "'a'", "/**/", "//\n", ",", ",]", "[,", ":",
	"\xef\xbb\xbf", "\xed\xa0\x80", "\xed\xa0\xbd\xed\xb8\x80", "\xc0\x80", "\xff", "\xf4\x90\x80\x80", "\x00", "\x1f", "\x0b", "\u00a0", "\u2028", "\\", `\u12`, `\u00g0`, `\x41`, `\U0041`, `"`, "{", "}", "[", "]",
}

// mutate makes of a document one that may be none any more.
func (g *generator) mutate() {
	for range 1 + g.IntN(2) {
		if len(g.out) == 0 {
			return
		}
		at := g.IntN(len(g.out))
		switch g.IntN(8) {
		case 0:
			g.out = g.out[:at]
		case 1:
			g.out = append(g.out[:at], g.out[at+1:]...)
		case 2:
			g.out[at] ^= 1 << g.IntN(8)
		case 3:
			g.out = append(g.out, pick(g, foreign)...)
		case 4:
			g.out = append([]byte(pick(g, foreign)), g.out...)
		case 5: // in place of a value
			g.out = bytes.Replace(g.out, []byte(pick(g, []string{"1", "0", "null", "true", `"a"`})), []byte(pick(g, foreign)), 1)
		case 6:
			g.recode()
		default:
			tail := bytes.Clone(g.out[at:])
			g.out = append(append(g.out[:at], pick(g, foreign)...), tail...)
		}
	}
}

// recode writes the document in UTF-16 or UTF-32, which CPython detects.
func (g *generator) recode() {
	var order binary.AppendByteOrder = binary.LittleEndian
	if g.IntN(2) == 0 {
		order = binary.BigEndian
	}
	runes := []rune(string(g.out))
	g.out = g.out[:0]
	if g.IntN(2) == 0 {
		for _, u := range utf16.Encode(runes) {
			g.out = order.AppendUint16(g.out, u)
		}
		return
	}
	for _, r := range runes {
		g.out = order.AppendUint32(g.out, uint32(r))
	}
}
