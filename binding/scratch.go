package binding

import "sync"

// A scratch is a buffer for what must not stay in memory: claims, with the state in
// them. It is wiped when it is given back.
type scratch struct{ bytes []byte }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// maxPooled keeps one huge state from pinning its buffer for good. It has room for the
// claims of any state under the default of Options.MaxTokenChars.
const maxPooled = 2 << 20

func take() *scratch { return scratches.Get().(*scratch) }

func give(s *scratch) {
	clear(s.bytes)
	if s.bytes = s.bytes[:0]; cap(s.bytes) <= maxPooled {
		scratches.Put(s)
	}
}

// reserve makes room for n bytes, so that nothing is left behind in a smaller buffer
// that append outgrew.
func (s *scratch) reserve(n int) {
	if cap(s.bytes) < n {
		clear(s.bytes)
		s.bytes = make([]byte, 0, n)
	}
}
