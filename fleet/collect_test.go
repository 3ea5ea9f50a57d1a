package fleet_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/internal/memfleet"
)

// canned is a source with fixed answers.
type canned struct {
	name    string
	answers []fleet.Answer
	err     error
}

func (c canned) String() string { return c.name }

func (c canned) Collect(context.Context) ([]fleet.Answer, error) {
	return slices.Clone(c.answers), c.err
}

// listed and registered are answers with the signed report r.
func listed(t testing.TB, address string, r fleet.Report) fleet.Answer {
	return fleet.Answer{Address: address, Signed: sign(t, mustKey(t, 0), r)}
}

func registered(t testing.TB, r fleet.Report) fleet.Answer {
	return fleet.Answer{Address: r.ID, Registered: true, Signed: sign(t, mustKey(t, 0), r)}
}

// clock returns a clock that goes on by one second at each reading.
func clock(readings *atomic.Int64) func() time.Time {
	return func() time.Time { return noon.Add(time.Duration(readings.Add(1)) * time.Second) }
}

func TestCollect(t *testing.T) {
	key := mustKey(t, 0)
	var readings atomic.Int64
	registry := &memfleet.Registry{Now: func() time.Time { return noon }}
	for _, n := range []int{5, 4} {
		if err := registry.Publish(t.Context(), id(n), sign(t, key, report(n)), 0); err != nil {
			t.Fatal(err)
		}
	}
	alive := serve(t, "127.0.0.1:0", reporting(t, key, report(1)))
	stranger := serve(t, "127.0.0.1:0", reporting(t, mustKey(t, 1), report(2)))
	garbage := serve(t, "127.0.0.1:0", answering(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	dead := serve(t, "127.0.0.1:0", notYet)
	down := canned{name: "down://", err: errors.New("connection refused")}
	half := canned{name: "half://", answers: []fleet.Answer{listed(t, "b", report(7)), listed(t, "a", report(6))}, err: errors.New("stopped half way")}
	sources := fleet.Sources{
		mustHTTP(t, "http://"+alive), mustHTTP(t, "http://"+stranger), mustHTTP(t, "http://"+garbage), mustHTTP(t, "http://"+dead), registry, down, half,
		mustDNS(t, "dns+http://mcp.test:80/", &resolver{name: "mcp.test"}),
	}
	o := fleet.Collect(t.Context(), key, clock(&readings), sources...)

	if o.Began != noon.Add(time.Second) || o.Ended != noon.Add(2*time.Second) || readings.Load() != 2 {
		t.Errorf("began %v, ended %v, after %d readings of the clock", o.Began, o.Ended, readings.Load())
	}
	var uris []string
	for _, s := range sources {
		uris = append(uris, s.String())
	}
	if !slices.Equal(o.Sources, uris) {
		t.Errorf("asked %q, want %q", o.Sources, uris)
	}
	want := []struct {
		address    string
		registered bool
		report     fleet.Report
		err        error
	}{
		{alive, false, report(1), nil},
		{stranger, false, fleet.Report{}, fleet.ErrMAC},
		{garbage, false, fleet.Report{}, fleet.ErrMalformed},
		{dead, false, fleet.Report{}, fleet.ErrUnreachable},
		{id(4), true, report(4), nil},
		{id(5), true, report(5), nil},
		{"a", false, report(6), nil},
		{"b", false, report(7), nil},
	}
	if len(o.Instances) != len(want) {
		t.Fatalf("%d instances, want %d: %+v", len(o.Instances), len(want), o.Instances)
	}
	for i, w := range want {
		got := o.Instances[i]
		if got.Address != w.address || got.Registered != w.registered || !reflect.DeepEqual(got.Report, w.report) || !errors.Is(got.Err, w.err) || got.Also != nil {
			t.Errorf("instance %d is %+v, want %+v", i, got, w)
		}
	}
	if len(o.Failures) != 3 || o.Failures[0].Source != "down://" || o.Failures[1].Source != "half://" || !errors.Is(o.Failures[2], fleet.ErrUnreachable) {
		t.Errorf("failures: %v", o.Failures)
	}
	if got := o.Failures[0].Error(); got != "down://: connection refused" {
		t.Errorf("%q", got)
	}
	if o.Clashes() != nil {
		t.Errorf("clashes: %q", o.Clashes())
	}
}

// Whoever has no key is told what is said, and who says nothing.
func TestCollectUnverified(t *testing.T) {
	stopped := report(2)
	stopped.Stopped = true
	var readings atomic.Int64
	o := fleet.CollectUnverified(t.Context(), clock(&readings),
		mustHTTP(t, "http://"+serve(t, "127.0.0.1:0", reporting(t, mustKey(t, 0), report(1)))),
		mustHTTP(t, "http://"+serve(t, "127.0.0.1:0", reporting(t, mustKey(t, 1), stopped))),
		mustHTTP(t, "http://"+serve(t, "127.0.0.1:0", answering(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))),
		mustHTTP(t, "http://"+serve(t, "127.0.0.1:0", answering(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(strings.Replace(golden, `"revision":`, `"revision":-`, 1)))
		}))),
		mustHTTP(t, "http://"+serve(t, "127.0.0.1:0", notYet)),
		canned{name: "down://", err: errors.New("connection refused")},
	)
	if len(o.Instances) != 5 || len(o.Failures) != 1 || len(o.Sources) != 6 || readings.Load() != 2 {
		t.Fatalf("%+v", o)
	}
	for n, want := range []fleet.Report{report(1), stopped} {
		if i := o.Instances[n]; i.Err != nil || !reflect.DeepEqual(i.Report, want) {
			t.Errorf("%+v", i)
		}
	}
	for n, want := range []error{fleet.ErrMalformed, fleet.ErrMalformed, fleet.ErrUnreachable} {
		if i := o.Instances[2+n]; !errors.Is(i.Err, want) || !reflect.DeepEqual(i.Report, fleet.Report{}) {
			t.Errorf("%+v, want %v", i, want)
		}
	}
}

