package strict

import (
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
)

// An Object reads the members of one object. The methods that read a member return
// the zero value where it is missing or wrong, and the first that is wrong is the
// error of the whole document, see [Object.Err].
//
// A member that is missing is wrong unless its name ends in "?".
type Object struct {
	members map[string]Value
	read    []string
	path    string
	root    *root
}

// A root is what all objects of a document share.
type root struct {
	err     error
	unknown bool
}

// Read returns the members of v, a value of [Parse].
func Read(v Value) *Object {
	r := &root{}
	members, ok := v.(map[string]Value)
	if !ok {
		r.err = errors.New("it is not a JSON object")
	}
	return r.object(members, "")
}

func (r *root) object(members map[string]Value, path string) *Object {
	return &Object{members: members, path: path, root: r}
}

// Err returns the first error of the whole document.
func (o *Object) Err() error { return o.root.err }

// Unknown reports whether an object of the document had members that nobody read,
// among those that [Object.Done] was called for.
func (o *Object) Unknown() bool { return o.root.unknown }

// Done notes whether o has members besides those that were read until now.
func (o *Object) Done() {
	for name := range o.members {
		if !slices.Contains(o.read, name) {
			o.root.unknown = true
			return
		}
	}
}

// Fail notes that a member is wrong; why is a phrase.
func (o *Object) Fail(name, why string) {
	if o.root.err == nil {
		o.root.err = fmt.Errorf("%s: %s", o.join(strings.TrimSuffix(name, "?")), why)
	}
}

func (o *Object) join(name string) string {
	if o.path == "" {
		return name
	}
	if name == "" {
		return o.path
	}
	return o.path + "." + name
}

// Has reports whether there is a member of that name.
func (o *Object) Has(name string) bool { _, ok := o.members[name]; return ok }

// member returns a member and whether it is there; a missing one is an error unless
// it is optional.
func (o *Object) member(name string) (Value, bool) {
	plain, optional := strings.CutSuffix(name, "?")
	o.read = append(o.read, plain)
	v, ok := o.members[plain]
	if !ok && !optional {
		o.Fail(plain, "it is missing")
	}
	return v, ok
}

func read[T Value](o *Object, name, what string) (t T, ok bool) {
	v, there := o.member(name)
	if !there {
		return t, false
	}
	if t, ok = v.(T); !ok {
		o.Fail(name, "it is not "+what)
	}
	return t, ok
}

// String reads a string.
func (o *Object) String(name string) string {
	s, _ := read[string](o, name, "a string")
	return s
}

// Int reads an integer in [0, 2^53).
func (o *Object) Int(name string) int64 {
	n, _ := read[int64](o, name, "a number")
	return n
}

// Bool reads true or false.
func (o *Object) Bool(name string) bool {
	b, _ := read[bool](o, name, "true or false")
	return b
}

// Time reads a time as [FormatTime] writes it, not before 1970: the zero time is never
// one that was read.
func (o *Object) Time(name string) time.Time {
	s, ok := read[string](o, name, "a string")
	if !ok {
		return time.Time{}
	}
	t, err := time.Parse(timeFormat, s)
	if err != nil || FormatTime(t) != s || t.Year() < 1970 {
		o.Fail(name, "it is not a time since 1970 such as 2006-01-02T15:04:05.000Z")
		return time.Time{}
	}
	return t
}

// Duration reads a duration as [time.Duration.String] writes it, not negative.
func (o *Object) Duration(name string) time.Duration {
	s, ok := read[string](o, name, "a string")
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d.String() != s {
		o.Fail(name, "it is not a duration such as 10m0s, written as Go prints it and not negative")
		return 0
	}
	return d
}

// Bytes reads base64 as RFC 4648, section 4 has it: padded, canonical, nothing else.
func (o *Object) Bytes(name string) []byte {
	s, ok := read[string](o, name, "a string")
	if !ok {
		return nil
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	// The decoder skips line ends, which would make two texts of one value.
	if err != nil || strings.ContainsAny(s, "\r\n") {
		o.Fail(name, "it is not canonical base64 with padding")
		return nil
	}
	return b
}

// Strings reads an array of strings.
func (o *Object) Strings(name string) []string {
	values, _ := read[[]Value](o, name, "an array")
	var all []string
	for i, v := range values {
		s, ok := v.(string)
		if !ok {
			o.Fail(fmt.Sprintf("%s[%d]", strings.TrimSuffix(name, "?"), i), "it is not a string")
			return nil
		}
		all = append(all, s)
	}
	return all
}

// Object reads an object. Where it is missing or wrong its members are, too, but that
// is not an error of its own.
func (o *Object) Object(name string) *Object {
	members, ok := read[map[string]Value](o, name, "an object")
	r := o.root
	if !ok {
		r = &root{}
	}
	return r.object(members, o.join(strings.TrimSuffix(name, "?")))
}

// Objects reads an array of objects. It stops at the first error of the document, so that
// no more is kept of a long array than what is right in it.
func (o *Object) Objects(name string) iter.Seq2[int, *Object] {
	values, _ := read[[]Value](o, name, "an array")
	return func(yield func(int, *Object) bool) {
		for i, v := range values {
			path := fmt.Sprintf("%s[%d]", strings.TrimSuffix(name, "?"), i)
			members, ok := v.(map[string]Value)
			if !ok {
				o.Fail(path, "it is not an object")
			}
			if o.root.err != nil || !yield(i, o.root.object(members, o.join(path))) {
				return
			}
		}
	}
}

const timeFormat = "2006-01-02T15:04:05.000Z"

// CeilTime returns t in UTC, rounded up to the millisecond, which is as fine as
// [FormatTime] writes it.
func CeilTime(t time.Time) time.Time {
	t = t.UTC().Round(0)
	if down := t.Truncate(time.Millisecond); !down.Equal(t) {
		return down.Add(time.Millisecond)
	}
	return t
}

// FormatTime writes a time: UTC, three decimals, rounded up.
func FormatTime(t time.Time) string { return CeilTime(t).Format(timeFormat) }
