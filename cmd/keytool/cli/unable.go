package cli

import (
	"fmt"
	"slices"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

// A key that becomes primary before anybody has proved that it can open it, as where the old
// one is revoked, leaves instances without a key to seal with if they do not have what wraps
// it. It is told before, as far as reports show it, and afterwards.

// unopened says which instances cannot open what a key service wraps, and of which that is not
// known. A report names only such services as wrap something of the keyset it is about.
func (o *opened) unopened(obs *fleet.Observation, service string) (said []string) {
	inUse := slices.ContainsFunc(wrappedEntries(o.doc), func(e wrappedEntry) bool { return wrappedBy(e.wrapped, service) })
	var without, unknown []string
	for n := range obs.Instances {
		i := &obs.Instances[n]
		r := &i.Report
		switch {
		case !i.Live() || i.Err == nil && slices.Contains(r.Services, service):
		case i.Err == nil && inUse && r.Lineage == o.doc.Lineage && r.Revision == o.doc.Revision:
			without = append(without, displayName(obs, i))
		default:
			unknown = append(unknown, displayName(obs, i))
		}
	}
	switch len(without) {
	case 0:
	case 1:
		said = append(said, fmt.Sprintf("%s does not have the key service %s, which wraps the new key, so it cannot seal until it has", without[0], service))
	default:
		said = append(said, fmt.Sprintf("%s do not have the key service %s, which wraps the new key, so they cannot seal until they have", list(few(without)), service))
	}
	if len(unknown) > 0 {
		text := fmt.Sprintf("whether %s can use the key service %s, which wraps the new key, is not known: a server without it cannot seal until it has it", list(few(unknown)), service)
		if !inUse {
			text += "; to know before: keytool rewrap --add " + quoted(o.app.flags.keyServices[0]) + ", and a little later the same command with --dry-run"
		}
		said = append(said, text)
	}
	return said
}

func wrappedBy(wrapped []keyset.WrappedKey, service string) bool {
	return slices.ContainsFunc(wrapped, func(w keyset.WrappedKey) bool { return w.Service == service })
}

// unable are the instances that have read the document and have no key to seal with.
func (j judge) unable() (all []rotation.Reason) {
	for n := range j.obs.Instances {
		i := &j.obs.Instances[n]
		r := &i.Report
		if i.Err != nil || !i.Live() || r.Lineage != j.doc.Lineage || r.Revision < j.doc.Revision || r.Primary != "" || r.Reason == fleet.Starting {
			continue
		}
		all = append(all, j.cannotSeal(i))
	}
	return all
}

// cannotSeal says why an instance does not hold the primary.
func (j judge) cannotSeal(i *fleet.Instance) rotation.Reason {
	primary := j.doc.Primary()
	reason := rotation.About(rotation.NotSealing, i)
	reason.KID = primary.KID
	has := func(w keyset.WrappedKey) bool { return slices.Contains(i.Report.Services, w.Service) }
	if i.Report.Revision == j.doc.Revision && !slices.ContainsFunc(primary.Wrapped, has) {
		reason.Code, reason.Service, reason.Detail = rotation.NotOpened, primary.Wrapped[0].Service, "it does not have that key service"
		return reason
	}
	for _, f := range i.Report.Failed {
		if f.KID == primary.KID {
			reason.Code, reason.Failure = rotation.CannotUnwrap, &f
		}
	}
	if written := j.doc.History; !reason.Fault() && len(written) > 0 {
		// As rotation has patience with whoever reads a change: a call of a key service that
		// failed for now is made again.
		p := j.doc.Policy
		reason.Until = written[len(written)-1].At.Add(p.Settle + p.MaxSkew + 2*i.Report.Every)
	}
	return reason
}
