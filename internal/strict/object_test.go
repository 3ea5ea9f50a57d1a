package strict

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func object(t *testing.T, doc string) *Object {
	t.Helper()
	v, err := Parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return Read(v)
}

func TestObjectReads(t *testing.T) {
	o := object(t, `{"s":"x","n":7,"b":true,"t":"2026-12-02T03:00:00.001Z","d":"1h0m0.5s","y":"AAE=","l":["a","b"],"e":[],
		"o":{"s":"y"},"a":[{"n":1},{"n":2}]}`)
	if s, n, b := o.String("s"), o.Int("n"), o.Bool("b"); s != "x" || n != 7 || !b {
		t.Error(s, n, b)
	}
	if at := o.Time("t"); !at.Equal(time.Date(2026, 12, 2, 3, 0, 0, 1e6, time.UTC)) || at.Location() != time.UTC {
		t.Error(at)
	}
	if d := o.Duration("d"); d != time.Hour+time.Second/2 {
		t.Error(d)
	}
	if y, l, e := o.Bytes("y"), o.Strings("l"), o.Strings("e"); string(y) != "\x00\x01" || !slices.Equal(l, []string{"a", "b"}) || e != nil {
		t.Error(y, l, e)
	}
	inner := o.Object("o")
	if s := inner.String("s"); s != "y" {
		t.Error(s)
	}
	var sum int64
	for i, element := range o.Objects("a") {
		sum += int64(i+1) * element.Int("n")
		element.Done()
	}
	if sum != 5 {
		t.Error(sum)
	}
	// What may be missing, and is.
	if s, at, all := o.String("q?"), o.Time("q?"), o.Strings("q?"); s != "" || !at.IsZero() || all != nil || o.Has("q") || !o.Has("s") {
		t.Error(s, at, all)
	}
	for range o.Objects("q?") {
		t.Error("an element of nothing")
	}
	if inner.Done(); o.Unknown() {
		t.Error("unknown before anything is")
	}
	if o.Done(); o.Unknown() || o.Err() != nil {
		t.Error(o.Unknown(), o.Err())
	}
}

func TestObjectKnowsWhatNobodyRead(t *testing.T) {
	for doc, want := range map[string]bool{
		`{"a":{"b":1}}`:             false,
		`{"a":{"b":1},"A":1}`:       true,
		`{"a":{"b":1},"a ":1}`:      true,
		`{"a":{"b":1,"c":1}}`:       true,
		`{"a":{"b":1,"b\u0000":1}}`: true,
	} {
		o := object(t, doc)
		inner := o.Object("a")
		inner.Int("b")
		inner.Done()
		if o.Done(); o.Unknown() != want || o.Err() != nil {
			t.Errorf("%s: %v, %v", doc, o.Unknown(), o.Err())
		}
	}
}

