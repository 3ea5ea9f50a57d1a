package canon

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// NamesDiffer reports an error if an object in the JSON document doc has two members
// whose names are the same, or would be to encoding/json, which does not tell letter
// case apart: in such a document two readers may see two things. It also reports
// where doc is not usable JSON.
func NamesDiffer(doc []byte) error {
	if len(doc) > MaxBytes {
		return tooLong.at(MaxBytes)
	}
	n := names{scanner: scanner{src: view(doc)}}
	n.space()
	p := n.check()
	if p == "" {
		if n.space(); n.i != len(doc) {
			p = trailing
		}
	}
	return p.at(n.i)
}

type names struct{ scanner }

func (n *names) check() problem {
	switch n.peek() {
	case '{':
		return n.checkObject()
	case '[':
		empty, p := n.enter(']')
		for more := !empty && p == ""; more; {
			if p = n.check(); p != "" {
				return p
			}
			more, p = n.next(']')
		}
		return p
	}
	return n.value()
}

func (n *names) checkObject() problem {
	const few = 16 // up to here comparing all pairs is faster than a map
	var list []string
	var seen map[string]bool
	empty, p := n.enter('}')
	for more := !empty && p == ""; more; {
		start := n.i + 1
		end, p := n.name()
		if p != "" {
			return p
		}
		name := n.src[start : end-1]
		if strings.IndexByte(name, '\\') >= 0 {
			text, _ := AppendText(nil, []byte(name))
			name = replaceSurrogates(string(text))
		}
		if seen == nil {
			for _, other := range list {
				if strings.EqualFold(name, other) {
					return sameName
				}
			}
			if list = append(list, name); len(list) > few {
				seen = make(map[string]bool)
				for _, other := range list {
					seen[fold(other)] = true
				}
			}
		} else if folded := fold(name); seen[folded] {
			return sameName
		} else {
			seen[folded] = true
		}
		if p = n.check(); p != "" {
			return p
		}
		if more, p = n.next('}'); p != "" {
			return p
		}
	}
	return p
}

// replaceSurrogates puts U+FFFD for every surrogate in a text, as encoding/json does: two of
// them become two characters.
func replaceSurrogates(text string) string {
	var valid []byte
	for text != "" {
		r, size := decode(text)
		valid, text = utf8.AppendRune(valid, r), text[size:]
	}
	return string(valid)
}

// fold returns a text that two names share exactly if strings.EqualFold holds: of each
// character the first one of its case-folding orbit.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		first := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			first = min(first, other)
		}
		return first
	}, name)
}
