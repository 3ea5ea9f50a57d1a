package rotation

import (
	"slices"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// The goals of [Obeyed] and [Dropped].
const (
	Obey Kind = "obey" // every instance holds the revision
	Drop Kind = "drop" // every instance has opened what is left of a key's wrappings
)

// Faults returns what is wrong with the fleet of a keyset, whether a rotation is open or
// not: all that would block one, whatever its key. [Reason.Fault] is true of each. now is
// as in [Next].
func Faults(d *keyset.Document, o fleet.Observation, now time.Time) []Reason {
	v := safe().look(d, o, now, Request{})
	v.lookAtInstances(false)
	return Step{Reasons: v.faults}.tellable().Reasons
}

// Obeyed tells whether every live instance holds the revision of d, or a later one, and
// nobody can come by an earlier one any more; this is when a revoked key is out of use
// everywhere. The step is Done, Wait or Blocked; the reason of an instance that still accepts
// a revoked key names that. now is as in [Next].
func Obeyed(d *keyset.Document, o fleet.Observation, now time.Time) Step {
	v := safe().look(d, o, now, Request{})
	v.lookAtInstances(true)
	var written time.Time
	if n := len(d.History); n > 0 {
		written = d.History[n-1].At
	}
	reasons := v.faults
	for _, i := range v.live {
		if i.Report.Revision < d.Revision {
			reasons = append(reasons, v.behind(i, written))
		}
	}
	return done(verdict(Obey, "", v.now, v.until(reasons, "", written.Add(changed(v.p)))))
}

// behind names a revoked key if the instance goes by one: its patience is counted from the
// revocation then, whatever was changed since.
func (v *view) behind(i *fleet.Instance, written time.Time) Reason {
	for _, k := range v.d.Keys {
		if k.State == keyset.Revoked && (i.Report.Primary == k.KID || slices.Contains(i.Report.Verifies, k.KID)) {
			return v.lag(Behind, i, k.KID, k.Revoked)
		}
	}
	return v.lag(Behind, i, "", written)
}

// Dropped tells whether every live instance can do without the wrappings of a key
// service: whether it has opened, for each key and for the keyset's auth key, another
// one that is in d. The step is Done, Wait or Blocked: an instance that has the other
// service gets the time to read what was wrapped last, and to open it. now is as in [Next].
func Dropped(d *keyset.Document, o fleet.Observation, now time.Time, service string) Step {
	v := safe().look(d, o, now, Request{})
	v.lookAtInstances(true)
	reasons := v.faults
	rewrapped := rewrappedAt(d)
	all := []keyset.Key{{KID: fleet.AuthKey, Wrapped: d.Auth.Wrapped}}
	for _, k := range d.Keys {
		if k.Unseals() {
			all = append(all, k)
		}
	}
	for _, k := range all {
		left := slices.DeleteFunc(slices.Clone(k.Wrapped), func(w keyset.WrappedKey) bool { return w.Service == service })
		if len(left) == 0 {
			reasons = append(reasons, Reason{Code: NotWrapped, KID: k.KID, Service: service})
			continue
		}
		for _, i := range v.live {
			if !opened(&i.Report, k.KID, left) {
				reasons = append(reasons, v.notOpened(i, k.KID, left, latest(rewrapped, k.Staged)))
			}
		}
	}
	return done(verdict(Drop, "", v.now, reasons))
}

func opened(r *fleet.Report, kid string, left []keyset.WrappedKey) bool {
	return slices.ContainsFunc(left, func(w keyset.WrappedKey) bool {
		return slices.Contains(r.Opened, fleet.Opened{KID: kid, Service: w.Service, Version: w.Version})
	})
}

// rewrappedAt returns when keys were last wrapped anew, as far as the history goes back.
func rewrappedAt(d *keyset.Document) (at time.Time) {
	for _, e := range d.History {
		if e.Action == "rewrap" {
			at = latest(at, e.At)
		}
	}
	return at
}

func (v *view) notOpened(i *fleet.Instance, kid string, left []keyset.WrappedKey, wrapped time.Time) Reason {
	reason := v.lag(NotOpened, i, kid, wrapped)
	reason.Service = left[0].Service
	for _, f := range i.Report.Failed {
		if f.KID == kid && slices.ContainsFunc(left, func(w keyset.WrappedKey) bool { return w.Service == f.Service }) {
			reason.Code, reason.Service, reason.Failure = CannotUnwrap, f.Service, &f
		}
	}
	has := func(w keyset.WrappedKey) bool { return slices.Contains(i.Report.Services, w.Service) }
	if reason.Code == NotOpened && i.Report.Revision >= v.d.Revision && !i.Report.Loaded.IsZero() && !slices.ContainsFunc(left, has) {
		reason.Detail = "it does not have that key service"
	}
	if reason.Fault() || reason.Detail != "" {
		reason.Until = time.Time{} // it does not end by itself
	}
	return reason
}

func done(s Step) Step {
	if s.Kind == s.Goal {
		s.Kind = Done
	}
	return s.tellable()
}
