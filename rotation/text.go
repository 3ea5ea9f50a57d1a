package rotation

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// String returns the reason in one line, with the culprit first and times in UTC. What
// does not print is escaped, as Go does: names and errors come from elsewhere.
func (r Reason) String() string { return printable(r.text()) }

func (r Reason) text() string {
	if r.Instance != "" {
		return r.who() + r.what()
	}
	switch r.Code {
	case Settling:
		return "until " + until(r.Until) + " the store may still give a server the revision from before the last change"
	case Expiring:
		return "tokens under " + r.KID + " may be alive until " + until(r.Until)
	case NoSource:
		return "there is no source of reports to ask"
	case SourceFailed:
		return fleet.SourceError{Source: r.Source, Err: errors.New(r.Detail)}.Error()
	case NoReports:
		return "no instance reports"
	case TooFewReports:
		return fmt.Sprintf("%s, and at least %d have to", reporting(r.Have), r.Want)
	case PeerWithoutKey:
		return fmt.Sprintf("peer %s has had no export with %s yet", r.Peer, r.KID)
	case PeerSealing:
		return fmt.Sprintf("peer %s seals with %s, as its last export says", r.Peer, r.KID)
	case PeerUnconfirmed:
		return fmt.Sprintf("peer %s has not been confirmed to run with its last export", r.Peer)
	case NotWrapped:
		return fmt.Sprintf("%s is wrapped by %s alone", keyName(r.KID), r.Service)
	case NoPrimary:
		return "the keyset has no primary key"
	case DueAge:
		return r.KID + " has been due for replacement since " + until(r.Until)
	case DueBudget:
		return fmt.Sprintf("about %.0f%% of the tokens that %s may seal are sealed", float64(r.Seals)/Budget*100, r.KID)
	case DueReplace:
		return "the replacement of " + r.KID + " was asked for"
	default:
		return string(r.Code)
	}
}

func reporting(n int) string {
	switch n {
	case 0:
		return "no instance reports"
	case 1:
		return "1 instance reports"
	default:
		return fmt.Sprintf("%d instances report", n)
	}
}

// who names the instance: as much of it as there was a report of.
func (r Reason) who() string {
	who := r.Instance
	if r.Address != "" && r.Address != r.Instance && r.Address != r.ID {
		who += " (" + r.Address + ")"
	}
	if !r.Seen.IsZero() {
		who += fmt.Sprintf(", revision %d, last seen %s", r.Revision, clock(r.Seen))
	}
	return who + ": "
}

// what is said of an instance.
func (r Reason) what() string {
	switch r.Code {
	case NotVerifying:
		return r.starting() + "does not verify " + r.KID + " yet"
	case StillSealing:
		return r.starting() + "still seals with " + r.KID
	case NotSealing:
		return r.starting() + "has no key to seal with"
	case Behind:
		if r.KID != "" {
			return r.starting() + "has not read yet that " + r.KID + " is revoked, and accepts it"
		}
		return r.starting() + "has not read the newest revision yet"
	case NotOpened:
		text := fmt.Sprintf("has not opened %s with %s yet", keyName(r.KID), r.Service)
		if r.Detail != "" {
			return text + ": " + r.Detail
		}
		return r.starting() + text
	case LiveTokens:
		return "has sealed tokens under " + r.KID + " that live until " + until(r.Until)
	case CannotUnwrap:
		return r.unwrap()
	case Silent:
		return r.silence()
	case OtherLineage:
		return "holds another keyset, which has the same auth key" + r.butSilent()
	case NewerRevision:
		return "holds a newer revision than the store" + r.butSilent()
	case Fork:
		return "holds the same revision as the store, but with other content" + r.butSilent()
	case ClockOff:
		direction := "ahead"
		if r.Offset < 0 {
			direction = "behind"
		}
		text := fmt.Sprintf("its clock is %s %s; at most %v is allowed", offset(r.Offset.Abs()), direction, r.Limit)
		if r.Detail != "" {
			text += "; " + r.Detail
		}
		return text
	case DuplicateID:
		return "another process reports under its id, " + r.ID + r.butSilent()
	default:
		return r.Detail
	}
}

// starting begins what is said of an instance that has just come up.
func (r Reason) starting() string {
	if r.Health == fleet.Starting {
		return "is starting, and "
	}
	return ""
}

func (r Reason) silence() string {
	if r.Until.IsZero() {
		return "it has stopped reporting"
	}
	return "it has stopped reporting; it counts as running until " + until(r.Until)
}

// butSilent adds to what an instance has said that it says nothing any more.
func (r Reason) butSilent() string {
	if !r.stale {
		return ""
	}
	return "; " + r.silence()
}

func (r Reason) unwrap() string {
	if r.Failure == nil {
		return "cannot unwrap " + keyName(r.KID)
	}
	text := fmt.Sprintf("cannot unwrap %s: %s", keyName(r.KID), strings.ReplaceAll(r.Failure.Kind, "_", " "))
	if r.Failure.Operation != "" {
		text += ", " + r.Failure.Operation
	}
	if r.Failure.Service != "" {
		text += " with " + r.Failure.Service
	}
	return text
}

// Fix returns what to do about a fault, a phrase without a full stop. It is "" if there is
// nothing to do but wait. What does not print is escaped.
func (r Reason) Fix() string { return printable(r.fix()) }

func (r Reason) fix() string {
	// Whatever it has said last. That a report is from a time to come tells nothing of its age.
	if gone := r.stale && r.Code != Silent || r.Code == ClockOff && r.Detail == ""; gone && r.registered() {
		return r.fixCode() + ", or if " + r.Instance + " is gone for good: " + r.forget()
	}
	return r.fixCode()
}

