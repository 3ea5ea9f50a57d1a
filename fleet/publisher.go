package fleet

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A Publisher pushes the reports of one instance to a registry. Set its fields, then use
// its methods; they are safe for concurrent use. It starts no goroutine.
//
// An instance that is seen through a registry may count on its keys only while the
// registry counts on it: it registers ([Publisher.Publish]) before it reads the keyset
// that makes it ready, and is not ready, and does not seal, when the time since
// [Publisher.Accepted] reaches max_stale.
type Publisher struct {
	Registry Registry

	// ID is the instance's, as in its reports.
	ID string

	// Every is the interval of its reports. Positive.
	Every time.Duration

	// Report makes a signed report of the instance as it is now, the last one if
	// stopped is set, and says how long the registry keeps it, see [Keep]. It is never
	// called twice at once.
	Report func(stopped bool) (signed []byte, keep time.Duration, err error)

	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// Logger is told when publishing begins to fail, and when it works again; nil means
	// slog.Default().
	Logger *slog.Logger

	mu       sync.Mutex // held while a report is made and published, so that none overtakes another
	accepted time.Time
}

// Publish makes a report, gives it to the registry and waits until that has accepted
// it. After [Publisher.Stop] it does nothing.
func (p *Publisher) Publish(ctx context.Context) error { panic("TODO") }

// Run publishes a report at every interval, and sooner again after one that was not
// accepted. It returns when ctx ends. Each attempt is given one interval.
func (p *Publisher) Run(ctx context.Context) { panic("TODO") }

// Stop publishes the last report, marked stopped, and nothing after it. End Run first.
func (p *Publisher) Stop(ctx context.Context) error { panic("TODO") }

// Accepted returns when the last report that the registry has accepted was made. Zero:
// none yet.
func (p *Publisher) Accepted() time.Time { panic("TODO") }
