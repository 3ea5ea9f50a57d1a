package cli

import (
	"context"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A progress shows how a long wait goes: a bar with the time left on a terminal, and a
// line per change elsewhere.
type progress struct {
	app  *app
	last string
	bar  *progressbar.ProgressBar
	from time.Time
	to   time.Time
}

// say tells of a change, once.
func (p *progress) say(line string) {
	if line == p.last {
		return
	}
	p.last = line
	p.clear()
	p.app.note("%s %s", p.app.Now().UTC().Format("15:04:05Z"), line)
}

// wait waits for pause, or until ctx ends; until is when what is waited for can be there
// at the earliest, or zero.
func (p *progress) wait(ctx context.Context, pause time.Duration, until time.Time) error {
	end := time.NewTimer(pause)
	defer end.Stop()
	const frame = 200 * time.Millisecond
	tick := time.NewTicker(frame)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			p.clear()
			return context.Cause(ctx)
		case <-end.C:
			return nil
		case <-tick.C:
			p.draw(until)
		}
	}
}

// draw draws the bar for a wait until a time.
func (p *progress) draw(until time.Time) {
	if p.app.flags.quiet || !isTerminal(p.app.Stderr) || until.IsZero() {
		return
	}
	now := p.app.Now()
	if !until.Equal(p.to) {
		p.clear()
		p.from, p.to = now, until
	}
	total := p.to.Sub(p.from)
	if total <= 0 {
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(int64(total), progressbar.OptionSetWriter(p.app.Stderr), progressbar.OptionSetWidth(30),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionClearOnFinish())
	}
	left := max(0, p.to.Sub(now))
	p.bar.Describe("  " + shortDuration(left) + " left ")
	_ = p.bar.Set64(int64(min(total-1, total-left))) // a bar that cannot be drawn has nowhere to say so
}

func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear() // likewise
		p.bar = nil
	}
	p.to = time.Time{}
}
