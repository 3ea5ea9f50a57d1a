package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

// The verdicts, in the words of JSON; people see them in capitals.
const (
	verdictOK      = "ok"      // nothing is unfinished, and nothing is due
	verdictDue     = "due"     // there is something to do
	verdictDone    = "done"    // it was done
	verdictWaiting = "waiting" // time has to pass, or the fleet has to follow
	verdictWarning = "warning" // nothing is in the way now, and something will be
	verdictBlocked = "blocked" // somebody has to do something
)

func verdictText(p *printer, verdict string, dryRun bool) painted {
	colour := yellow
	switch verdict {
	case verdictOK, verdictDone:
		colour = green
	case verdictBlocked:
		colour = red
	}
	text := strings.ToUpper(verdict)
	if dryRun && verdict == verdictDue {
		text = "WOULD"
	}
	return p.paint(colour, text)
}

// An outlook is what a step of package rotation is to people: a verdict, who is in the
// way and what to do about it, and what to type next.
type outlook struct {
	Verdict   string   `json:"verdict"`
	Summary   string   `json:"summary"`
	Reasons   []reason `json:"reasons,omitempty"`
	NotBefore string   `json:"not_before,omitempty"`
	Note      string   `json:"note,omitempty"`
	Then      string   `json:"then,omitempty"`
	With      string   `json:"with,omitempty"` // the flags that every command above needs
}

func (o *outlook) needs(flags string) {
	texts := []string{o.Summary, o.Note, o.Then}
	for _, r := range o.Reasons {
		texts = append(texts, r.Text, r.Fix)
	}
	if namesCommand(texts...) {
		o.With = flags
	}
}

// A reason is a rotation.Reason in JSON, without the members that do not apply.
type reason struct {
	Code     rotation.Code `json:"code"`
	Text     string        `json:"text"`
	Fix      string        `json:"fix,omitempty"`
	KID      string        `json:"kid,omitempty"`
	Instance string        `json:"instance,omitempty"`
	ID       string        `json:"id,omitempty"`
	Address  string        `json:"address,omitempty"`
	Source   string        `json:"source,omitempty"`
	Revision int64         `json:"revision,omitempty"`
	Seen     string        `json:"seen,omitempty"`
	Peer     string        `json:"peer,omitempty"`
	Service  string        `json:"service,omitempty"`
	Until    string        `json:"until,omitempty"`

	// For people: the culprit, what is said of it, the same without what is another thing
	// at each look, and the same in a first line.
	label, line, change, head string

	said bool // by an instance of itself
}

// A judge says what a step means, given what was seen.
type judge struct {
	doc *keyset.Document
	obs *fleet.Observation
	now time.Time
}

// outlook says what a step means.
func (j judge) outlook(s rotation.Step) outlook {
	o := outlook{NotBefore: formatTime(s.NotBefore)}
	for _, r := range j.pressing(s) {
		o.Reasons = append(o.Reasons, j.reason(r, s.Kind))
	}
	switch s.Kind {
	case rotation.Done:
		o.Verdict, o.Summary = verdictOK, "nothing is unfinished"
	case rotation.Wait, rotation.Blocked:
		o.Verdict, o.Summary = verdictWaiting, j.waiting(s)
		if s.Kind == rotation.Blocked {
			o.Verdict = verdictBlocked
			o.Note = j.harmless(s.Goal)
		}
		o.Then = then(s, rotateOn)
	default:
		o.Verdict, o.Summary, o.Then = verdictDue, j.step(s), then(s, rotateOn)
	}
	return o
}

// patient reports whether a reason passes by itself, and has the time to.
func (j judge) patient(r rotation.Reason) bool { return !r.Fault() && j.now.Before(r.Until) }

// pressing returns the reasons of a step; if it is blocked, what blocks it comes before what
// is only waited for.
func (j judge) pressing(s rotation.Step) []rotation.Reason {
	all := slices.Clone(s.Reasons)
	if s.Kind == rotation.Blocked {
		inFront(all, func(r rotation.Reason) bool { return !j.patient(r) })
	}
	return all
}

// inFront puts those that are such first, and leaves the order of each kind.
func inFront[T any](all []T, such func(T) bool) {
	slices.SortStableFunc(all, func(a, b T) int {
		switch of, before := such(a), such(b); {
		case of == before:
			return 0
		case of:
			return -1
		default:
			return 1
		}
	})
}

// step says what a step would do.
func (j judge) step(s rotation.Step) string {
	var text string
	switch s.Kind {
	case rotation.Stage:
		text = "stage a new key to replace " + s.KID
	case rotation.Promote:
		text = "promote " + s.KID
	case rotation.Drain:
		text = "drain " + s.KID + ": nobody seals with it any more"
	case rotation.Retire:
		text = "retire " + s.KID
	}
	if s.Forced() {
		text += ", against what is in the way"
	}
	return text
}

