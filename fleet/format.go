package fleet

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/echoseal/echoseal/internal/strict"
)

// version is that of the report's format, its member v.
const version = 1

const (
	maxText    = 200
	maxService = 2048
	maxEvery   = 24 * time.Hour // and three times that is still a duration
	maxInt     = 1<<53 - 1
)

// The same patterns are in report.schema.json.
var (
	idPattern      = regexp.MustCompile(`^[0-9a-f]{32}$`)
	kidPattern     = regexp.MustCompile(`^[0-9a-f]{8}$`)
	wrappedPattern = regexp.MustCompile(`^([0-9a-f]{8}|auth)$`)
	namePattern    = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	uuidPattern    = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	tagPattern     = regexp.MustCompile(`^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$`)
)

// value returns the report as it is written.
func (r *Report) value() map[string]strict.Value {
	return map[string]strict.Value{
		"v":        int64(version),
		"id":       r.ID,
		"host":     r.Host,
		"started":  formatTime(r.Started),
		"now":      strict.FormatTime(floorTime(r.Now)),
		"every":    r.Every.String(),
		"stopped":  r.Stopped,
		"keyset":   r.Keyset,
		"lineage":  r.Lineage,
		"revision": r.Revision,
		"tag":      r.Tag,
		"loaded":   formatTime(r.Loaded),
		"primary":  r.Primary,
		"verifies": values(r.Verifies, func(kid string) strict.Value { return kid }),
		"ttl":      r.TTL.String(),
		"ready":    r.Ready,
		"reason":   r.Reason,
		"services": values(r.Services, func(service string) strict.Value { return service }),
		"opened": values(r.Opened, func(o Opened) strict.Value {
			return map[string]strict.Value{"kid": o.KID, "service": o.Service, "version": o.Version}
		}),
		"failed": values(r.Failed, func(f Failure) strict.Value {
			return map[string]strict.Value{"kid": f.KID, "service": f.Service, "kind": f.Kind, "operation": f.Operation}
		}),
		"keys": values(r.Keys, func(k KeyUse) strict.Value {
			return map[string]strict.Value{"kid": k.KID, "seals": k.Seals, "since": formatTime(k.Since), "live_until": formatTime(k.LiveUntil)}
		}),
		"software": r.Software,
	}
}

func values[T any](all []T, value func(T) strict.Value) []strict.Value {
	list := make([]strict.Value, len(all))
	for i, t := range all {
		list[i] = value(t)
	}
	return list
}

// readReport reads what value writes, and refuses what check does.
func readReport(o *strict.Object) (Report, error) {
	if v := o.Int("v"); o.Err() == nil && v != version {
		return Report{}, fmt.Errorf("v: format %d is not known, only %d is", v, version)
	}
	r := Report{
		ID:       o.String("id"),
		Host:     o.String("host"),
		Started:  o.Time("started"),
		Now:      o.Time("now"),
		Every:    o.Duration("every"),
		Stopped:  o.Bool("stopped"),
		Keyset:   o.String("keyset"),
		Lineage:  o.String("lineage"),
		Revision: o.Int("revision"),
		Tag:      o.String("tag"),
		Loaded:   timeOrNone(o, "loaded"),
		Primary:  o.String("primary"),
		Verifies: o.Strings("verifies"),
		TTL:      o.Duration("ttl"),
		Ready:    o.Bool("ready"),
		Reason:   o.String("reason"),
		Services: o.Strings("services"),
		Software: o.String("software"),
	}
	for _, o := range o.Objects("opened") {
		r.Opened = append(r.Opened, Opened{KID: o.String("kid"), Service: o.String("service"), Version: o.String("version")})
	}
	for _, o := range o.Objects("failed") {
		r.Failed = append(r.Failed, Failure{KID: o.String("kid"), Service: o.String("service"), Kind: o.String("kind"), Operation: o.String("operation")})
	}
	for _, o := range o.Objects("keys") {
		r.Keys = append(r.Keys, KeyUse{KID: o.String("kid"), Seals: o.Int("seals"), Since: o.Time("since"), LiveUntil: timeOrNone(o, "live_until")})
	}
	if o.Err() != nil {
		return Report{}, o.Err()
	}
	if member, why := r.check(); why != "" {
		return Report{}, fmt.Errorf("%s: %s", member, why)
	}
	return r, nil
}

