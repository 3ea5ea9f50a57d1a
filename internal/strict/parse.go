package strict

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/echoseal/echoseal/internal/canon"
)

// MaxDepth is how deep arrays and objects may be nested.
const MaxDepth = 32

// maxInt is the largest integer: the largest that every reader of JSON keeps exact.
const maxInt = 1<<53 - 1

// A Value is a JSON value: nil, bool, int64, string, []Value or map[string]Value.
type Value any

// Parse reads one document. Errors give an offset and never the content.
func Parse(doc []byte) (Value, error) {
	p := parser{doc: doc}
	if !utf8.Valid(doc) {
		return nil, fmt.Errorf("it is not UTF-8")
	}
	p.space()
	if p.at == len(doc) {
		return nil, fmt.Errorf("it is empty")
	}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(doc) {
		return nil, p.errorf("there is something behind the document")
	}
	return v, nil
}

// Append appends v as canonical JSON.
func Append(dst []byte, v Value) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case string:
		dst, _ = canon.AppendString(dst, v) // Parse gives valid UTF-8 only
		return dst
	case []Value:
		dst = append(dst, '[')
		for i, element := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = Append(dst, element)
		}
		return append(dst, ']')
	case map[string]Value:
		dst = append(dst, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst, _ = canon.AppendString(dst, name)
			dst = Append(append(dst, ':'), v[name])
		}
		return append(dst, '}')
	default:
		panic(fmt.Sprintf("strict: a %T is not a value", v))
	}
}

type parser struct {
	doc []byte
	at  int
}

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("at byte %d: %w", p.at, fmt.Errorf(format, args...))
}

func (p *parser) space() {
	for p.at < len(p.doc) {
		switch p.doc[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// next skips space and returns the next byte, 0 at the end.
func (p *parser) next() byte {
	if p.space(); p.at < len(p.doc) {
		return p.doc[p.at]
	}
	return 0
}

func (p *parser) value(depth int) (Value, error) {
	if depth > MaxDepth {
		return nil, p.errorf("it is nested more than %d deep", MaxDepth)
	}
	switch c := p.next(); {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		return p.text()
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	case c == 0 && p.at == len(p.doc):
		return nil, p.errorf("it ends too early")
	}
	for word, v := range map[string]Value{"null": nil, "true": true, "false": false} {
		if len(p.doc)-p.at >= len(word) && string(p.doc[p.at:p.at+len(word)]) == word {
			p.at += len(word)
			return v, nil
		}
	}
	return nil, p.errorf("it is not JSON")
}

func (p *parser) object(depth int) (Value, error) {
	object := make(map[string]Value)
	p.at++
	if p.next() == '}' {
		p.at++
		return object, nil
	}
	for {
		if p.next() != '"' {
			return nil, p.errorf("the name of a member is missing")
		}
		start := p.at
		name, err := p.text()
		if err != nil {
			return nil, err
		}
		if _, twice := object[name]; twice {
			p.at = start
			return nil, p.errorf("a member is there twice")
		}
		if p.next() != ':' {
			return nil, p.errorf("a colon is missing")
		}
		p.at++
		if object[name], err = p.value(depth + 1); err != nil {
			return nil, err
		}
		switch p.next() {
		case ',':
			p.at++
		case '}':
			p.at++
			return object, nil
		default:
			return nil, p.errorf("an object does not end")
		}
	}
}

func (p *parser) array(depth int) (Value, error) {
	array := []Value{}
	p.at++
	if p.next() == ']' {
		p.at++
		return array, nil
	}
	for {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		array = append(array, v)
		switch p.next() {
		case ',':
			p.at++
		case ']':
			p.at++
			return array, nil
		default:
			return nil, p.errorf("an array does not end")
		}
	}
}

func (p *parser) number() (Value, error) {
	start := p.at
	for p.at < len(p.doc) && '0' <= p.doc[p.at] && p.doc[p.at] <= '9' {
		p.at++
	}
	digits := p.doc[start:p.at]
	if p.at < len(p.doc) {
		switch p.doc[p.at] {
		case '-', '+', '.', 'e', 'E':
			return nil, p.errorf("a number is not an integer in [0, 2^53)")
		}
	}
	if len(digits) > 1 && digits[0] == '0' {
		return nil, p.errorf("a number begins with 0")
	}
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || n > maxInt {
		return nil, p.errorf("a number is not an integer in [0, 2^53)")
	}
	return n, nil
}

// text reads a string; the next byte is its quote.
func (p *parser) text() (string, error) {
	p.at++
	var text []byte
	for p.at < len(p.doc) {
		switch c := p.doc[p.at]; {
		case c == '"':
			p.at++
			return string(text), nil
		case c < ' ':
			return "", p.errorf("a string has a control character")
		case c != '\\':
			text = append(text, c)
			p.at++
		default:
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			text = utf8.AppendRune(text, r)
		}
	}
	return "", p.errorf("a string does not end")
}

var escapes = map[byte]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (p *parser) escape() (rune, error) {
	if p.at+1 >= len(p.doc) {
		return 0, p.errorf("a string does not end")
	}
	if r, ok := escapes[p.doc[p.at+1]]; ok {
		p.at += 2
		return r, nil
	}
	r, err := p.unit()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	low, err := p.unit()
	if err != nil {
		return 0, p.errorf("a string has a lone surrogate")
	}
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, p.errorf("a string has a lone surrogate")
	}
	return r, nil
}

// unit reads the UTF-16 code unit \uXXXX.
func (p *parser) unit() (rune, error) {
	const size = len(`\uXXXX`)
	if len(p.doc)-p.at < size || p.doc[p.at] != '\\' || p.doc[p.at+1] != 'u' {
		return 0, p.errorf("a string has a bad escape")
	}
	var unit rune
	for _, c := range p.doc[p.at+2 : p.at+size] {
		switch {
		case '0' <= c && c <= '9':
			unit = unit<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			unit = unit<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, p.errorf("a string has a bad escape")
		}
	}
	p.at += size
	return unit, nil
}
