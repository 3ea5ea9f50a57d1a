package canon

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// Append appends the canonical form of the JSON document src to dst, which must not
// overlap. On an error it returns dst as far as it got.
//
// It takes time and space linear in the document's size but for sorting.
func Append(dst, src []byte) ([]byte, error) { return appendCanonical(dst, src, 1<<10) }

// appendCanonical is Append; objects of up to small bytes are put in order at once.
func appendCanonical(dst, src []byte, small uint32) ([]byte, error) {
	if len(src) > MaxBytes {
		return dst, tooLong.at(MaxBytes)
	}
	w := writers.Get().(*writer)
	defer w.release()
	w.scanner = scanner{src: view(src), copier: w}
	w.out, w.start, w.small = dst, len(dst), small
	w.space()
	p := w.write()
	if p == "" {
		if w.space(); w.i != len(src) {
			p = trailing
		}
	}
	w.flush(w.i)
	if p == "" && len(w.objects) > 0 {
		w.reorder()
	}
	return w.out, p.at(w.i)
}

// A writer writes the canonical form of what its scanner takes, in the order of the
// source. What stays as it is, which is most, it copies in runs as long as they get. It
// puts the members of a small object in order when that is complete, and notes
// larger ones to put them in order at the end: moving each at once would move its inner
// ones again at every level.
type writer struct {
	scanner
	out     []byte
	copied  int      // how far into the source out goes; from there to i all stays as it is
	start   int      // where the document begins in out; offsets count from there
	small   uint32   // how long an object may be to be put in order at once
	names   []byte   // the text of names that is not read off the source
	members []member // of the objects that are being written, innermost last
	objects []object // those to be put in order at the end
	sorted  []member // their members in order
	scratch []byte
}

// A member is where one stands in the output, and its name in the source, or in
// writer.names as if that lay behind the source. A document of [MaxBytes] can have
// millions of members.
type member struct {
	head                      uint64 // of the name, which tells most names apart
	start, end, name, nameEnd uint32
}

// An object is where one stands in the output, and which of writer.sorted are its
// members.
type object struct{ start, end, first, last uint32 }

var writers = sync.Pool{New: func() any { return new(writer) }}

// maxPooled keeps one huge document from pinning its buffers for good.
const maxPooled = 1 << 16

func (w *writer) release() {
	if cap(w.scratch) > maxPooled || cap(w.names) > maxPooled || cap(w.members) > maxPooled/16 || cap(w.sorted) > maxPooled/16 {
		return
	}
	clear(w.names)
	clear(w.members)
	clear(w.sorted)
	w.scanner, w.out, w.copied = scanner{}, nil, 0
	w.names, w.members, w.objects, w.sorted = w.names[:0], w.members[:0], w.objects[:0], w.sorted[:0]
	writers.Put(w)
}

// at returns the offset of what is written next.
func (w *writer) at() uint32 { return uint32(len(w.out) - w.start + w.i - w.copied) }

// flush copies what stays as it is, up to end. What the source has from there to where the
// scanner stands is left out.
func (w *writer) flush(end int) {
	w.out = append(w.out, w.src[w.copied:end]...)
	w.copied = w.i
}

// write takes a value and writes it.
func (w *writer) write() problem {
	switch w.peek() {
	case '"':
		return w.writeString()
	case '{':
		return w.writeObject()
	case '[':
		return w.writeArray()
	case 't', 'f', 'n':
		return w.literal()
	}
	return w.writeNumber()
}

// writeString takes a string and writes it.
func (w *writer) writeString() problem {
	w.i++
	for {
		w.i += plain(w.src[w.i:])
		switch c := w.peek(); {
		case c == '"':
			w.i++
			return ""
		case w.i == len(w.src):
			return noEnd
		case c == '\\':
			if c := short(w.src[w.i:]); c != 0 && c != '/' { // this is its escape
				w.i += 2
				continue
			}
		}
		r, size := character(w.src[w.i:])
		if size == 0 {
			return badString
		}
		end := w.i
		w.i += size
		w.flush(end)
		w.out = appendEscaped(w.out, r)
	}
}

func (w *writer) writeNumber() problem {
	start := w.i
	p := w.number()
	if number := w.src[start:w.i]; p == "" && !staysAsItIs(number) {
		w.flush(start)
		w.out, p = appendNumber(w.out, number)
	}
	return p
}

func (w *writer) writeArray() problem {
	empty, p := w.enter(']')
	for more := !empty && p == ""; more; {
		if p = w.write(); p != "" {
			return p
		}
		more, p = w.next(']')
	}
	return p
}

func (w *writer) writeObject() problem {
	start := w.at()
	first := len(w.members)
	inOrder := true
	empty, p := w.enter('}')
	for more := !empty && p == ""; more; {
		m := member{start: w.at()}
		if p = w.writeName(&m); p != "" {
			return p
		}
		if p = w.write(); p != "" {
			return p
		}
		m.end = w.at()
		inOrder = inOrder && (len(w.members) == first || w.compare(w.members[len(w.members)-1], m) < 0)
		w.members = append(w.members, m)
		if more, p = w.next('}'); p != "" {
			return p
		}
	}
	if !inOrder {
		w.sort(start, w.members[first:])
	}
	clear(w.members[first:]) // heads are pieces of names
	w.members = w.members[:first]
	return p
}