// check returns the first member that is not as Report has it, and what is wrong.
func (r *Report) check() (member, why string) {
	c := checker{}
	c.match("id", r.ID, idPattern, "32 lower-case hex digits")
	c.text("host", r.Host)
	c.time("started", r.Started)
	c.time("now", r.Now)
	c.require("every", r.Every > 0 && r.Every <= maxEvery, "it is not in (0s, 24h0m0s]")
	c.match("keyset", r.Keyset, namePattern, "the name of a keyset")
	c.match("lineage", r.Lineage, uuidPattern, "a lower-case UUID, version 4")
	c.integer("revision", r.Revision)
	c.match("tag", r.Tag, tagPattern, "32 bytes in base64")
	c.timeOrNone("loaded", r.Loaded)
	c.require("primary", r.Primary == "" || slices.Contains(r.Verifies, r.Primary), "it is not among verifies")
	for _, kid := range r.Verifies {
		c.match("verifies", kid, kidPattern, "key ids")
	}
	c.require("ttl", r.TTL > 0, "it is not positive")
	c.text("reason", r.Reason)
	for _, service := range r.Services {
		c.service("services", service)
		c.require("services", service != "", "a name is empty")
	}
	for _, o := range r.Opened {
		c.match("opened.kid", o.KID, wrappedPattern, "a key id")
		c.service("opened.service", o.Service)
		c.service("opened.version", o.Version)
	}
	for _, f := range r.Failed {
		c.match("failed.kid", f.KID, wrappedPattern, "a key id")
		c.service("failed.service", f.Service)
		c.text("failed.kind", f.Kind)
		c.text("failed.operation", f.Operation)
	}
	for _, k := range r.Keys {
		c.match("keys.kid", k.KID, kidPattern, "a key id")
		c.integer("keys.seals", k.Seals)
		c.time("keys.since", k.Since)
		c.timeOrNone("keys.live_until", k.LiveUntil)
	}
	c.text("software", r.Software)
	return c.member, c.why
}

// A checker keeps the first thing that is wrong.
type checker struct{ member, why string }

func (c *checker) require(member string, ok bool, why string) {
	if !ok && c.why == "" {
		c.member, c.why = member, why
	}
}

func (c *checker) match(member, s string, pattern *regexp.Regexp, what string) {
	c.require(member, pattern.MatchString(s), "not "+what)
}

func (c *checker) text(member, s string) {
	c.require(member, len(s) <= maxText, "it is longer than 200 bytes")
	c.require(member, printable(s) == s, "it is not printable text")
}

func (c *checker) service(member, s string) {
	c.require(member, len(s) <= maxService, "it is longer than 2048 bytes")
	c.require(member, printable(s) == s, "it is not printable text")
}

func (c *checker) integer(member string, n int64) {
	c.require(member, n >= 0 && n <= maxInt, "it is not in [0, 2^53)")
}

// time requires a time that the format can write and that is not taken for none.
func (c *checker) time(member string, t time.Time) {
	c.require(member, t.Year() >= 1970 && t.Year() < 9999, "it is not a time in the years from 1970 to 9998")
}

func (c *checker) timeOrNone(member string, t time.Time) {
	if !t.IsZero() {
		c.time(member, t)
	}
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strict.FormatTime(t)
}

func floorTime(t time.Time) time.Time { return t.UTC().Round(0).Truncate(time.Millisecond) }

func timeOrNone(o *strict.Object, name string) time.Time {
	if o.String(name) == "" {
		return time.Time{}
	}
	t := o.Time(name)
	if t.IsZero() {
		o.Fail(name, "no time is written as an empty string")
	}
	return t
}

// printable returns the report with its free text as Key.Sign describes it.
func (r Report) printable() Report {
	short := func(s string) string {
		s = printable(s)
		for len(s) > maxText {
			_, size := utf8.DecodeLastRuneInString(s)
			s = s[:len(s)-size]
		}
		return s
	}
	r.Host, r.Reason, r.Software = short(r.Host), short(r.Reason), short(r.Software)
	r.Failed = slices.Clone(r.Failed)
	for i := range r.Failed {
		f := &r.Failed[i]
		f.Kind, f.Operation = short(f.Kind), short(f.Operation)
	}
	return r
}

// printable returns s with a space for whatever does not print as one character or
// changes how others do: reports are shown on terminals.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))
}