// goal names what is waited for.
func goal(s rotation.Step) string {
	switch s.Goal {
	case rotation.Stage:
		return "replacing " + s.KID
	case rotation.Promote:
		return "promotion of " + s.KID
	case rotation.Drain:
		return "draining of " + s.KID
	case rotation.Retire:
		return "retirement of " + s.KID
	case rotation.Obey:
		return "obedience"
	case rotation.Drop:
		return "the drop"
	default:
		return "rotation"
	}
}

// waiting says for whom and until when a step waits.
func (j judge) waiting(s rotation.Step) string {
	instances := make(map[spot]bool)
	var peers, whom []string
	for _, r := range s.Reasons {
		switch {
		case s.Kind == rotation.Blocked && j.patient(r):
			// It is not what blocks, and it is told below.
		case r.Instance != "":
			instances[spot{r.Source, r.Address}] = true
		case r.Peer != "":
			peers = append(peers, "peer "+r.Peer)
		case r.Code == rotation.NoReports:
			whom = append(whom, "a first report")
		case r.Code == rotation.NoSource:
			whom = append(whom, "a source of reports")
		case r.Code == rotation.TooFewReports:
			whom = append(whom, fmt.Sprintf("%d more to report", r.Want-r.Have))
		case r.Code == rotation.SourceFailed:
			whom = append(whom, "the source "+r.Source)
		case r.Code == rotation.NotWrapped:
			whom = append(whom, "another wrapping")
		}
	}
	if n := len(instances); n > 0 {
		whom = slices.Insert(whom, 0, fmt.Sprintf("%d of %s", n, count(j.live(), "instance")))
	}
	whom = append(whom, few(uniq(peers))...)
	when := ""
	if !s.NotBefore.IsZero() {
		when = fmt.Sprintf("not before %s, in %s", clock(s.NotBefore, j.now), left(s.NotBefore, j.now))
	}
	switch {
	case len(whom) == 0 && when == "":
		return goal(s) + " is " + string(s.Kind)
	case len(whom) == 0:
		return goal(s) + " " + when
	case when == "":
		return goal(s) + " waits for " + list(uniq(whom))
	default:
		return goal(s) + " waits for " + list(uniq(whom)) + ", and is " + when
	}
}

// live counts the instances that a rotation has to reckon with.
func (j judge) live() (n int) {
	for i := range j.obs.Instances {
		if j.obs.Instances[i].Live() {
			n++
		}
	}
	return n
}

// harmless says that what is blocked hurts nobody, where that is so: every instance that
// can be relied on is ready, and accepts what any other one seals.
func (j judge) harmless(goal rotation.Kind) string {
	if goal != rotation.Stage && goal != rotation.Promote && goal != rotation.Drain && goal != rotation.Retire {
		return ""
	}
	var live []*fleet.Report
	var seal []string
	for i := range j.obs.Instances {
		in := &j.obs.Instances[i]
		switch {
		case errors.Is(in.Err, fleet.ErrMAC): // whatever it holds, it is another keyset
			return ""
		case in.Err != nil || !in.Live():
			continue
		case !in.Report.Ready:
			return ""
		}
		live = append(live, &in.Report)
		if kid := in.Report.Primary; kid != "" {
			seal = append(seal, kid)
		}
	}
	for _, kid := range uniq(seal) {
		if slices.ContainsFunc(live, func(r *fleet.Report) bool { return !slices.Contains(r.Verifies, kid) }) {
			return ""
		}
	}
	return "no token is being refused"
}

// rotateOn is what takes a rotation to its end.
const rotateOn = "keytool rotate --wait"

// then says what to type next, where rotate is the command that goes on.
func then(s rotation.Step, rotate string) string {
	switch {
	case s.Kind.Changes(), s.Goal == rotation.Stage:
		return rotate
	case s.Goal != rotation.Promote && s.Goal != rotation.Drain && s.Goal != rotation.Retire:
		return ""
	case slices.ContainsFunc(s.Reasons, func(r rotation.Reason) bool { return leftBehind(r.Code) }):
		return rotate // a step back would fork the keyset, too
	case s.Goal == rotation.Promote:
		return rotate + "      or give up: keytool abort"
	default:
		return rotate + "      or go back: keytool rollback"
	}
}

