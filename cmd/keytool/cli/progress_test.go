package cli

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// A wait that goes on names a culprit once, on a line of its own, and again only when
// there is something new to say of it.
func TestProgressNamesACulpritOnce(t *testing.T) {
	var out bytes.Buffer
	a := &app{System: System{Stderr: &out, Now: func() time.Time { return time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC) }}}
	p := a.newProgress()
	turns := []turn{
		{line: "2/3 verifying: 1 of 3; BLOCKED", culprits: []string{"  mcp-b: down", "  mcp-c: denied\n    fix  grant it"}},
		{line: "2/3 verifying: 1 of 3; BLOCKED", culprits: []string{"  mcp-b: down", "  mcp-c: denied\n    fix  grant it"}},
		{line: "2/3 verifying: 2 of 3; BLOCKED", culprits: []string{"  mcp-c: denied\n    fix  grant it"}},
		{line: "2/3 verifying: 2 of 3; BLOCKED", culprits: []string{"  mcp-c: throttled"}},
	}
	for _, turn := range turns {
		p.say(turn.line, turn.line, turn.culprits...)
	}
	const want = `03:00:00Z 2/3 verifying: 1 of 3; BLOCKED
  mcp-b: down
  mcp-c: denied
    fix  grant it
03:00:00Z 2/3 verifying: 2 of 3; BLOCKED
03:00:00Z 2/3 verifying: 2 of 3; BLOCKED
  mcp-c: throttled
`
	if got := out.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// A store that fails now and then has what was told before told again neither then nor
// when it is back, but for the one line that says how things are.
func TestProgressGoesOnAfterTrouble(t *testing.T) {
	var out bytes.Buffer
	a := &app{System: System{Stderr: &out, Now: func() time.Time { return time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC) }}}
	p := a.newProgress()
	down, hangs := errors.New("the store is down"), errors.New("no answer within 30s")
	blocked := func() { p.say("1 of 2", "2/3 verifying: 1 of 2; BLOCKED", "  mcp-b: down", "  mcp-c: denied") }
	blocked()
	for range 3 {
		p.fail(down)
		blocked()
	}
	p.fail(hangs)
	p.fail(hangs)
	blocked()
	p.say("2 of 2", "2/3 verifying: 2 of 2", "  mcp-c: denied")
	p.fail(hangs)
	const want = `03:00:00Z 2/3 verifying: 1 of 2; BLOCKED
  mcp-b: down
  mcp-c: denied
03:00:00Z trying again: the store is down
03:00:00Z 2/3 verifying: 1 of 2; BLOCKED
03:00:00Z trying again: no answer within 30s
03:00:00Z 2/3 verifying: 1 of 2; BLOCKED
03:00:00Z 2/3 verifying: 2 of 2
03:00:00Z trying again: no answer within 30s
`
	if got := out.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

var percentDrawn = regexp.MustCompile(`([0-9]+)% \|`)

// percentages returns what each frame of the bar showed.
func percentages(t *testing.T, out *bytes.Buffer) (shown []int) {
	t.Helper()
	for _, frame := range percentDrawn.FindAllSubmatch(out.Bytes(), -1) {
		n, err := strconv.Atoi(string(frame[1]))
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, n)
	}
	out.Reset()
	return shown
}

// The end of a wait moves a little with each report that is read. The bar does not go back
// for that, nor is it drawn empty at each look; it begins anew for what comes after a step,
// and for an end that is far later.
func TestBarDoesNotGoBack(t *testing.T) {
	var out bytes.Buffer
	now := time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC)
	a := &app{System: System{Stderr: &out, Now: func() time.Time { return now }}}
	p := a.newProgress()
	const looks = 9
	moves := []time.Duration{0, 300 * time.Millisecond, -200 * time.Millisecond, 600 * time.Millisecond, -300 * time.Millisecond, 450 * time.Millisecond}
	phase := func(end time.Time) (shown []int) {
		for look := range looks {
			for range 5 {
				p.draw(end.Add(moves[look%len(moves)]))
				now = now.Add(frame)
			}
			p.clear() // as each wait ends
		}
		return percentages(t, &out)
	}
	for _, name := range []string{"the first phase", "the next phase"} {
		shown := phase(now.Add(looks * time.Second))
		if len(shown) < 5*looks || !slices.IsSorted(shown) || shown[0] != 0 || shown[len(shown)-1] < 90 {
			t.Errorf("%s: %v", name, shown)
		}
		p.step()
	}
	p.draw(now.Add(10 * time.Second))
	now = now.Add(5 * time.Second)
	p.draw(now.Add(5 * time.Second))
	p.draw(now.Add(time.Minute))
	if shown := slices.Compact(percentages(t, &out)); !slices.Equal(shown, []int{0, 50, 0}) {
		t.Errorf("an end that is far later: %v", shown)
	}
}
