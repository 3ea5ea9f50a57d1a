package keysettest

import (
	"slices"
	"testing"

	"github.com/echoseal/echoseal/keyset"
)

// A KeyServiceHarness gives the tests a key service, and the means to disturb what is
// behind it. Its functions are called by one goroutine at a time.
type KeyServiceHarness struct {
	// New returns a service for the given keys, of which there are two, 0 and 1. The
	// first one given wraps, every one unwraps. A key is the same at every call, and
	// both are usable. Required.
	New func(t testing.TB, keys ...int) keyset.KeyService

	// Calls returns how many calls the back end has received so far, from whichever
	// service: every attempt is one.
	Calls func() int

	// Silence makes the back end take calls and not answer, until t ends.
	Silence func(t testing.TB)

	// Fail makes the back end fail the next calls, as many as given or all if that is
	// negative, in the way that the service reports as kind; until t ends.
	Fail func(t testing.TB, kind keyset.Kind, calls int)

	// Kinds are the kinds that Fail knows. At least [keyset.Throttled],
	// [keyset.Unavailable] and [keyset.Denied], where the back end is another process.
	Kinds []keyset.Kind

	// Without says why a subtest is not for this service, by its name: the subtest is
	// left out, and logs the reason. A subtest that is not named here but needs a field that
	// is not set fails. The names, and what each needs:
	//
	//	round trip            contexts              Generator
	//	caller's buffers      look-alike contexts   Rewrapper
	//	Opens                 purpose               Describer
	//	damaged ciphertext    another key           cancelled
	//	encoded ciphertext    unknown key           concurrent use
	//	no stray call         Calls
	//	silence               Silence
	//	retries               Fail, Calls, Kinds
	//	refusals              Fail, Calls, Kinds
	Without map[string]string
}

// KeyService checks what [keyset.KeyService] promises, and what those of
// [keyset.Generator], [keyset.Rewrapper] and [keyset.Describer] promise that the
// service has. What needs the time of day takes seconds, since back ends have clocks of
// their own.
func KeyService(t *testing.T, h KeyServiceHarness) {
	k := &kit{h}
	runSubtests(t, h.Without, map[string]subtest{
		"round trip":          {run: k.roundTrip},
		"caller's buffers":    {run: k.buffers},
		"contexts":            {run: k.contexts},
		"look-alike contexts": {run: k.lookAlikes},
		"purpose":             {run: k.purpose},
		"damaged ciphertext":  {run: k.damaged},
		"encoded ciphertext":  {run: k.encoded},
		"another key":         {run: k.anotherKey},
		"unknown key":         {run: k.unknownKey},
		"Opens":               {run: k.opens},
		"cancelled":           {run: k.cancelled},
		"concurrent use":      {run: k.concurrent},
		"Generator":           {run: k.generator},
		"Rewrapper":           {run: k.rewrapper},
		"Describer":           {run: k.describer},
		"no stray call":       {k.noStrayCall, missing(h.Calls == nil, "Calls")},
		"silence":             {k.silence, missing(h.Silence == nil, "Silence")},
		"retries":             {k.retries, missing(!h.faults(keyset.Throttled, keyset.Unavailable), "Fail, Calls, or one of throttled and unavailable in Kinds")},
		"refusals":            {k.refusals, missing(!h.faults(keyset.Denied), "Fail, Calls, or denied in Kinds")},
	})
}

// faults reports whether the harness can cause and count failures of the kinds.
func (h KeyServiceHarness) faults(kinds ...keyset.Kind) bool {
	return h.Fail != nil && h.Calls != nil &&
		!slices.ContainsFunc(kinds, func(k keyset.Kind) bool { return !slices.Contains(h.Kinds, k) })
}

type kit struct{ KeyServiceHarness }
