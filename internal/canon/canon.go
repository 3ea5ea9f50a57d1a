package canon

import (
	"bytes"
	"slices"
	"sync"
)

// Append appends the canonical form of the JSON document src to dst, which must not
// overlap. On an error it returns dst as far as it got.
//
// It takes time and space linear in the document's size but for sorting.
func Append(dst, src []byte) ([]byte, error) {
	if len(src) > MaxBytes {
		return dst, tooLong.at(MaxBytes)
	}
	w := writers.Get().(*writer)
	defer w.release()
	w.scanner = scanner{src: src}
	w.out = dst
	start := len(dst)
	w.space()
	p := w.write()
	if p == "" {
		if w.space(); w.i != len(src) {
			p = trailing
		}
	}
	if p == "" && len(w.objects) > 0 {
		w.reorder(start)
	}
	return w.out, p.at(w.i)
}

// A writer writes the canonical form of what its scanner takes, in the order of the
// source, and notes which objects have to be put in order afterwards: moving each
// when it is complete would move its inner ones again at every level.
type writer struct {
	scanner
	out     []byte
	members []member // of the objects that are being written, innermost last
	objects []object // those that are not in order
	sorted  []member // their members in order
	scratch []byte
}

// A member is where one stands in the output: its name from start to name, its
// value up to end.
type member struct{ start, name, end int }

// An object is where one stands in the output, and which of writer.sorted are its
// members.
type object struct{ start, end, first, last int }

var writers = sync.Pool{New: func() any { return new(writer) }}

// maxPooled keeps one huge document from pinning its buffers for good.
const maxPooled = 1 << 16

func (w *writer) release() {
	if cap(w.scratch) > maxPooled || cap(w.members) > maxPooled/16 || cap(w.sorted) > maxPooled/16 {
		return
	}
	clear(w.scratch)
	*w = writer{members: w.members[:0], objects: w.objects[:0], sorted: w.sorted[:0], scratch: w.scratch[:0]}
	writers.Put(w)
}

// write takes a value and writes it.
func (w *writer) write() problem {
	start := w.i
	var p problem
	switch w.peek() {
	case '"':
		return w.writeString()
	case '{':
		return w.writeObject()
	case '[':
		return w.writeArray()
	case 't', 'f', 'n':
		p = w.literal()
		w.out = append(w.out, w.src[start:w.i]...)
	default:
		if p = w.number(); p == "" {
			w.out, p = appendNumber(w.out, w.src[start:w.i])
		}
	}
	return p
}

func (w *writer) writeString() problem {
	w.out = append(w.out, '"')
	w.i++
	for {
		n := plain(w.src[w.i:])
		w.out = append(w.out, w.src[w.i:w.i+n]...)
		w.i += n
		switch w.peek() {
		case '"':
			w.out = append(w.out, '"')
			w.i++
			return ""
		case '\\':
			unit, size := unescape(w.src[w.i:])
			if size == 0 {
				return badString
			}
			// The two halves of a pair are written one by one and meet again.
			w.out = appendEscaped(w.out, unit)
			w.i += size
		default:
			if w.i == len(w.src) {
				return noEnd
			}
			r, size := decodeRaw(w.src[w.i:])
			if size == 0 {
				return badString
			}
			w.out = appendEscaped(w.out, r)
			w.i += size
		}
	}
}

func (w *writer) writeArray() problem {
	w.out = append(w.out, '[')
	empty, p := w.enter(']')
	for more := !empty && p == ""; more; {
		if p = w.write(); p != "" {
			return p
		}
		if more, p = w.next(']'); more {
			w.out = append(w.out, ',')
		}
	}
	w.out = append(w.out, ']')
	return p
}

func (w *writer) writeObject() problem {
	at := len(w.out)
	w.out = append(w.out, '{')
	first := len(w.members)
	inOrder := true
	empty, p := w.enter('}')
	for more := !empty && p == ""; more; {
		if w.peek() != '"' {
			return noKey
		}
		m := member{start: len(w.out)}
		if p = w.writeString(); p != "" {
			return p
		}
		m.name = len(w.out)
		if p = w.colon(); p != "" {
			return p
		}
		w.out = append(w.out, ':')
		if p = w.write(); p != "" {
			return p
		}
		m.end = len(w.out)
		inOrder = inOrder && (len(w.members) == first || w.compare(w.members[len(w.members)-1], m) < 0)
		w.members = append(w.members, m)
		if more, p = w.next('}'); more {
			w.out = append(w.out, ',')
		}
	}
	w.out = append(w.out, '}')
	if !inOrder {
		w.sort(at, w.members[first:])
	}
	w.members = w.members[:first]
	return p
}

// sort notes the object that was written from at on, with its members in order of
// their names, of each name the last.
func (w *writer) sort(at int, members []member) {
	slices.SortStableFunc(members, w.compare)
	o := object{start: at, end: len(w.out), first: len(w.sorted)}
	for i, m := range members {
		if i+1 == len(members) || w.compare(m, members[i+1]) != 0 {
			w.sorted = append(w.sorted, m)
		}
	}
	o.last = len(w.sorted)
	w.objects = append(w.objects, o)
}

// reorder writes the output from start on once more, in order.
func (w *writer) reorder(start int) {
	// Inner objects were complete first; the walk meets the outer ones first.
	slices.SortFunc(w.objects, func(a, b object) int { return a.start - b.start })
	w.scratch = append(w.scratch[:0], w.out[start:]...)
	end := len(w.out)
	w.out = w.copy(w.out[:start], start, start, end)
}

// copy appends what was written from from to to, in order; base is where scratch
// begins.
func (w *writer) copy(dst []byte, base, from, to int) []byte {
	for {
		next, _ := slices.BinarySearchFunc(w.objects, from, func(o object, at int) int { return o.start - at })
		if next == len(w.objects) || w.objects[next].start >= to {
			return append(dst, w.scratch[from-base:to-base]...)
		}
		o := w.objects[next]
		dst = append(dst, w.scratch[from-base:o.start-base]...)
		dst = append(dst, '{')
		for i, m := range w.sorted[o.first:o.last] {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = w.copy(dst, base, m.start, m.end)
		}
		dst = append(dst, '}')
		from = o.end
	}
}

// compare orders two members by the code points of their names.
func (w *writer) compare(a, b member) int {
	x, y := w.out[a.start+1:a.name-1], w.out[b.start+1:b.name-1]
	// Below U+007F the text is in the order of its code points as long as nothing
	// is escaped.
	if bytes.IndexByte(x, '\\') < 0 && bytes.IndexByte(y, '\\') < 0 {
		return bytes.Compare(x, y)
	}
	for len(x) > 0 && len(y) > 0 {
		r, n := codePoint(x)
		s, m := codePoint(y)
		if r != s {
			return int(r - s)
		}
		x, y = x[n:], y[m:]
	}
	return len(x) - len(y)
}
