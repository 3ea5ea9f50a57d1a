package cli

import "github.com/echoseal/echoseal/keyset"

// A madeChange is a change as histories tell it: the nth of those that look like it. Two may,
// where the clock is behind: each has the time of the one before it then.
type madeChange struct {
	event keyset.Event
	nth   int
}

// lastChange returns the change that has made a document what it is.
func lastChange(d *keyset.Document) madeChange { return changeAt(d.History, len(d.History)-1) }

func changeAt(history []keyset.Event, i int) madeChange {
	return madeChange{history[i], timesIn(history[:i+1], history[i])}
}

// in reports whether the history of a document has the change.
func (c madeChange) in(d *keyset.Document) bool { return timesIn(d.History, c.event) >= c.nth }

func timesIn(history []keyset.Event, event keyset.Event) (n int) {
	for _, e := range history {
		at := e.At
		if e.At = event.At; at.Equal(event.At) && e == event {
			n++
		}
	}
	return n
}
