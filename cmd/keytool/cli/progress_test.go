package cli

import (
	"bytes"
	"errors"
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
