package rotation_test

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/echoseal/echoseal/rotation"
)

// The first and the last second that RFC 3339 can write.
var (
	firstSecond = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	lastSecond  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// written checks that RFC 3339 can write a time, rounded up, as it is shown.
func written(t *testing.T, at time.Time) {
	t.Helper()
	if up := at.Add(time.Second - 1).UTC(); at.Before(firstSecond) || up.Year() > 9999 {
		t.Errorf("%v cannot be written", at)
	}
}

// moved returns a copy of a value with each time in it moved by some seconds, but for zero
// ones, which mean that there is none; and whether all of them can be written, before and
// after.
func moved(v reflect.Value, by int64) (reflect.Value, bool) {
	out, ok := reflect.New(v.Type()).Elem(), true
	out.Set(v)
	visit := func(to, from reflect.Value) {
		m, fine := moved(from, by)
		to.Set(m)
		ok = ok && fine
	}
	switch v.Kind() {
	case reflect.Struct:
		if at, is := v.Interface().(time.Time); is {
			if at.IsZero() {
				return v, true
			}
			to := time.Unix(at.Unix()+by, int64(at.Nanosecond())).UTC()
			fine := func(t time.Time) bool { return !t.Before(firstSecond) && !t.After(lastSecond) }
			return reflect.ValueOf(to), fine(at) && fine(to)
		}
		for i := range v.NumField() {
			if out.Field(i).CanSet() {
				visit(out.Field(i), v.Field(i))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			visit(out.Elem(), v.Elem())
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				visit(out.Index(i), v.Index(i))
			}
		}
	}
	return out, ok
}

func (q question) moved(by int64) (question, bool) {
	var fine [4]bool
	var all [4]reflect.Value
	for i, part := range []any{q.d, q.o, q.now, q.request} {
		all[i], fine[i] = moved(reflect.ValueOf(part), by)
	}
	reflect.ValueOf(&q.d).Elem().Set(all[0])
	reflect.ValueOf(&q.o).Elem().Set(all[1])
	reflect.ValueOf(&q.now).Elem().Set(all[2])
	reflect.ValueOf(&q.request).Elem().Set(all[3])
	return q, fine == [4]bool{true, true, true, true}
}

// Whatever the clock shows, from the first second to the last one that can be written:
// every time that is told can be, what is decided is safe, and if all that happened is
// moved to another time with it, it is decided alike.
func TestAnyClock(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	d := dice{random}
	span := lastSecond.Unix() - firstSecond.Unix()
	kinds := make(map[rotation.Kind]int)
	for range 20000 {
		q := d.question()
		clock := pick(d, firstSecond, lastSecond, lastSecond.Add(-time.Minute), firstSecond.Add(time.Hour), time.Unix(firstSecond.Unix()+random.Int64N(span+1), random.Int64N(1e9)).UTC())
		to, fine := q.moved(clock.Unix() - q.now.Unix())
		if !fine { // then the clock alone is there
			to = q
			to.now, to.o.Began, to.o.Ended = clock, pick(d, clock, time.Time{}, q.o.Began), pick(d, clock, q.o.Ended)
		}
		step := to.next()
		for _, s := range []rotation.Step{step, rotation.Obeyed(to.d, to.o, to.now), rotation.Dropped(to.d, to.o, to.now, "a"), {Reasons: rotation.Faults(to.d, to.o, to.now)}} {
			tells(t, s, to.reading())
		}
		for _, p := range rotation.Phases(to.d, to.now, step) {
			written(t, p.At)
		}
		to.check(t, step)
		// Times that are not there stay in the year 1, so what is moved there is another question.
		if fine && clock.After(q.now) {
			was := q.next()
			if step.Kind != was.Kind || step.Goal != was.Goal || step.KID != was.KID || len(step.Reasons) != len(was.Reasons) {
				t.Errorf("%+v\nand at another time %+v", was, step)
			}
			kinds[step.Kind]++
		}
		if t.Failed() {
			t.Fatalf("%+v\nto %+v", step, to)
		}
	}
	for _, kind := range []rotation.Kind{rotation.Promote, rotation.Drain, rotation.Retire, rotation.Wait, rotation.Blocked} {
		if kinds[kind] < 20 {
			t.Errorf("%s: %d times", kind, kinds[kind])
		}
	}
	t.Log(kinds)
}
