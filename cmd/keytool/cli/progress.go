package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A progress shows how a long wait goes: a line for each change and, on a terminal, a
// bar with the time left.
type progress struct {
	app      *app
	said     string   // what the last line was about
	state    string   // what the last turn was about that could look
	trouble  string   // what has kept a turn from looking since then
	culprits []string // that the last turn had that could look
	bar      *progressbar.ProgressBar
	done     float64 // the share of the bar that was full at from
	from     time.Time
	to       time.Time
	length   time.Duration // what the bar was begun for
}

func (a *app) newProgress() *progress { return &progress{app: a} }

// say tells of a change, once: about is the same as long as there is nothing new, and of
// the culprits below a line only those are told that the turn before did not have. An
// empty line is none.
func (p *progress) say(about, line string, culprits ...string) {
	var fresh []string
	for _, c := range culprits {
		if !slices.Contains(p.culprits, c) {
			fresh = append(fresh, c)
		}
	}
	p.culprits = culprits
	if about != p.state {
		p.state, p.trouble = about, ""
	}
	if line == "" || about == p.said && len(fresh) == 0 {
		return
	}
	p.print(about, line)
	for _, c := range fresh {
		for l := range strings.SplitSeq(c, "\n") {
			p.app.note("%s", l)
		}
	}
}

// fail tells why a turn could not look, once as long as nothing else changes: not again
// each time that it comes back. When it has passed, the next turn's line says so, and
// nothing of what was told before it.
func (p *progress) fail(err error) {
	if about := err.Error(); about != p.trouble {
		p.trouble = about
		p.print(about, "trying again: "+about)
	}
}

func (p *progress) print(about, line string) {
	p.said = about
	p.clear()
	// Rounded up, as what is not before a time: the line of that time is not before it.
	p.app.note("%s %s", ceil(p.app.Now()).Format("15:04:05Z"), line)
}

// frame is how often the bar is drawn.
const frame = 200 * time.Millisecond

// wait waits for a pause, or until ctx ends; until is when what is waited for can be
// there at the earliest, or zero.
func (p *progress) wait(ctx context.Context, pause time.Duration, until time.Time) error {
	defer p.clear()
	if until.IsZero() || p.app.flags.quiet || !isTerminal(p.app.Stderr) {
		return p.app.Sleep(ctx, pause)
	}
	for end := p.app.Now().Add(pause); ; {
		p.draw(until)
		pause := min(frame, end.Sub(p.app.Now()))
		if pause <= 0 {
			return nil
		}
		if err := p.app.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// full is how many parts the bar has.
const full = 1000

// draw draws the bar for a wait until a time.
func (p *progress) draw(until time.Time) {
	now := p.app.Now()
	p.aim(until, now)
	description := "  " + left(p.to, now) + " left "
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(full, progressbar.OptionSetWriter(p.app.Stderr), progressbar.OptionSetWidth(30), progressbar.OptionSetDescription(description),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionClearOnFinish())
	}
	// A bar that cannot be drawn has nowhere to say so. It is never full, which would
	// end it. It is set first: to describe it draws it, and a new one would be empty.
	_ = p.bar.Set64(min(full-1, int64(full*p.share(now))))
	p.bar.Describe(description)
}

// aim has the bar end at a time. A report is of a moment before it is read, and so the end
// of a wait moves a little with each look: the bar goes on from where it is, only faster or
// slower. It begins anew where it would else be nearly full for long.
func (p *progress) aim(until, now time.Time) {
	switch later := until.Sub(p.to); {
	case p.to.IsZero() || later > max(time.Second, p.length/10):
		p.done, p.length = 0, until.Sub(now)
	case later == 0:
		return
	default:
		p.done = p.share(now)
	}
	p.from, p.to = now, until
}

// share returns how much of the bar is full.
func (p *progress) share(now time.Time) float64 {
	passed := float64(now.Sub(p.from)) / float64(max(1, p.to.Sub(p.from)))
	return p.done + (1-p.done)*min(1, max(0, passed))
}

// step notes that something was changed: what is waited for next has a bar of its own.
func (p *progress) step() { p.to = time.Time{} }

// clear takes the bar off the terminal. The next one goes on where it was.
func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear() // likewise
		p.bar = nil
	}
}