func TestCollectFromNobody(t *testing.T) {
	var readings atomic.Int64
	o := fleet.Collect(t.Context(), nil, clock(&readings))
	if o.Began != noon.Add(time.Second) || o.Ended != noon.Add(2*time.Second) || o.Sources != nil || o.Instances != nil || o.Failures != nil {
		t.Errorf("%+v", o)
	}
	o = fleet.Collect(t.Context(), mustKey(t, 0), nil, new(memfleet.Registry))
	if len(o.Instances) != 0 || len(o.Failures) != 0 || len(o.Sources) != 1 {
		t.Errorf("%+v", o)
	}
	if o.Began.Location() != time.UTC || o.Began != o.Began.Round(0) || o.Ended.Before(o.Began) {
		t.Errorf("%v to %v is not plain data", o.Began, o.Ended)
	}
}

// Without a key nothing is believed.
func TestCollectWithoutAKey(t *testing.T) {
	o := fleet.Collect(t.Context(), nil, nil, canned{name: "x", answers: []fleet.Answer{listed(t, "a", report(1))}})
	if len(o.Instances) != 1 || !errors.Is(o.Instances[0].Err, fleet.ErrConfig) || o.Instances[0].Report.ID != "" {
		t.Errorf("%+v", o.Instances)
	}
}

// same compares two instances without an error.
func same(a, b fleet.Instance) bool {
	return a.Err == nil && b.Err == nil && a.Source == b.Source && a.Address == b.Address && a.Registered == b.Registered &&
		slices.Equal(a.Also, b.Also) && reflect.DeepEqual(a.Report, b.Report)
}

func TestOneProcessCountsOnce(t *testing.T) {
	older, newer, other := report(1), report(1), report(1)
	newer.Now, newer.Revision = older.Now.Add(time.Second), 8
	other.Started = other.Started.Add(time.Millisecond)
	stopped := newer
	stopped.Stopped = true
	const first, second = "first://", "second://"
	collect := func(a, b []fleet.Answer) fleet.Observation {
		return fleet.Collect(t.Context(), mustKey(t, 0), nil, canned{name: first, answers: a}, canned{name: second, answers: b})
	}
	one := func(r fleet.Report) []fleet.Answer { return []fleet.Answer{registered(t, r)} }
	at := func(address string, r fleet.Report) []fleet.Answer { return []fleet.Answer{listed(t, address, r)} }
	for name, c := range map[string]struct {
		a, b []fleet.Answer
		want fleet.Instance
	}{
		"two addresses, the newer report counts": {
			at("a:1", older), at("b:1", newer), fleet.Instance{Source: first, Address: "a:1", Also: []string{"b:1"}, Report: newer},
		},
		"whichever is first": {
			at("a:1", newer), at("b:1", older), fleet.Instance{Source: first, Address: "a:1", Also: []string{"b:1"}, Report: newer},
		},
		"one address listed twice": {
			at("a:1", older), at("a:1", newer), fleet.Instance{Source: first, Address: "a:1", Report: newer},
		},
		"listed and registered": {
			at("a:1", newer), one(older), fleet.Instance{Source: first, Address: "a:1", Also: []string{id(1)}, Report: newer},
		},
		"registered and listed": {
			one(newer), at("a:1", older), fleet.Instance{Source: second, Address: "a:1", Also: []string{id(1)}, Report: newer},
		},
		"a listed address stays live": {
			at("a:1", older), one(stopped), fleet.Instance{Source: first, Address: "a:1", Also: []string{id(1)}, Report: stopped},
		},
		"in two registries": {
			one(older), one(stopped), fleet.Instance{Source: first, Address: id(1), Registered: true, Report: stopped},
		},
	} {
		o := collect(c.a, c.b)
		if len(o.Instances) != 1 || !same(o.Instances[0], c.want) {
			t.Errorf("%s: %+v\nwant %+v", name, o.Instances, c.want)
		}
		if o.Clashes() != nil {
			t.Errorf("%s: clashes %q", name, o.Clashes())
		}
	}
	o := collect(at("a:1", older), append(at("b:1", other), at("c:1", report(2))...))
	if got := o.Clashes(); len(o.Instances) != 3 || !slices.Equal(got, []string{id(1)}) {
		t.Errorf("two processes with one id: %d instances, clashes %q", len(o.Instances), got)
	}
}

