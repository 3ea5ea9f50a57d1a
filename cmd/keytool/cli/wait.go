package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

// A turn is one look at the keyset and the fleet, and what came of it.
type turn struct {
	about, line string    // for the log of a long wait, see progress.say
	culprits    []string  // what stands in the way, for the lines below that
	finished    bool      // nothing is left to wait for
	again       bool      // something was changed: look again at once
	hopeless    bool      // nothing can change while this process runs
	until       time.Time // when time alone can change something; zero: not known
	pause       time.Duration
	code        Exit // what to end with if the time is up: pending or blocked
}

// wait takes turns until one is the last, or the time of --timeout is up. Once the first
// turn has been taken, an error that may pass does not end it.
func (a *app) wait(cmd *cobra.Command, take func(ctx context.Context) (turn, error)) error {
	ctx, p := cmd.Context(), a.newProgress()
	var deadline time.Time
	if cmd.Flags().Changed("timeout") {
		deadline = a.Now().Add(a.flags.timeout)
	}
	for n := 0; ; n++ {
		t, err := a.take(ctx, deadline, take)
		switch {
		case ctx.Err() != nil:
			return errors.New("nothing is half-done; run the command again to finish")
		case err != nil && (n == 0 || lasting(err)):
			return err
		case err != nil:
			t = turn{pause: retryPause, code: failed}
			p.fail(err)
		default:
			p.say(t.about, t.line, t.culprits...)
		}
		switch {
		case t.finished:
			return nil
		case t.hopeless:
			return exit(t.code)
		case t.again:
			p.step()
			continue
		}
		pause := t.pause
		if left := deadline.Sub(a.Now()); !deadline.IsZero() && left <= pause {
			pause = max(0, left)
		}
		if pause > 0 {
			if err := p.wait(ctx, pause, t.until); err != nil {
				return errors.New("nothing is half-done; run the command again to finish")
			}
		}
		if !deadline.IsZero() && !a.Now().Before(deadline) {
			if err != nil {
				return fmt.Errorf("the %s of --timeout are over: %w", shortDuration(a.flags.timeout), err)
			}
			a.note("the %s of --timeout are over; run the command again to finish", shortDuration(a.flags.timeout))
			return exit(t.code)
		}
	}
}

// take bounds a turn: a store that hangs is as one that fails.
func (a *app) take(ctx context.Context, deadline time.Time, take func(ctx context.Context) (turn, error)) (turn, error) {
	within := defaultTimeout
	if !deadline.IsZero() {
		within = min(within, max(time.Second, deadline.Sub(a.Now())))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %s", shortDuration(within)))
	defer cancel()
	return take(ctx)
}

// maxCulprits is how many culprits a turn names, and one more rather than to say that one is
// left out; faults come first. keytool status has all.
const maxCulprits = 3

// tell adds to a headline what is waited for, and below it a line for each culprit.
func (t *turn) tell(j judge, step rotation.Step) {
	if step.Kind == rotation.Blocked {
		t.code = blocked
		t.line += "; BLOCKED"
	}
	var culprits []rotation.Reason
	for _, r := range j.pressing(step) {
		t.hopeless = t.hopeless || r.Code == rotation.NoSource
		if r.Code == rotation.Settling || r.Code == rotation.Expiring || r.Code == rotation.LiveTokens && r.Until.Before(step.NotBefore) {
			continue // the time at the end says it
		}
		culprits = append(culprits, r)
	}
	named, more := sparingly(culprits, maxCulprits)
	for _, r := range named {
		t.culprits = append(t.culprits, j.reason(r, step.Kind).culprit())
	}
	if more > 0 {
		t.culprits = append(t.culprits, fmt.Sprintf("  and %d more, see keytool status", more))
	}
	if !step.NotBefore.IsZero() {
		t.line += "; not before " + clock(step.NotBefore, j.now)
	}
	t.about = t.line
}

// culprit is what a turn tells of a reason.
func (r reason) culprit() string {
	text := "  " + r.change
	if r.Fix != "" {
		text += "\n    fix  " + r.Fix
	}
	return text
}

// sparingly returns the first ones, and how many it leaves out: none, or at least two, since
// what says that one is left out takes the room of that one.
func sparingly[T any](all []T, most int) (shown []T, more int) {
	if len(all) <= most+1 {
		return all, 0
	}
	return all[:most:most], len(all) - most
}

const (
	retryPause = 5 * time.Second
	leastPause = 200 * time.Millisecond
	mostPause  = 5 * time.Second
)

// pauseUntil returns how long to wait before the next look: until a time, but not so long
// that what happens meanwhile is told late.
func pauseUntil(until, now time.Time, p keyset.Policy) time.Duration {
	pause := min(mostPause, max(leastPause, p.Settle/8))
	if !until.IsZero() {
		pause = min(pause, until.Sub(now))
	}
	return max(leastPause, pause)
}

// lasting reports whether an error stays until somebody does something here: it ends a
// wait.
func lasting(err error) bool {
	var e *exitError
	if errors.As(err, &e) && e.code == usage || errors.Is(err, keyset.ErrConfig) || errors.Is(err, errOtherLineage) {
		return true
	}
	var k *keyset.KeyError
	if errors.As(err, &k) {
		return !k.Kind.Temporary()
	}
	var m *keyset.MoveError
	return errors.As(err, &m)
}
