package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// longestAttempt is how long a registry is waited for that does not answer. It is a matter
// of networks, and not of how often reports are wished for.
const longestAttempt = 30 * time.Second

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

	once     sync.Once
	turn     chan struct{} // full while a report is made and published, so that none overtakes another
	failing  bool          // in turn
	stopped  bool          // in turn
	accepted atomic.Pointer[time.Time]
}

// Publish makes a report, gives it to the registry and waits until that has accepted
// it. After [Publisher.Stop] it is an error.
func (p *Publisher) Publish(ctx context.Context) error {
	if err := p.take(ctx); err != nil {
		return err
	}
	defer p.give()
	if p.stopped {
		return errors.New("fleet: the last report has been published")
	}
	err := p.publish(ctx, false)
	// The end of Run is no failure.
	if failing := err != nil; failing != p.failing && !errors.Is(ctx.Err(), context.Canceled) {
		p.failing = failing
		p.log(ctx, err)
	}
	return err
}

// Run publishes a report at once and at every interval, or sooner after one that was
// not accepted. Each attempt is given one interval, and half a minute at most. It returns
// when ctx ends, and panics if Every is not positive.
func (p *Publisher) Run(ctx context.Context) {
	if p.Every <= 0 {
		panic("fleet: Publisher.Every is not positive")
	}
	retry := p.Every / 16
	for {
		attempt, cancel := context.WithTimeout(ctx, min(p.Every, longestAttempt))
		err := p.Publish(attempt)
		cancel()
		delay := p.Every
		if err == nil {
			retry = p.Every / 16
		} else {
			delay = retry
			retry = min(2*retry, p.Every)
		}
		// A fleet that was started at once does not stay in step, and none is late.
		timer := time.NewTimer(delay - rand.N(delay/8+1)) //nolint:gosec // G404: nothing depends on it being hard to guess
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// Stop publishes the last report, marked stopped, and nothing is published after it,
// whether it is accepted or not. End Run first.
func (p *Publisher) Stop(ctx context.Context) error {
	if err := p.take(ctx); err != nil {
		return err
	}
	defer p.give()
	if p.stopped {
		return nil
	}
	p.stopped = true
	return p.publish(ctx, true)
}

// Accepted returns when the last report that the registry has accepted was made, so that
// its age is never underestimated. Zero: none yet. It does not wait for one that is on
// its way.
func (p *Publisher) Accepted() time.Time {
	if t := p.accepted.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

// take waits until no other report is on its way, a mutex that a context can end.
func (p *Publisher) take(ctx context.Context) error {
	p.once.Do(func() { p.turn = make(chan struct{}, 1) })
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for another report of this instance: %w", ctx.Err())
	}
}

func (p *Publisher) give() { <-p.turn }

func (p *Publisher) publish(ctx context.Context, stopped bool) error {
	now := time.Now
	if p.Now != nil {
		now = p.Now
	}
	made := plain(now())
	signed, keep, err := p.Report(stopped)
	if err != nil {
		return fmt.Errorf("making the report of this instance: %w", err)
	}
	if err := p.Registry.Publish(ctx, p.ID, signed, keep); err != nil {
		return fmt.Errorf("publishing the report of this instance to %s: %w", p.Registry, err)
	}
	p.accepted.Store(&made)
	return nil
}

func (p *Publisher) log(ctx context.Context, err error) {
	logger := p.Logger
	if logger == nil {
		logger = slog.Default()
	}
	if err != nil {
		logger.WarnContext(ctx, "the fleet's registry does not accept the reports of this instance", slog.Any("error", err))
	} else {
		logger.InfoContext(ctx, "the fleet's registry accepts the reports of this instance")
	}
}