func (r Reason) fixCode() string {
	switch r.Code {
	case Silent:
		if r.registered() {
			return fmt.Sprintf("start %s again, or if it is gone for good: %s", r.Instance, r.forget())
		}
		return "start " + r.Instance + " again, or if it is gone for good: take its address off the list"
	case CannotUnwrap:
		return r.fixUnwrap()
	case Unreachable:
		return "start what should answer at " + r.Address + ", or if it is gone for good: take the address off the list"
	case Malformed:
		if r.registered() {
			return "find out who writes to the registry " + r.Source + ", then: " + r.forget()
		}
		return "correct the address " + r.whole() + ", or look at what answers there: it should be the handler of package fleet, of a version that fits"
	case BadMAC:
		if r.registered() {
			return "start the server again if it is from before the keyset was replaced; if nobody knows it: " + r.forget()
		}
		return "find out what answers at " + r.Address + ": it does not hold this keyset; if that is a server from before the keyset was replaced, start it again"
	case OtherLineage:
		return "correct the configuration of " + r.Instance + ": its store and its keyset's name; then start it again"
	case NewerRevision:
		return "restore the newest copy of the keyset, or name the store that " + r.Instance + " reads; if no newer copy is left, follow the runbook for a lost store"
	case Fork:
		return "find out which store " + r.Instance + " reads, and who writes there; restore the newest copy of the keyset, then start " + r.Instance + " again"
	case ClockOff:
		if r.Detail != "" {
			return "correct the clock of this host: the instances agree with each other"
		}
		return "correct the clock of " + r.Instance + ", or that of this host"
	case DuplicateID:
		return "start " + r.Instance + " again: each process draws an id of its own, so this one was copied while it ran"
	case NoSource:
		return "say with --fleet where the instances report, or if they cannot report: keytool policy --proof settle --force --reason TEXT"
	case SourceFailed:
		return "make it answer: it may know of instances that nothing else knows of"
	case NoReports:
		return "start the servers, or see that they report to where --fleet looks"
	case TooFewReports:
		return "start the others, or if there are fewer now: keytool policy --min-instances N --force --reason TEXT"
	case PeerWithoutKey, PeerSealing:
		return fmt.Sprintf("keytool export --peer %s --ttl D --out FILE, start the peer with that, then keytool confirm --peer %s", r.Peer, r.Peer)
	case PeerUnconfirmed:
		return fmt.Sprintf("start the peer with its last export, then keytool confirm --peer %s", r.Peer)
	case NotWrapped:
		return "keytool rewrap --add URI"
	case NoPrimary:
		return "restore the newest copy of the keyset"
	case NotOpened:
		if r.Detail != "" {
			return "give " + r.Instance + " the key service " + r.Service + " as well, and start it again"
		}
		return r.fixFollow()
	case Behind:
		if r.KID != "" {
			return "start " + r.Instance + " anew, or stop it, so that it lets go of " + r.KID + "; and " + r.fixFollow()
		}
		return r.fixFollow()
	case NotVerifying, StillSealing:
		return r.fixFollow()
	case NotSealing:
		return "find out why " + r.Instance + " cannot seal: " + orElse(r.Health, "see its log")
	default:
		return ""
	}
}

func (r Reason) fixFollow() string {
	return "find out why " + r.Instance + " does not follow the store: " + orElse(r.Health, "see its log")
}

// registered reports whether the instance was found in a registry, not at an address.
func (r Reason) registered() bool { return r.ID != "" && r.ID == r.Address }

// whole is the address of an instance with the path that is asked there.
func (r Reason) whole() string {
	if strings.Contains(r.Source, r.Address) {
		return r.Source
	}
	return r.Address + " of " + r.Source
}

// forget says how the report goes. What is under a key that is no id is not typed into a
// shell: whoever writes to the registry has chosen it.
func (r Reason) forget() string {
	if !isID.MatchString(r.ID) {
		return "delete " + r.ID + " there"
	}
	return "keytool fleet forget " + r.ID + " --reason TEXT"
}

var isID = regexp.MustCompile(`^[0-9a-f]{32}$`)

func (r Reason) fixUnwrap() string {
	if r.Failure == nil {
		return "let " + r.Instance + " use the key service"
	}
	service := orElse(r.Failure.Service, "a key service that opens "+keyName(r.KID))
	switch keyset.Kind(r.Failure.Kind) {
	case keyset.Denied:
		return fmt.Sprintf("grant %s to %s on %s", orElse(r.Failure.Operation, "the use of the key"), r.Instance, service)
	case keyset.Throttled, keyset.Unavailable:
		return "get " + service + " to answer again"
	case keyset.Sealed:
		return "unseal " + service
	case keyset.Disabled, keyset.PendingDeletion:
		return "enable " + service + " again"
	default:
		return fmt.Sprintf("let %s use %s: its log says what failed", r.Instance, service)
	}
}

// temporary reports whether a failure of the kind passes by itself.
func temporary(kind string) bool { return keyset.Kind(kind).Temporary() }

func keyName(kid string) string {
	if kid == "auth" {
		return "the keyset's auth key"
	}
	return "key " + kid
}

func orElse(s, instead string) string {
	if s == "" || s == "ok" {
		return instead
	}
	return s
}

// offset writes how far a clock is off, as exactly as it helps.
func offset(d time.Duration) string {
	if days := d / (24 * time.Hour); days >= 2 {
		return fmt.Sprintf("%d days", days)
	}
	return d.Round(time.Millisecond).String()
}

// printable returns text with an escape for each byte or character that could steer a
// terminal or forge a line.
func printable(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}

// until writes a time before which something is not so, rounded up.
func until(t time.Time) string {
	if down := t.Truncate(time.Second); !down.Equal(t) {
		t = down.Add(time.Second)
	}
	return clock(t)
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
