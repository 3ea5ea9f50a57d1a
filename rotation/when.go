package rotation

import "time"

// The last second that RFC 3339 can write.
var lastSecond = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// tellable returns the time that is told for t: the last second that there is for a later
// one, and none for one from before the first. Nothing is decided by it: what is decided
// compares the times themselves, which are far from running over.
func tellable(t time.Time) time.Time {
	switch {
	case t.After(lastSecond):
		return lastSecond
	case t.Before(time.Time{}):
		return time.Time{}
	default:
		return t
	}
}

// tellable returns the step with times that can be written.
func (s Step) tellable() Step {
	s.NotBefore = tellable(s.NotBefore)
	for i := range s.Reasons {
		s.Reasons[i].Until = tellable(s.Reasons[i].Until)
		s.Reasons[i].Seen = tellable(s.Reasons[i].Seen)
	}
	return s
}