func TestObjectErrors(t *testing.T) {
	read := map[string]func(*Object, string){
		"string":   func(o *Object, name string) { o.String(name) },
		"int":      func(o *Object, name string) { o.Int(name) },
		"bool":     func(o *Object, name string) { o.Bool(name) },
		"time":     func(o *Object, name string) { o.Time(name) },
		"duration": func(o *Object, name string) { o.Duration(name) },
		"bytes":    func(o *Object, name string) { o.Bytes(name) },
		"strings":  func(o *Object, name string) { o.Strings(name) },
		"object":   func(o *Object, name string) { o.Object(name).String("inner") },
		"objects": func(o *Object, name string) {
			for _, element := range o.Objects(name) {
				element.String("inner")
			}
		},
	}
	for _, c := range []struct {
		kind, text, want string
	}{
		{"string", `1`, "m: it is not a string"},
		{"string", `null`, "m: it is not a string"},
		{"int", `"1"`, "m: it is not a number"},
		{"int", `null`, "m: it is not a number"},
		{"bool", `1`, "m: it is not true or false"},
		{"bool", `"true"`, "m: it is not true or false"},
		{"time", `1`, "m: it is not a string"},
		{"time", `""`, "m: it is not a time"},
		{"time", `"2026-12-02T03:00:00Z"`, "m: it is not a time"},
		{"time", `"2026-12-02T03:00:00.00Z"`, "m: it is not a time"},
		{"time", `"2026-12-02T03:00:00.0000Z"`, "m: it is not a time"},
		{"time", `"2026-12-02T03:00:00,000Z"`, "m: it is not a time"},
		{"time", `"2026-12-02T03:00:00.000z"`, "m: it is not a time"},
		{"time", `"2026-12-02t03:00:00.000Z"`, "m: it is not a time"},
		{"time", `"2026-12-02 03:00:00.000Z"`, "m: it is not a time"},
		{"time", `"2026-12-02T03:00:00.000+00:00"`, "m: it is not a time"},
		{"time", `"2026-12-02T04:00:00.000+01:00"`, "m: it is not a time"},
		{"time", `"2026-12-02T03:00:00.000Z "`, "m: it is not a time"},
		{"time", `"2026-02-29T03:00:00.000Z"`, "m: it is not a time"},
		{"time", `"2026-12-02T24:00:00.000Z"`, "m: it is not a time"},
		{"time", `"2026-12-31T23:59:60.000Z"`, "m: it is not a time"},
		{"time", `"2026-12-2T03:00:00.000Z"`, "m: it is not a time"},
		{"time", `"0001-01-01T00:00:00.000Z"`, "m: it is not a time since 1970"},
		{"time", `"1969-12-31T23:59:59.999Z"`, "m: it is not a time since 1970"},
		{"time", `"12026-12-02T03:00:00.000Z"`, "m: it is not a time"},
		{"duration", `10`, "m: it is not a string"},
		{"duration", `""`, "m: it is not a duration"},
		{"duration", `"10m"`, "m: it is not a duration"},
		{"duration", `"600s"`, "m: it is not a duration"},
		{"duration", `"0"`, "m: it is not a duration"},
		{"duration", `"+1s"`, "m: it is not a duration"},
		{"duration", `"-1s"`, "m: it is not a duration"},
		{"duration", `"1.0s"`, "m: it is not a duration"},
		{"duration", `"01s"`, "m: it is not a duration"},
		{"duration", `"1s "`, "m: it is not a duration"},
		{"duration", `"1000us"`, "m: it is not a duration"},
		{"duration", `"1us"`, "m: it is not a duration"}, // Go writes µs
		{"duration", `"2562048h0m0s"`, "m: it is not a duration"},
		{"bytes", `[0]`, "m: it is not a string"},
		{"bytes", `"AA"`, "m: it is not canonical base64"},
		{"bytes", `"AA="`, "m: it is not canonical base64"},
		{"bytes", `"AB=="`, "m: it is not canonical base64"}, // bits beyond the last byte
		{"bytes", `"AA==\n"`, "m: it is not canonical base64"},
		{"bytes", `"AA\r=="`, "m: it is not canonical base64"},
		{"bytes", `" AA=="`, "m: it is not canonical base64"},
		{"bytes", `"_-8="`, "m: it is not canonical base64"},
		{"bytes", `"AA==AA=="`, "m: it is not canonical base64"},
		{"bytes", `"===="`, "m: it is not canonical base64"},
		{"strings", `"a"`, "m: it is not an array"},
		{"strings", `["a",1]`, "m[1]: it is not a string"},
		{"object", `[]`, "m: it is not an object"},
		{"object", `{}`, "m.inner: it is missing"},
		{"object", `{"Inner":""}`, "m.inner: it is missing"},
		{"objects", `{}`, "m: it is not an array"},
		{"objects", `[{"inner":""},1]`, "m[1]: it is not an object"},
		{"objects", `[{"inner":""},{"inner":1}]`, "m[1].inner: it is not a string"},
	} {
		for _, name := range []string{"m", "m?"} {
			o := object(t, `{"m":`+c.text+`}`)
			if read[c.kind](o, name); o.Err() == nil || !strings.HasPrefix(o.Err().Error(), c.want) {
				t.Errorf("%s %s: %v", c.kind, c.text, o.Err())
			}
		}
	}
	for kind, read := range read {
		o := object(t, `{"M":1}`)
		if read(o, "m"); o.Err() == nil || o.Err().Error() != "m: it is missing" {
			t.Errorf("%s: %v", kind, o.Err())
		}
	}
	for _, doc := range []string{`[]`, `null`, `"x"`, `1`} {
		if o := object(t, doc); o.Err() == nil {
			t.Errorf("%s: %v", doc, o.Err())
		}
	}
	// The first error stays.
	o := object(t, `{"a":1}`)
	o.Fail("a", "x")
	o.String("b")
	if o.Err().Error() != "a: x" {
		t.Error(o.Err())
	}
}

// An array that does not end well costs no more than what was right in it.
func TestObjectsStopAtAnError(t *testing.T) {
	o := object(t, `{"m":[{"n":1},{"n":"x"},{"n":1},{"n":1}]}`)
	seen := 0
	for _, element := range o.Objects("m") {
		element.Int("n")
		seen++
	}
	if seen != 2 || o.Err() == nil {
		t.Errorf("%d elements, %v", seen, o.Err())
	}
}

func TestFormatTimeRoundsUp(t *testing.T) {
	base := time.Date(2026, 12, 31, 23, 59, 59, 999e6, time.UTC)
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{base, "2026-12-31T23:59:59.999Z"},
		{base.Add(1), "2027-01-01T00:00:00.000Z"},
		{base.Add(-1), "2026-12-31T23:59:59.999Z"},
		{base.Add(-time.Millisecond), "2026-12-31T23:59:59.998Z"},
		{base.In(time.FixedZone("", 3600)), "2026-12-31T23:59:59.999Z"},
		{time.Unix(0, 1).Add(-time.Second), "1969-12-31T23:59:59.001Z"},
	} {
		if got := FormatTime(c.at); got != c.want {
			t.Errorf("%v: %s", c.at, got)
		}
		if up := CeilTime(c.at); up.Before(c.at) || up.Sub(c.at) >= time.Millisecond || up.Location() != time.UTC {
			t.Errorf("%v: %v", c.at, up)
		}
	}
	// No reading of a monotonic clock is left to be compared with.
	if s := CeilTime(time.Now()).String(); strings.Contains(s, "m=") {
		t.Error(s)
	}
}

// What is not a Value is a fault of the program.
func TestAppendPanicsOnOtherTypes(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a float is written")
		}
	}()
	Append(nil, math.Pi)
}
