// Package memfleet is a registry of reports in memory, for tests of this module.
package memfleet

import (
	"context"
	"sync"
	"time"

	"github.com/echoseal/echoseal/fleet"
)

// A Registry is a [fleet.Registry]. The zero value is ready for use.
type Registry struct {
	// Now is the clock; nil means time.Now. Set it before use.
	Now func() time.Time

	mu      sync.Mutex
	entries map[string]entry
	err     error
}

type entry struct {
	signed []byte
	ends   time.Time // zero: never
}

var _ fleet.Registry = (*Registry)(nil)

// Fail makes every call fail with err from now on, until it is nil.
func (r *Registry) Fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// String returns a URI that names no place.
func (r *Registry) String() string { return "memfleet://" }

// Collect returns the reports that are held.
func (r *Registry) Collect(ctx context.Context) ([]fleet.Answer, error) {
	var answers []fleet.Answer
	err := r.do(ctx, func() {
		for id, e := range r.entries {
			answers = append(answers, fleet.Answer{Address: id, Registered: true, Signed: e.signed})
		}
	})
	return answers, err
}

// Publish holds a report.
func (r *Registry) Publish(ctx context.Context, id string, signed []byte, keep time.Duration) error {
	return r.do(ctx, func() {
		e := entry{signed: append([]byte(nil), signed...)}
		if keep > 0 {
			e.ends = r.now().Add(keep)
		}
		r.entries[id] = e
	})
}

// Forget drops a report.
func (r *Registry) Forget(ctx context.Context, id string) error {
	return r.do(ctx, func() { delete(r.entries, id) })
}

func (r *Registry) do(ctx context.Context, f func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	if r.entries == nil {
		r.entries = make(map[string]entry)
	}
	for id, e := range r.entries {
		if !e.ends.IsZero() && !r.now().Before(e.ends) {
			delete(r.entries, id)
		}
	}
	f()
	return nil
}

func (r *Registry) now() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}
