package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

// A change has to be made in the newest document, and by a clock that is right: one in a
// document that servers have left behind, as after the store was restored from an old copy,
// forks the keyset, and a stamp from before the last change makes later waits too short.

// forceFlags are those of the commands that go on against nothing else than that.
func (a *app) forceFlags(cmd *cobra.Command) {
	a.yesFlag(cmd)
	cmd.Flags().BoolVar(&a.flags.force, "force", false, "go on though servers hold another revision that is as new or newer, or this clock is behind; needs --reason")
}

// reasoned sees that --force has a reason.
func (a *app) reasoned() error {
	if a.flags.force && a.flags.reason == "" {
		return usagef("--force needs --reason: it is outside of what keytool guarantees, and the history has to say why")
	}
	return nil
}

// onNewest opens the keyset for a change that do makes. If something is in the way of it,
// see [opened.inTheWay], c becomes the report of that; with --force it asks.
func (a *app) onNewest(cmd *cobra.Command, c *change, do func(ctx context.Context, o *opened) error) error {
	ctx, cancel := a.context(cmd)
	defer cancel()
	o, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	command := "keytool " + c.Action
	expect, err := o.inTheWay(ctx, cmd, command, a.flags.force, func(in outlook) {
		c.outlook = in
		o.unchanged(c)
	})
	if err != nil {
		return err
	}
	if len(expect) > 0 {
		var cancel context.CancelFunc
		if ctx, cancel, err = a.confirm(ctx, cmd, "Going on with "+command); err != nil {
			return err
		}
		defer cancel()
	}
	return do(ctx, o)
}

// inTheWay sees that servers have not left the document behind, and that the clock has not
// been left behind by the history. If they have, blocks gets what is in the way, before the
// error; --force goes over the clock, and if overServers over what servers hold, and then
// what to expect is said, and returned. command is what is typed, without its flags.
func (o *opened) inTheWay(ctx context.Context, cmd *cobra.Command, command string, overServers bool, blocks func(outlook)) (expect []string, err error) {
	culprits, err := o.overtaken(ctx)
	if err != nil {
		return nil, err
	}
	late := o.behindHistory() // of the document that was read last
	in := outlook{Verdict: verdictBlocked, Then: settled + strings.Join(append([]string{command}, changeFlagsGiven(cmd, "force", "yes")...), " ")}
	if late != "" && !o.app.flags.force {
		in.Summary, in.Reasons = behindSummary, []reason{o.clockBehind(late)}
	}
	if len(culprits) > 0 && !overServers {
		in.Summary, in.Reasons = "the store does not have the newest keyset, and what is written there now would fork it", append(in.Reasons, culprits...)
	}
	if len(in.Reasons) > 0 {
		blocks(in)
		return nil, exit(blocked)
	}
	expect = expected(late, culprits)
	o.app.expect(expect)
	if len(expect) > 0 {
		err = o.app.reasoned()
	}
	return expect, err
}

// settled comes before the command to type once nothing is in its way any more.
const settled = "settle that first; then: "

// overtaken asks the fleet, if there is one to ask, and returns who proves that the document
// is not the newest. Half of the time that is left is for it, and who does not answer
// says nothing.
func (o *opened) overtaken(ctx context.Context) ([]reason, error) {
	if len(o.sources) == 0 {
		return nil, nil
	}
	ctx, cancel := asking(ctx)
	defer cancel()
	at, obs, err := o.look(ctx)
	if err != nil {
		return nil, err
	}
	return judge{o.doc, &obs, o.app.Now()}.overtaken(at), nil
}

// overtaken returns who proves that the document is not the newest. At is before the fleet
// was asked.
func (j judge) overtaken(at time.Time) (all []reason) {
	for _, r := range rotation.Faults(j.doc, *j.obs, at) {
		if leftBehind(r.Code) {
			all = append(all, j.reason(r, rotation.Blocked))
		}
	}
	return all
}

// leftBehind reports whether a reason proves that the document is not the newest.
func leftBehind(c rotation.Code) bool { return c == rotation.NewerRevision || c == rotation.Fork }

// behindHistory says so if the clock shows a time from before the last change, by more than
// any two clocks may be apart; else it returns "".
func (o *opened) behindHistory() string {
	d, now := o.doc, o.app.Now()
	n := len(d.History)
	if n == 0 || !ahead(d.History[n-1].At, now, d.Policy) {
		return ""
	}
	last := d.History[n-1]
	return fmt.Sprintf("the clock of this host shows %s, and the last change, %s by %s, is dated %s", formatTime(now), last.Action, last.Actor, formatTime(last.At))
}

// behindSummary says what is wrong with a clock that is behind the history.
const behindSummary = "this clock is behind the last change, and what is counted by it would come too early"

// clockBehind is the reason that behindHistory gives. What goes on in spite of it changes
// nothing but the history, and overrides nothing that servers show.
func (o *opened) clockBehind(late string) reason {
	last := o.doc.History[len(o.doc.History)-1]
	return reason{
		Code: codeClockBehind, Text: late, label: "why", line: late, head: behindSummary,
		Fix:    "set this clock; or if it is right, set that of the host that made the change, and date the keyset anew: keytool policy --force --reason TEXT; that forces nothing about servers, and what counts from a key's time that is ahead still comes later than it could",
		change: fmt.Sprintf("the last change, %s by %s, is dated %s", last.Action, last.Actor, formatTime(last.At)),
	}
}

// stamp returns the note of a change that is made now. It is dated no earlier than the last
// one, which a clock that is behind has to catch up with: else a change that is made in spite
// of that would hide it from the next.
func (o *opened) stamp() keyset.Note {
	n, h := o.app.stamp(), o.doc.History
	if len(h) > 0 && h[len(h)-1].At.After(n.At) {
		n.At = h[len(h)-1].At
	}
	return n
}

// ahead reports whether a stamp, which is rounded up to the millisecond, is further ahead of
// a clock than any other clock may be.
func ahead(stamp, now time.Time, p keyset.Policy) bool {
	return stamp.After(now.Add(p.At(now).MaxSkew + time.Millisecond))
}

// expected says what comes of a change that is made all the same.
func expected(late string, culprits []reason) (all []string) {
	if late != "" {
		all = append(all, late+": what is counted from this change may come too early")
	}
	for _, r := range culprits {
		comes := "it refuses what is written now until the store has a later revision than it holds"
		if r.Code == rotation.Fork { // what is written now is that
			comes = "it takes what is written now, and drops what it holds"
		}
		all = append(all, fmt.Sprintf("%s: %s; %s", r.label, r.line, comes))
	}
	return all
}

// foretell says before a change what to expect, where the change does no more than to note
// what is so already.
func (o *opened) foretell(ctx context.Context) error {
	culprits, err := o.overtaken(ctx)
	if err == nil {
		o.app.expect(expected(o.behindHistory(), culprits))
	}
	return err
}

// expect says it before the change is made.
func (a *app) expect(lines []string) {
	for _, line := range lines {
		a.note("expect  %s", line)
	}
}
