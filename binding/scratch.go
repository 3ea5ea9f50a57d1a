package binding

import "sync"

// A scratch holds what must not stay in memory while one token is made or opened: claims,
// with the state in them, and what came of them. It is wiped when it is given back.
type scratch struct {
	payload   []byte
	result    []byte // a token or a state
	arguments []byte // in canonical form
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// maxPooled keeps one huge state from pinning its buffers for good. It has room for the
// claims of any state under the default of Options.MaxTokenChars.
const maxPooled = 2 << 20

func take() *scratch { return scratches.Get().(*scratch) }

func (s *scratch) give() {
	s.wipe()
	scratches.Put(s)
}

func (s *scratch) wipe() {
	for _, buf := range []*[]byte{&s.payload, &s.result, &s.arguments} {
		clear(*buf)
		if *buf = (*buf)[:0]; cap(*buf) > maxPooled {
			*buf = nil
		}
	}
}

// reserve makes room in buf, which is empty, for n bytes, so that nothing is left behind
// in a smaller buffer that append outgrew.
func reserve(buf *[]byte, n int) {
	if cap(*buf) < n {
		*buf = make([]byte, 0, n)
	}
}