// reason turns a reason into JSON and into a line for people.
func (j judge) reason(r rotation.Reason, of rotation.Kind) reason {
	i := j.instance(r)
	if i != nil && i.Err == nil {
		r.Health = because(i)
	}
	text, name := r.String(), r.Instance // which tells the address by itself
	if i != nil {
		r.Instance = displayName(j.obs, i)
	}
	if r.Code == rotation.DueBudget {
		text = budgetText(r.Seals, r.KID)
	}
	// Times before which something is not safe are rounded up.
	if !r.Until.IsZero() {
		text = strings.ReplaceAll(text, r.Until.UTC().Format(time.RFC3339), formatTime(r.Until))
	}
	out := reason{
		Code: r.Code, Text: text, KID: r.KID, Instance: name, ID: r.ID, Address: r.Address, Source: r.Source,
		Revision: r.Revision, Seen: formatTime(r.Seen), Peer: r.Peer, Service: r.Service, Until: formatTime(r.Until),
		label: "why", line: text,
	}
	if !r.Until.IsZero() {
		out.line = strings.ReplaceAll(text, formatTime(r.Until), clock(r.Until, j.now))
	}
	// What the fleet does by itself needs no remedy, as long as there is time.
	if of == rotation.Blocked && !j.patient(r) || r.Fault() {
		out.Fix = r.Fix()
	}
	if out.change = out.line; r.Instance == "" {
		out.head = headline(r, out.change)
		return out
	}
	out.label = r.Instance
	what := saidOf(out.line, name)
	if of == rotation.Blocked && j.patient(r) && !strings.Contains(text, formatTime(r.Until)) {
		what += "; there is time until " + clock(r.Until, j.now)
	}
	out.line, out.change = what, r.Instance+": "+what
	if !r.Seen.IsZero() {
		out.line = fmt.Sprintf("revision %d, seen %s ago: %s", r.Revision, shortDuration(max(0, j.now.Sub(r.Seen)).Truncate(time.Second)), what)
		out.change = fmt.Sprintf("%s at revision %d %s", r.Instance, r.Revision, what)
	}
	if r.Code == rotation.CannotUnwrap {
		if i != nil && i.Err == nil && out.Fix != "" {
			out.Fix += "; it retries every " + shortDuration(i.Report.Every)
		}
	}
	out.head = headline(r, what)
	return out
}

// saidOf returns what a text says of an instance, without its name and the like.
func saidOf(text, instance string) string {
	_, what, _ := strings.Cut(strings.TrimPrefix(text, instance), ": ")
	return what
}

// instance returns the one that a reason is about, or nil.
func (j judge) instance(r rotation.Reason) *fleet.Instance {
	if r.Instance == "" {
		return nil
	}
	i := slices.IndexFunc(j.obs.Instances, func(i fleet.Instance) bool { return spotOf(&i) == spot{r.Source, r.Address} })
	if i < 0 {
		return nil
	}
	return &j.obs.Instances[i]
}

// maxReasons is how many reasons people are shown; JSON has all.
const maxReasons = 12

// text prints the verdict, who is in the way, and the remedy, and more lines behind.
func (o *outlook) text(p *printer, dryRun bool, more ...labelled) {
	p.linef("%s  %s", verdictText(p, o.Verdict, dryRun), o.Summary)
	var lines []labelled
	all := together(o.Reasons)
	shown, others := sparingly(all, maxReasons)
	for i, r := range shown {
		lines = append(lines, labelled{r.label, r.line})
		if i+1 == len(shown) || shown[i+1].Fix != r.Fix {
			lines = append(lines, labelled{"fix", r.Fix})
		}
	}
	if others > 0 {
		lines = append(lines, labelled{"more", fmt.Sprintf("%d others; -o json has them all", others)})
	}
	if last := len(lines) - 1; o.Note != "" && last >= 0 && lines[last].label == "fix" && lines[last].text != "" {
		lines[last].text += ". " + strings.ToUpper(o.Note[:1]) + o.Note[1:] + "."
	} else {
		lines = append(lines, labelled{"note", o.Note})
	}
	lines = append(lines, labelled{"then", o.Then}, labelled{"with", o.With})
	p.labels(append(lines, more...)...)
}

// together says once what an instance has not opened, of several keys.
func together(reasons []reason) (all []reason) {
	for _, r := range reasons {
		before := slices.IndexFunc(all, func(b reason) bool {
			return r.Code == rotation.NotOpened && b.Code == r.Code && b.spot() == r.spot() && b.Service == r.Service
		})
		if before < 0 {
			all = append(all, r)
			continue
		}
		with := " with " + r.Service
		all[before].line = strings.Replace(all[before].line, with, " and key "+r.KID+with, 1)
	}
	return all
}

// uniq returns the elements in order, each once.
func uniq(all []string) []string {
	all = slices.Clone(all)
	slices.Sort(all)
	return slices.Compact(all)
}

// list writes several things, and either several of which one is meant.
func list(all []string) string   { return enumerated(all, " and ") }
func either(all []string) string { return enumerated(all, " or ") }

func enumerated(all []string, last string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + last + all[len(all)-1]
}
