package canon

import "fmt"

const (
	// MaxDepth is how deep arrays and objects may be nested.
	MaxDepth = 512
	// MaxBytes is how long a document may be.
	MaxBytes = 16 << 20
)

// A problem says what is wrong with a document; "" means nothing.
type problem string

const (
	noValue   problem = "a value is missing or is none of JSON's"
	noEnd     problem = "the document ends too early"
	noComma   problem = "a comma or a closing bracket is missing"
	noKey     problem = "a member's name is missing"
	noColon   problem = "a colon is missing"
	badString problem = "a string holds a bad escape, a control character or invalid UTF-8"
	trailing  problem = "more text follows the value"
	noObject  problem = "it is no object"
	sameName  problem = "an object has two members of the same name, or of names that differ in letter case only"
	tooDeep   problem = "it is nested deeper than 512"
	tooLong   problem = "it is longer than 16 MiB"
)

func (p problem) at(offset int) error {
	if p == "" {
		return nil
	}
	return fmt.Errorf("not usable JSON at byte %d: %s", offset, string(p))
}

// A scanner walks over a document. Its methods start at src[i], leave i behind what
// they took, and stop where the problem is.
type scanner struct {
	src    string
	i      int
	depth  int
	copier *writer // what copies what is taken, or nil; it has no use for space
}

// space takes white space; most documents have none.
func (s *scanner) space() {
	if s.i < len(s.src) && s.src[s.i] <= ' ' {
		s.takeSpace()
	}
}

//go:noinline // so that space is inlined
func (s *scanner) takeSpace() {
	start := s.i
	for s.i < len(s.src) && isSpace(s.src[s.i]) {
		s.i++
	}
	if s.copier != nil {
		s.copier.flush(start)
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// peek returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.i < len(s.src) {
		return s.src[s.i]
	}
	return 0
}

// string takes a string with its quotes.
func (s *scanner) string() problem {
	s.i++
	for {
		s.i += plain(s.src[s.i:])
		switch {
		case s.i == len(s.src):
			return noEnd
		case s.src[s.i] == '"':
			s.i++
			return ""
		}
		_, size := character(s.src[s.i:])
		if size == 0 {
			return badString
		}
		s.i += size
	}
}

// number takes a number.
func (s *scanner) number() problem {
	end := numberEnd(s.src, s.i)
	if end == s.i {
		return noValue
	}
	s.i = end
	return ""
}

// literal takes true, false or null.
func (s *scanner) literal() problem {
	for _, word := range [...]string{"true", "false", "null"} {
		if end := s.i + len(word); end <= len(s.src) && s.src[s.i:end] == word {
			s.i = end
			return ""
		}
	}
	return noValue
}

// enter takes the bracket that opens an array or an object, and reports whether
// it is empty and was taken whole.
func (s *scanner) enter(closing byte) (empty bool, p problem) {
	if s.depth++; s.depth > MaxDepth {
		return false, tooDeep
	}
	s.i++
	if s.space(); s.peek() == closing {
		s.i++
		s.depth--
		return true, ""
	}
	return false, ""
}

// next takes the comma before the next element, or the closing bracket.
func (s *scanner) next(closing byte) (more bool, p problem) {
	s.space()
	switch s.peek() {
	case ',':
		s.i++
		s.space()
		return true, ""
	case closing:
		s.i++
		s.depth--
		return false, ""
	}
	if s.i == len(s.src) {
		return false, noEnd
	}
	return false, noComma
}

// colon takes the colon behind a member's name, and space on both sides.
func (s *scanner) colon() problem {
	if s.space(); s.peek() != ':' {
		return noColon
	}
	s.i++
	s.space()
	return ""
}

// value takes a whole value.
func (s *scanner) value() problem {
	switch s.peek() {
	case '"':
		return s.string()
	case '{':
		return s.object()
	case '[':
		empty, p := s.enter(']')
		for more := !empty && p == ""; more; {
			if p = s.value(); p != "" {
				return p
			}
			more, p = s.next(']')
		}
		return p
	case 't', 'f', 'n':
		return s.literal()
	}
	return s.number()
}

// object takes an object.
func (s *scanner) object() problem {
	empty, p := s.enter('}')
	for more := !empty && p == ""; more; {
		if _, p = s.name(); p != "" {
			return p
		}
		if p = s.value(); p != "" {
			return p
		}
		more, p = s.next('}')
	}
	return p
}

// name takes the name of a member, which ends at end, and what stands between it and the
// value.
func (s *scanner) name() (end int, p problem) {
	if s.peek() != '"' {
		return s.i, noKey
	}
	if p = s.string(); p != "" {
		return s.i, p
	}
	end = s.i
	return end, s.colon()
}

// Members walks over the members of a JSON object in their order:
//
//	m := canon.Members{Doc: doc}
//	for m.Next() {
//		// m.Name, m.Value
//	}
//	if m.Err() != nil {
//		// Doc is not usable JSON, or no object
//	}
type Members struct {
	Doc   []byte
	Name  []byte // as it stands in Doc, with its quotes and escapes
	Value []byte // as it stands in Doc

	s      scanner
	inside bool // in the object, before a member
	done   bool
	p      problem
}

// Next goes to the next member. It returns false behind the last one and where the
// document is not usable.
func (m *Members) Next() bool {
	if m.done {
		return false
	}
	more, p := m.advance()
	if !more || p != "" {
		m.Name, m.Value, m.p, m.done = nil, nil, p, true
	}
	return !m.done
}

func (m *Members) advance() (more bool, p problem) {
	if !m.inside {
		more, p = m.begin()
	} else {
		more, p = m.s.next('}')
	}
	if p != "" {
		return false, p
	}
	if !more {
		if m.s.space(); m.s.i != len(m.Doc) {
			return false, trailing
		}
		return false, ""
	}
	start := m.s.i
	end, p := m.s.name()
	if p != "" {
		return false, p
	}
	m.Name = m.Doc[start:end]
	start = m.s.i
	p = m.s.value()
	m.Value = m.Doc[start:m.s.i]
	return true, p
}

func (m *Members) begin() (more bool, p problem) {
	if len(m.Doc) > MaxBytes {
		return false, tooLong
	}
	m.s, m.inside = scanner{src: view(m.Doc)}, true
	if m.s.space(); m.s.peek() != '{' {
		return false, noObject
	}
	empty, p := m.s.enter('}')
	return !empty, p
}

// Err returns why the walk ended early, or nil.
func (m *Members) Err() error { return m.p.at(m.s.i) }
