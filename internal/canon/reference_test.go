package canon

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// What follows does what this package does in the plainest way, one character and one
// value at a time: fuzz targets hold the two against each other.

// canonical returns the canonical form of a value that a scanner has taken.
func canonical(raw string) string {
	switch raw[0] {
	case '"':
		return quote(codePoints(raw))
	case '{':
		members := map[string]string{} // by the name's characters as UTF-32, so that bytes have their order
		m := Members{Doc: []byte(raw)}
		for m.Next() {
			var name strings.Builder
			for _, r := range codePoints(string(m.Name)) {
				fmt.Fprintf(&name, "%08x", r)
			}
			members[name.String()] = quote(codePoints(string(m.Name))) + ":" + canonical(string(m.Value))
		}
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(members)) {
			parts = append(parts, members[name])
		}
		return "{" + strings.Join(parts, ",") + "}"
	case '[':
		var parts []string
		s := scanner{src: raw}
		empty, _ := s.enter(']')
		for more := !empty; more; {
			start := s.i
			s.value()
			parts = append(parts, canonical(raw[start:s.i]))
			more, _ = s.next(']')
		}
		return "[" + strings.Join(parts, ",") + "]"
	case 't', 'f', 'n':
		return raw
	}
	out, _ := appendNumber(nil, raw)
	return string(out)
}

// codePoints returns those of a string with its quotes, where those beyond
// U+FFFF are one, and surrogates alone are themselves.
func codePoints(quoted string) []rune {
	var all []rune
	for s := quoted[1 : len(quoted)-1]; s != ""; {
		r, size := utf8.DecodeRuneInString(s)
		if r == '\\' {
			r, size = rune(s[1]), 2
			if at := strings.IndexByte("bfnrt", s[1]); at >= 0 {
				r = rune("\b\f\n\r\t"[at])
			}
			if s[1] == 'u' {
				unit, err := strconv.ParseUint(s[2:6], 16, 16)
				if err != nil {
					panic(err)
				}
				r, size = rune(unit), 6
			}
			// The half of a pair that was written as an escape waits for the other one.
			if last := len(all) - 1; last >= 0 && s[1] == 'u' && all[last] < 0 && isLow(r) {
				all[last], s = utf16.DecodeRune(-all[last], r), s[size:]
				continue
			}
			if s[1] == 'u' && isHigh(r) {
				r = -r
			}
		}
		all, s = append(all, r), s[size:]
	}
	for i, r := range all {
		all[i] = max(r, -r)
	}
	return all
}

func quote(text []rune) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r >= 0x20 && r < 0x7f:
			b.WriteRune(r)
		case strings.ContainsRune("\b\t\n\f\r", r):
			b.WriteString(map[rune]string{'\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`}[r])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// FuzzText puts any bytes between quotes, and takes any bytes for a text.
func FuzzText(f *testing.F) {
	f.Add([]byte(`of more than thirty-two plain bytes, \"quoted\" \\ \/ \u00e9 \ud83d\ude00 \ud800 é`))
	f.Add([]byte("\xed\xa0\x80😀\x00\"\\\x7f"))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := scanner{src: `"` + string(in) + `"`}
		valid := s.string() == "" && s.i == len(s.src)
		dst := append(make([]byte, 0, 2*len(in)+16), "before"...)
		text, ok := AppendText(dst, in)
		if ok != valid {
			t.Fatalf("%q between quotes: AppendText says %t, the scanner %t", in, ok, valid)
		}
		if string(text[:len("before")]) != "before" || !ok && len(text) != len(dst) {
			t.Fatalf("dst became %q", text)
		}
		if left := text[len(text):cap(text)]; strings.Trim(string(left), "\x00") != "" {
			t.Fatalf("%q was left behind the text", left)
		}
		if ok {
			var want []byte
			for _, r := range codePoints(s.src) {
				want = appendRune(want, r)
			}
			if string(text[len("before"):]) != string(want) {
				t.Fatalf("the text of %q is %q, want %q", in, text, want)
			}
		}

		quoted, ok := AppendString(nil, string(in))
		if ok != IsText(string(in)) {
			t.Fatalf("%q: AppendString says %t", in, ok)
		}
		if !ok {
			return
		}
		var runes []rune
		for rest := string(in); rest != ""; {
			r, size := decode(rest)
			runes, rest = append(runes, r), rest[size:]
		}
		if string(quoted) != quote(runes) {
			t.Fatalf("%q is quoted as %s, want %s", in, quoted, quote(runes))
		}
	})
}