// One instance's report does not stand for another's in a registry.
func TestRegisteredUnderAnotherID(t *testing.T) {
	answer := registered(t, report(1))
	answer.Address = id(2)
	o := fleet.Collect(t.Context(), mustKey(t, 0), nil, canned{name: "x", answers: []fleet.Answer{answer}})
	wantErr(t, "another id", o.Instances[0].Err, fleet.ErrMalformed, "another id")
	if i := o.Instances[0]; i.Report.ID != "" || !i.Live() {
		t.Errorf("%+v", i)
	}
}

// An instance that stopped in good order, one that died, and one that came back.
func TestLifeInARegistry(t *testing.T) {
	const every, stale, skew = 15 * time.Second, 10 * time.Minute, time.Minute
	key := mustKey(t, 0)
	now := noon
	registry := &memfleet.Registry{Now: func() time.Time { return now }}
	publish := func(r fleet.Report) {
		t.Helper()
		r.Now = now
		if err := registry.Publish(t.Context(), r.ID, sign(t, key, r), fleet.Keep(every, stale, skew)); err != nil {
			t.Fatal(err)
		}
	}
	type state struct{ live, fresh bool }
	observe := func() map[string]state {
		o := fleet.Collect(t.Context(), key, func() time.Time { return now }, registry)
		states := make(map[string]state)
		for _, i := range o.Instances {
			states[i.Name()] = state{i.Live(), i.Report.Fresh(o.Began)}
		}
		return states
	}
	expect := func(when string, want map[string]state) {
		t.Helper()
		if got := observe(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	stopping, dying, back := report(1), report(2), report(3)
	publish(stopping)
	publish(dying)
	publish(back)
	expect("at first", map[string]state{"mcp-1": {true, true}, "mcp-2": {true, true}, "mcp-3": {true, true}})

	now = noon.Add(3 * every)
	stopping.Stopped = true
	publish(stopping)
	expect("after three intervals", map[string]state{"mcp-1": {false, true}, "mcp-2": {true, true}, "mcp-3": {true, true}})
	now = now.Add(time.Second)
	expect("after more than three", map[string]state{"mcp-1": {false, true}, "mcp-2": {true, false}, "mcp-3": {true, false}})

	publish(back)
	expect("when one is back", map[string]state{"mcp-1": {false, true}, "mcp-2": {true, false}, "mcp-3": {true, true}})

	o := fleet.Collect(t.Context(), key, func() time.Time { return now }, registry)
	lapses := o.Instances[1].Lapses(stale, skew)
	now = lapses.Add(-time.Millisecond)
	expect("just before the dead one lapses", map[string]state{"mcp-1": {false, false}, "mcp-2": {true, false}, "mcp-3": {true, false}})
	now = lapses
	expect("when it has lapsed", map[string]state{"mcp-1": {false, false}, "mcp-3": {true, false}})

	// Its successor is another process.
	successor := report(4)
	successor.Host = dying.Host
	publish(successor)
	if err := registry.Forget(t.Context(), back.ID); err != nil {
		t.Fatal(err)
	}
	expect("in the end", map[string]state{"mcp-1": {false, false}, "mcp-2": {true, true}})
}

// notYet has no report to give.
var notYet = fleet.Handler(func(context.Context) ([]byte, error) { return nil, errors.New("no keyset yet") })

// A listed address that is dead still counts, and whoever comes back is another process.
func TestLifeAtAnAddress(t *testing.T) {
	key := mustKey(t, 0)
	stopped := report(1)
	stopped.Stopped = true
	handlers := []http.Handler{reporting(t, key, report(1)), reporting(t, key, stopped), notYet, reporting(t, key, report(2))}
	var life atomic.Int32
	address := serve(t, "127.0.0.1:0", answering(func(w http.ResponseWriter, r *http.Request) { handlers[life.Load()].ServeHTTP(w, r) }))
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]fleet.Source{
		"http": mustHTTP(t, "http://"+address),
		"dns":  mustDNS(t, "dns+http://mcp.test:"+port, &resolver{name: "mcp.test", addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}),
	} {
		for n, want := range []struct {
			id      string
			stopped bool
			err     error
		}{{id(1), false, nil}, {id(1), true, nil}, {"", false, fleet.ErrUnreachable}, {id(2), false, nil}} {
			life.Store(int32(n))
			o := fleet.Collect(t.Context(), key, nil, source)
			if len(o.Instances) != 1 || len(o.Failures) != 0 {
				t.Fatalf("%s %d: %+v", name, n, o)
			}
			i := o.Instances[0]
			if i.Report.ID != want.id || i.Report.Stopped != want.stopped || !errors.Is(i.Err, want.err) || !i.Live() || i.Address != address || !i.Lapses(time.Hour, time.Minute).IsZero() {
				t.Errorf("%s %d: %+v, live %v", name, n, i, i.Live())
			}
		}
	}
}

// Sources are asked at the same time, and the clock is read before and after all.
func TestSourcesAreAskedAtOnce(t *testing.T) {
	const n = 8
	arrived := make(chan struct{}, n)
	all := make(chan struct{})
	go func() {
		for range n {
			<-arrived
		}
		close(all)
	}()
	var sources []fleet.Source
	for range n {
		sources = append(sources, mustHTTP(t, "http://"+serve(t, "127.0.0.1:0", answering(func(w http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			select { // no answer before all have been asked
			case <-all:
				_, _ = w.Write([]byte(golden))
			case <-r.Context().Done():
			}
		}))))
	}
	o := fleet.Collect(t.Context(), mustKey(t, 0), nil, sources...)
	if len(o.Instances) != 1 || o.Instances[0].Err != nil || len(o.Instances[0].Also) != n-1 {
		t.Errorf("%+v", o.Instances)
	}
}

func TestCollectEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	silent := serve(t, "127.0.0.1:0", answering(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case release <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}))
	alive := serve(t, "127.0.0.1:0", reporting(t, mustKey(t, 0), report(1)))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-release
		cancel()
	}()
	o := fleet.Collect(ctx, mustKey(t, 0), nil, mustHTTP(t, "http://"+alive), mustHTTP(t, "http://"+silent))
	if len(o.Instances) != 2 {
		t.Fatalf("%+v", o.Instances)
	}
	wantErr(t, "the silent one", o.Instances[1].Err, fleet.ErrUnreachable)
}

