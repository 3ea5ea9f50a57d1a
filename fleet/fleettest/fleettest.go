// Package fleettest checks that a registry does what [fleet.Registry] asks for.
//
//	func TestRegistry(t *testing.T) {
//		fleettest.TestRegistry(t, func(t *testing.T, place string) fleet.Registry {
//			return open(t, "/tests/"+place)
//		})
//	}
package fleettest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/echoseal/echoseal/fleet"
)

// TestRegistry checks a registry. open returns a handle to the registry that is named
// place, which is empty when its name is first used and is given to open again for a
// second handle to the same one; what has to be ended is ended in a cleanup. place is at
// most 32 lower-case letters.
//
// It takes a few seconds, since a registry that drops reports by itself is waited for.
func TestRegistry(t *testing.T, open func(t *testing.T, place string) fleet.Registry) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, mine, other fleet.Registry)
	}{
		{"empty", empty},
		{"published", published},
		{"renewed", renewed},
		{"forgotten", forgotten},
		{"many", many},
		{"large", large},
		{"lapsed", lapsed},
		{"ended", ended},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, open(t, test.name), open(t, test.name))
		})
	}
}

// An empty registry is not a failed one.
func empty(t *testing.T, mine, _ fleet.Registry) {
	holds(t, mine, nil)
	if mine.String() == "" {
		t.Error("String names no place")
	}
}

func published(t *testing.T, mine, other fleet.Registry) {
	publish(t, mine, id(1), "one", time.Hour)
	holds(t, other, map[string]string{id(1): "one"})
	publish(t, other, id(2), "two", 0)
	holds(t, mine, map[string]string{id(1): "one", id(2): "two"})
}

func renewed(t *testing.T, mine, other fleet.Registry) {
	for i := range 5 {
		publish(t, mine, id(1), fmt.Sprint("report ", i), time.Duration(i)*time.Hour)
		holds(t, other, map[string]string{id(1): fmt.Sprint("report ", i)})
	}
	// By a process that has lost its connection, say.
	publish(t, other, id(1), "by another handle", time.Hour)
	holds(t, mine, map[string]string{id(1): "by another handle"})
	publish(t, mine, id(1), "and back", time.Hour)
	holds(t, other, map[string]string{id(1): "and back"})
}

func forgotten(t *testing.T, mine, other fleet.Registry) {
	publish(t, mine, id(1), "one", time.Hour)
	publish(t, mine, id(2), "two", 0)
	publish(t, mine, id(3), "three", time.Hour)
	for _, n := range []int{1, 2} {
		for range 2 { // there need not be one
			if err := other.Forget(within(t), id(n)); err != nil {
				t.Errorf("Forget: %v", err)
			}
		}
	}
	holds(t, mine, map[string]string{id(3): "three"})
	// One that was forgotten too early comes back.
	publish(t, mine, id(1), "again", time.Hour)
	holds(t, other, map[string]string{id(1): "again", id(3): "three"})
}

func many(t *testing.T, mine, other fleet.Registry) {
	const instances = 100
	want := make(map[string]string)
	var wait sync.WaitGroup
	for i := range instances {
		text := fmt.Sprint("report ", i)
		want[id(i)] = text
		wait.Go(func() {
			if err := mine.Publish(within(t), id(i), []byte(text), time.Hour); err != nil {
				t.Errorf("Publish: %v", err)
			}
		})
		if i%10 == 9 {
			wait.Wait()
		}
	}
	holds(t, other, want)
}

func large(t *testing.T, mine, other fleet.Registry) {
	text := string(bytes.Repeat([]byte{'x'}, fleet.MaxBytes))
	publish(t, mine, id(1), text, time.Hour)
	holds(t, other, map[string]string{id(1): text})
}

// A report is dropped when its time is over, not earlier, and only by the last word on
// how long that is.
func lapsed(t *testing.T, mine, other fleet.Registry) {
	const keep = 2 * time.Second
	publish(t, mine, id(2), "for ever in the end", keep)
	publish(t, mine, id(3), "longer in the end", keep)
	publish(t, mine, id(4), "for ever", 0)
	publish(t, mine, id(2), "for ever in the end", 0)
	publish(t, mine, id(3), "longer in the end", time.Hour)
	began := time.Now()
	publish(t, mine, id(1), "short", keep)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		answers, err := other.Collect(ctx)
		if err != nil {
			t.Fatalf("Collect: %v", err)
		}
		took := time.Since(began)
		if find(answers, id(1)) == nil {
			if took < keep {
				t.Errorf("a report to be kept for %v is gone after %v", keep, took)
			}
			break
		}
		time.Sleep(keep / 20)
	}
	holds(t, other, map[string]string{id(2): "for ever in the end", id(3): "longer in the end", id(4): "for ever"})
	publish(t, mine, id(1), "back", time.Hour)
	holds(t, other, map[string]string{
		id(1): "back", id(2): "for ever in the end", id(3): "longer in the end", id(4): "for ever",
	})
}

// A registry that was not read is not an empty one.
func ended(t *testing.T, mine, _ fleet.Registry) {
	publish(t, mine, id(1), "one", time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if answers, err := mine.Collect(ctx); err == nil && len(answers) == 0 {
		t.Error("Collect whose context has ended tells of no instance, and of no error")
	}
	if err := mine.Publish(ctx, id(2), []byte("two"), time.Hour); err == nil {
		holds(t, mine, map[string]string{id(1): "one", id(2): "two"})
	}
}

// holds checks that the registry holds the reports in want, by id, and no others.
func holds(t *testing.T, r fleet.Registry, want map[string]string) {
	t.Helper()
	answers, err := r.Collect(within(t))
	if err != nil {
		t.Errorf("Collect: %v", err)
		return
	}
	if len(answers) != len(want) {
		t.Errorf("Collect gives %d answers, want %d", len(answers), len(want))
	}
	for id, text := range want {
		switch a := find(answers, id); {
		case a == nil:
			t.Errorf("Collect does not give the report of %s", id)
		case a.Err != nil:
			t.Errorf("the answer for %s: %v", id, a.Err)
		case !a.Registered:
			t.Errorf("the answer for %s does not say that it was read from a registry", id)
		case string(a.Signed) != text:
			t.Errorf("the report of %s is %.40q, want %.40q", id, a.Signed, text)
		}
	}
}

func find(answers []fleet.Answer, id string) *fleet.Answer {
	for i := range answers {
		if answers[i].Address == id {
			return &answers[i]
		}
	}
	return nil
}

func publish(t *testing.T, r fleet.Registry, id, text string, keep time.Duration) {
	t.Helper()
	if err := r.Publish(within(t), id, []byte(text), keep); err != nil {
		t.Fatalf("Publish: %v", err)
	}
}

func id(n int) string { return fmt.Sprintf("%032x", n) }

// within bounds one call, so that a registry that hangs fails its test.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
