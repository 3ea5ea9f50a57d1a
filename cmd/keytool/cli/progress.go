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
	from     time.Time
	to       time.Time
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

// draw draws the bar for a wait until a time.
func (p *progress) draw(until time.Time) {
	now := p.app.Now()
	if !until.Equal(p.to) {
		p.clear()
		p.from, p.to = now, until
	}
	total := max(1, p.to.Sub(p.from))
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(int64(total), progressbar.OptionSetWriter(p.app.Stderr), progressbar.OptionSetWidth(30),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionClearOnFinish())
	}
	p.bar.Describe("  " + left(p.to, now) + " left ")
	// A bar that cannot be drawn has nowhere to say so. It is never full, which would
	// end it.
	_ = p.bar.Set64(int64(min(total-1, max(0, now.Sub(p.from)))))
}

// clear takes the bar off the terminal. The next one goes on where it was, if it is for
// the same time.
func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear() // likewise
		p.bar = nil
	}
}
