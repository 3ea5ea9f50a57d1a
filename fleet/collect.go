package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/echoseal/echoseal/internal/within"
)

// parallel is how many sources, or addresses of one source, are asked at once.
const parallel = 128

// Collect asks all sources at once and verifies what they answer. It reads the clock
// twice, see [Observation]; nil means time.Now. It returns when every source has
// answered, or soon after ctx ends: whoever has not answered by then is unreachable.
//
// It never fails: what goes wrong is in the observation.
func Collect(ctx context.Context, key *Key, now func() time.Time, sources ...Source) Observation {
	return collect(ctx, key.Verify, now, sources)
}

// CollectUnverified does what [Collect] does for whoever has no key, as when the keyset is
// lost: it takes every report as it stands, and no [ErrMAC] is found. Whoever answers in
// an instance's place can say anything: what is found is to be shown to people, or to
// make a program more careful, and proves nothing.
func CollectUnverified(ctx context.Context, now func() time.Time, sources ...Source) Observation {
	return collect(ctx, unverified, now, sources)
}

func collect(ctx context.Context, read func(signed []byte) (Report, error), now func() time.Time, sources []Source) Observation {
	if now == nil {
		now = time.Now
	}
	o := Observation{Began: plain(now())}
	type found struct {
		instances []Instance
		err       error
	}
	all := each(sources, func(source Source) found {
		answers, err := ask(ctx, source)
		slices.SortStableFunc(answers, func(a, b Answer) int { return strings.Compare(a.Address, b.Address) })
		instances := make([]Instance, len(answers))
		for i, answer := range answers {
			instances[i] = instance(read, source, answer)
		}
		return found{instances, err}
	})
	o.Ended = plain(now())
	seen := make(map[process]int)
	for i, source := range sources {
		o.Sources = append(o.Sources, source.String())
		if err := all[i].err; err != nil {
			o.Failures = append(o.Failures, SourceError{Source: source.String(), Err: err})
		}
		for _, instance := range all[i].instances {
			o.add(seen, instance)
		}
	}
	return o
}

// ask returns what a source answers. One that does not heed the end of ctx is left behind.
func ask(ctx context.Context, source Source) ([]Answer, error) {
	var answers []Answer
	err := within.Call(ctx, func() (err error) {
		answers, err = source.Collect(ctx)
		return err
	})
	if errors.Is(err, within.ErrLeft) {
		return nil, fmt.Errorf("%w: it was not waited for any longer", ErrUnreachable)
	}
	return answers, err
}

// plain returns t as data: in UTC, and without the reading of a monotonic clock.
func plain(t time.Time) time.Time { return t.UTC().Round(0) }

func instance(read func(signed []byte) (Report, error), source Source, answer Answer) Instance {
	i := Instance{Source: source.String(), Address: answer.Address, Registered: answer.Registered, Err: answer.Err}
	if i.Err == nil {
		i.Report, i.Err = read(answer.Signed)
	}
	// Else one instance's report could stand for another one that has gone silent.
	if i.Err == nil && i.Registered && i.Address != i.Report.ID {
		i.Report, i.Err = Report{}, fmt.Errorf("%w: it is registered under another id than its own", ErrMalformed)
	}
	return i
}

// A process is what reports are told apart by.
type process struct {
	id      string
	started int64
}

// add adds an instance, or what is new of it if a report of the same process is there.
func (o *Observation) add(seen map[process]int, i Instance) {
	if i.Err != nil {
		o.Instances = append(o.Instances, i)
		return
	}
	p := process{i.Report.ID, i.Report.Started.UnixMilli()}
	at, there := seen[p]
	if !there {
		seen[p] = len(o.Instances)
		o.Instances = append(o.Instances, i)
		return
	}
	have := &o.Instances[at]
	if i.Report.Now.After(have.Report.Now) {
		have.Report = i.Report
	}
	// A listed address stays live, and never lapses, whatever a registry says.
	if have.Registered && !i.Registered {
		have.Source, have.Address, have.Registered, i.Address = i.Source, i.Address, false, have.Address
	}
	if i.Address != have.Address && !slices.Contains(have.Also, i.Address) {
		have.Also = append(have.Also, i.Address)
	}
}

// each calls f for all elements, many at once, and returns the results in their order.
func each[S, T any](all []S, f func(S) T) []T {
	results := make([]T, len(all))
	slots := make(chan struct{}, parallel)
	var wait sync.WaitGroup
	for i, s := range all {
		slots <- struct{}{}
		wait.Go(func() {
			results[i] = f(s)
			<-slots
		})
	}
	wait.Wait()
	return results
}