// deaf does not notice that its context has ended.
type deaf struct{ canned }

func (d deaf) Collect(ctx context.Context) ([]fleet.Answer, error) {
	time.Sleep(time.Hour)
	return d.canned.Collect(ctx)
}

// A source that does not heed its context is a failed one, and holds up nobody.
func TestCollectLeavesTheDeafBehind(t *testing.T) {
	good := canned{name: "good://", answers: []fleet.Answer{listed(t, "a", report(1))}}
	key := mustKey(t, 0)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		o := fleet.Collect(ctx, key, nil, deaf{canned{name: "deaf://"}}, good)
		if took := time.Since(began); took > 12*time.Second {
			t.Errorf("it took %v", took)
		}
		if len(o.Failures) != 1 || o.Failures[0].Source != "deaf://" || len(o.Instances) != 1 || o.Instances[0].Err != nil {
			t.Errorf("%+v", o)
		} else {
			wantErr(t, "deaf", o.Failures[0], fleet.ErrUnreachable)
		}
		time.Sleep(2 * time.Hour) // it comes to an end
	})
}

// A cause that names its source already does not name it twice.
func TestSourceErrorNamesTheSourceOnce(t *testing.T) {
	for _, cause := range []string{"collect: refused", "etcd://h:1/k: collect: refused"} {
		err := fleet.SourceError{Source: "etcd://h:1/k", Err: errors.New(cause)}
		if err.Error() != "etcd://h:1/k: collect: refused" {
			t.Errorf("%q says %q", cause, err.Error())
		}
	}
}