// writeName takes the name of a member and the colon behind it, and writes both.
func (w *writer) writeName(m *member) problem {
	if w.peek() != '"' {
		return noKey
	}
	start := w.i
	if n := start + 1 + plain(w.src[start+1:]); len(w.src) >= n+2 && w.src[n:n+2] == `":` { // as most are
		m.head, m.name, m.nameEnd = head(w.src[start+1:], n-start-1), uint32(start+1), uint32(n)
		w.i = n + 2
		w.space()
		return ""
	}
	if p := w.writeString(); p != "" {
		return p
	}
	m.name = uint32(len(w.src) + len(w.names))
	w.names, _ = appendText(w.names, w.src[start+1:w.i-1]) // it has just been taken
	m.nameEnd = uint32(len(w.src) + len(w.names))
	name := w.name(*m)
	m.head = head(name, len(name))
	return w.colon()
}

// head returns the first eight of the n bytes of a name at the start of s as a number that
// has their order. A shorter name is filled up with zeros.
func head(s string, n int) (bytes uint64) {
	if len(s) < 8 {
		for i := range 8 {
			if bytes <<= 8; i < n {
				bytes |= uint64(s[i])
			}
		}
		return bytes
	}
	bytes = bits.ReverseBytes64(word(s))
	if n < 8 {
		bytes &^= 1<<(64-8*n) - 1
	}
	return bytes
}

// name returns the name of a member, in UTF-8 or what is left of it when surrogates are
// alone: its bytes have the order of its code points.
func (w *writer) name(m member) string {
	if n := uint32(len(w.src)); m.name >= n {
		return view(w.names[m.name-n : m.nameEnd-n])
	}
	return w.src[m.name:m.nameEnd]
}

// compare orders two members by their names.
func (w *writer) compare(a, b member) int {
	if a.head != b.head {
		return cmp.Compare(a.head, b.head)
	}
	return strings.Compare(w.name(a), w.name(b))
}

// sort puts the object that was taken from start on in order of its members' names, of
// each name the last. One that is not small is only noted.
func (w *writer) sort(start uint32, members []member) {
	if w.order(members) {
		last := members[:0]
		for i, m := range members {
			if i+1 == len(members) || w.compare(m, members[i+1]) != 0 {
				last = append(last, m)
			}
		}
		members = last
	}
	small := w.at()-start <= w.small
	if small && w.start+int(start) >= len(w.out) {
		w.rearrange(start, members)
		return
	}
	if w.flush(w.i); small {
		w.rewrite(start, members)
		return
	}
	o := object{start: start, end: w.at(), first: uint32(len(w.sorted))}
	w.sorted = append(w.sorted, members...)
	o.last = uint32(len(w.sorted))
	w.objects = append(w.objects, o)
}

// order puts members in order of their names, those of one name in order of the source,
// and reports whether there are any of one name.
func (w *writer) order(members []member) (repeated bool) {
	if len(members) > 16 {
		slices.SortFunc(members, func(a, b member) int {
			order := w.compare(a, b)
			if order == 0 {
				repeated = true
				return cmp.Compare(a.start, b.start)
			}
			return order
		})
		return repeated
	}
	// As slices.SortFunc does it for few, but without a call for each comparison.
	for i := 1; i < len(members); i++ {
		m, at := members[i], i
		for ; at > 0 && m.head <= members[at-1].head; at-- {
			if m.head == members[at-1].head {
				if order := w.compare(m, members[at-1]); order >= 0 {
					repeated = repeated || order == 0
					break
				}
			}
			members[at] = members[at-1]
		}
		members[at] = m
	}
	return repeated
}

// rearrange copies the object from start on in order, which stays as it is but for that.
func (w *writer) rearrange(start uint32, members []member) {
	shift := w.copied - (len(w.out) - w.start) // from the output to the source
	w.flush(int(start) + shift)
	w.out = append(w.out, '{')
	for i, m := range members {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = append(w.out, w.src[int(m.start)+shift:int(m.end)+shift]...)
	}
	w.out = append(w.out, '}')
}

// rewrite writes the object that was written from start on once more, in order.
func (w *writer) rewrite(start uint32, members []member) {
	w.scratch = append(w.scratch[:0], w.out[w.start+int(start):]...)
	w.out = append(w.out[:w.start+int(start)], '{')
	for i, m := range members {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = append(w.out, w.scratch[m.start-start:m.end-start]...)
	}
	w.out = append(w.out, '}')
	clear(w.scratch)
}

// reorder writes the output once more, with the objects that were noted in order.
func (w *writer) reorder() {
	// Inner objects were complete first; the walk meets the outer ones first.
	slices.SortFunc(w.objects, func(a, b object) int { return cmp.Compare(a.start, b.start) })
	w.scratch = append(w.scratch[:0], w.out[w.start:]...)
	w.out = w.out[:w.start]
	w.copy(w.objects, 0, uint32(len(w.scratch)))
	clear(w.scratch)
}

// copy writes what was written from from to to, in order; inside are the objects there.
func (w *writer) copy(inside []object, from, to uint32) {
	for len(inside) > 0 {
		o := inside[0]
		w.out = append(w.out, w.scratch[from:o.start]...)
		n := startingBefore(inside, o.end)
		w.out = append(w.out, '{')
		for i, m := range w.sorted[o.first:o.last] {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			inner := inside[1:n]
			inner = inner[startingBefore(inner, m.start):]
			w.copy(inner[:startingBefore(inner, m.end)], m.start, m.end)
		}
		w.out = append(w.out, '}')
		inside, from = inside[n:], o.end
	}
	w.out = append(w.out, w.scratch[from:to]...)
}

// startingBefore returns how many of the objects, which are in order, start before at.
func startingBefore(objects []object, at uint32) int {
	n, _ := slices.BinarySearchFunc(objects, at, func(o object, at uint32) int { return cmp.Compare(o.start, at) })
	return n
}
