package fleet

import (
	"slices"
	"strings"
	"time"
)

// An Observation is what was found out about a fleet, plain data. Every time is by the
// observer's clock but those inside of reports.
type Observation struct {
	// Began is when the first source was about to be asked, and Ended when the last
	// answer was there. Whatever the observation says was so at some time from Began
	// on, if a report's own Now is not earlier.
	Began, Ended time.Time

	// Sources are the URIs of all that were asked. None: nobody can be asked.
	Sources []string

	// Instances has one element for each process that has reported, and one for each
	// answer that is no report, in order of source, then address.
	Instances []Instance

	// Failures are the sources that failed as a whole or in part, so that instances may
	// be missing above.
	Failures []SourceError
}

// An Instance is one process that has reported, or one answer that is no report.
type Instance struct {
	Source     string // the URI of the source that gave it
	Address    string // as in Answer
	Registered bool   // as in Answer

	// Also are the addresses at which another report of the same process was found.
	// The newest one counts.
	Also []string

	// Report is what the instance has reported, verified. It is zero if Err is set.
	Report Report

	// Err is why there is no report: [ErrUnreachable], [ErrMalformed], or [ErrMAC].
	Err error
}

// A SourceError reports that a source could not be asked for all that it knows.
type SourceError struct {
	Source string // its URI
	Err    error
}

// Error names the source, once, and the cause.
func (e SourceError) Error() string {
	return e.Source + ": " + strings.TrimPrefix(e.Err.Error(), e.Source+": ")
}

// Unwrap returns the cause.
func (e SourceError) Unwrap() error { return e.Err }

// Live reports whether a rotation has to reckon with the instance: always if its
// address is listed, and unless its last report is marked stopped if it was found in a
// registry.
func (i *Instance) Live() bool {
	return !i.Registered || i.Err != nil || !i.Report.Stopped
}

// Lapses returns when the instance stops counting if it stays silent, under a policy
// with the given max_stale and max_skew. It is the zero time, never, for a listed
// address, for what is no report, and if maxStale is 0.
func (i *Instance) Lapses(maxStale, maxSkew time.Duration) time.Time {
	if !i.Registered || i.Err != nil || maxStale == 0 {
		return time.Time{}
	}
	return i.Report.Now.Add(Keep(i.Report.Every, maxStale, maxSkew))
}

// Name names the instance for people: its host, or the address if that is not known.
func (i *Instance) Name() string {
	if i.Err != nil || i.Report.Host == "" {
		return i.Address
	}
	return i.Report.Host
}

// Offset returns how far the clock of an instance is from the observer's, as its report
// shows: how long after Ended the report says that it was made (positive) or how long
// before Began (negative), else 0. For a report from a registry a negative offset is
// its age.
func (o *Observation) Offset(i *Instance) time.Duration {
	switch now := i.Report.Now; {
	case i.Err != nil:
		return 0
	case now.After(o.Ended):
		return now.Sub(o.Ended)
	case now.Before(o.Began):
		return now.Sub(o.Began)
	}
	return 0
}

// Clashes returns the ids that reports of more than one process bear, in order. An id
// is drawn at random, so this does not come about by chance.
func (o *Observation) Clashes() []string {
	started := make(map[string]time.Time)
	var ids []string
	for _, i := range o.Instances {
		if i.Err != nil {
			continue
		}
		first, there := started[i.Report.ID]
		if !there {
			started[i.Report.ID] = i.Report.Started
		} else if !first.Equal(i.Report.Started) {
			ids = append(ids, i.Report.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
