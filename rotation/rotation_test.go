package rotation_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

var start = time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC)

const (
	settle = 2 * time.Minute
	skew   = time.Minute
	stale  = time.Hour
	ttl    = 10 * time.Minute
	every  = 15 * time.Second // between an instance's reads of the store
	source = "http://mcp-a:9000/fleet"
)

// A scene is a keyset and the fleet that is found at a time.
type scene struct {
	*testing.T
	d        *keyset.Document
	services keyset.Services
	old, new string // key ids; the second one is made by stage
	now      time.Time
	o        fleet.Observation
	request  rotation.Request
}

func newScene(t *testing.T) *scene {
	s := &scene{T: t, services: keyset.Services{memkek.New("a")}, now: start}
	d, auth, err := keyset.Init(t.Context(), s.services, keyset.InitOptions{Name: "fleet", Note: s.note()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.Encode(d); err != nil {
		t.Fatal(err)
	}
	s.d, s.old = d, d.Primary().KID
	return s
}

func (s *scene) note() keyset.Note { return keyset.Note{At: s.now, Actor: "test"} }

// do makes a change now.
func (s *scene) do(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
	s.d.Revision++
}

func (s *scene) stage() {
	k, err := s.d.GenerateKey(s.Context(), s.services, s.now)
	if err != nil {
		s.Fatal(err)
	}
	s.new = k.KID
	s.do(s.d.Stage(s.note(), k))
}

// later lets time pass, and an observation is made anew.
func (s *scene) later(d time.Duration) {
	s.now = s.now.Add(d)
	s.o = fleet.Observation{Began: s.now, Ended: s.now.Add(time.Second)}
}

// instance adds an instance that follows, and returns it to be changed.
func (s *scene) instance(host string) *fleet.Instance {
	r := fleet.Report{
		ID: fmt.Sprintf("%032x", len(s.o.Instances)+1), Host: host, Started: start, Now: s.now, Every: every,
		Keyset: s.d.Name, Lineage: s.d.Lineage, Revision: s.d.Revision, Tag: base64.StdEncoding.EncodeToString(s.d.Tag),
		Loaded: s.now, Primary: s.d.Primary().KID, TTL: s.d.TTL, Ready: true,
	}
	for _, k := range s.d.Keys {
		if k.Unseals() {
			r.Verifies = append(r.Verifies, k.KID)
		}
	}
	s.o.Sources = []string{source}
	s.o.Instances = append(s.o.Instances, fleet.Instance{Source: source, Address: host + ":9000", Report: r})
	return &s.o.Instances[len(s.o.Instances)-1]
}

func (s *scene) next() rotation.Step { return rotation.Next(s.d, s.o, s.now, s.request) }

// want checks the next step: its kind, its goal, its time (zero: none), its codes.
func (s *scene) want(kind, goal rotation.Kind, kid string, at time.Time, codes ...rotation.Code) rotation.Step {
	s.Helper()
	step := s.next()
	var got []rotation.Code
	for _, r := range step.Reasons {
		got = append(got, r.Code)
	}
	if step.Kind != kind || step.Goal != goal || step.KID != kid || !step.NotBefore.Equal(at) || !slices.Equal(got, codes) {
		s.Errorf("%+v", step)
		s.Errorf("want %s %s %s %v %q", kind, goal, kid, at, codes)
	}
	return step
}

var never time.Time

func TestWholeRotation(t *testing.T) {
	s := newScene(t)
	s.later(time.Hour)
	s.instance("mcp-a")
	s.want(rotation.Done, rotation.Done, s.old, start.Add(720*time.Hour))
	s.later(719 * time.Hour)
	s.want(rotation.Stage, rotation.Stage, s.old, never, rotation.DueAge) // whatever is wrong with the fleet
	step := s.next()
	fresh, err := s.d.GenerateKey(t.Context(), s.services, s.now)
	if err != nil {
		t.Fatal(err)
	}
	apply := func() {
		t.Helper()
		s.do(step.Apply(s.d, s.note(), fresh))
		if s.d.History[len(s.d.History)-1].Action != string(step.Kind) {
			t.Errorf("%s made the history %+v", step.Kind, s.d.History)
		}
	}
	apply()
	s.new = fresh.KID

	at := s.now.Add(settle + skew)
	s.later(settle + skew - time.Millisecond)
	s.instance("mcp-a").Report.Verifies = []string{s.old}
	s.instance("mcp-b")
	s.want(rotation.Wait, rotation.Promote, s.new, at, rotation.NotVerifying, rotation.Settling)
	s.later(time.Millisecond)
	s.instance("mcp-a").Report.Verifies = []string{s.old}
	s.instance("mcp-b")
	s.want(rotation.Wait, rotation.Promote, s.new, never, rotation.NotVerifying)
	s.later(2 * every)
	s.instance("mcp-a").Report.Verifies = []string{s.old}
	s.instance("mcp-b")
	s.want(rotation.Blocked, rotation.Promote, s.new, never, rotation.NotVerifying)
	s.later(0)
	s.instance("mcp-a")
	s.instance("mcp-b")
	step = s.want(rotation.Promote, rotation.Promote, s.new, never)
	apply()

	at = s.now.Add(settle + skew)
	s.later(settle + skew - time.Millisecond)
	s.instance("mcp-a").Report.Primary = s.old
	s.want(rotation.Wait, rotation.Drain, s.old, at, rotation.StillSealing, rotation.Settling)
	s.later(time.Millisecond)
	s.instance("mcp-a").Report.Primary = s.old
	s.want(rotation.Wait, rotation.Drain, s.old, never, rotation.StillSealing)
	s.later(2 * every)
	s.instance("mcp-a").Report.Primary = s.old
	s.want(rotation.Blocked, rotation.Drain, s.old, never, rotation.StillSealing)
	s.o.Instances[0].Report.Primary = ""
	s.want(rotation.Blocked, rotation.Drain, s.old, never, rotation.NotSealing)
	s.later(0)
	s.instance("mcp-a")
	step = s.want(rotation.Drain, rotation.Drain, s.old, never)
	apply()

	at = s.now.Add(ttl + 2*skew)
	s.later(ttl + 2*skew - time.Millisecond)
	s.want(rotation.Wait, rotation.Retire, s.old, at, rotation.Expiring)
	s.later(time.Millisecond)
	s.o.Failures = []fleet.SourceError{{Source: source, Err: errors.New("down")}} // no report is needed
	step = s.want(rotation.Retire, rotation.Retire, s.old, never)
	apply()
	s.want(rotation.Done, rotation.Done, s.new, s.d.Primary().Promoted.Add(720*time.Hour))
	if err := s.next().Apply(s.d, s.note(), fresh); err == nil {
		t.Error("a step that changes nothing is applied")
	}
}

// staged is a scene in which nothing stands in the way of a promotion.
func staged(t *testing.T) *scene {
	s := newScene(t)
	s.stage()
	s.later(settle + skew)
	s.instance("mcp-a")
	s.instance("mcp-b")
	return s
}

func TestEveryFaultBlocksPromoteAndDrain(t *testing.T) {
	faults := []struct {
		name  string
		code  rotation.Code
		spoil func(s *scene, i *fleet.Instance)
		says  string
	}{
		{"zero reports", rotation.NoReports, func(s *scene, _ *fleet.Instance) { s.o.Instances = nil }, "no instance reports"},
		{"all stopped", rotation.NoReports, func(s *scene, _ *fleet.Instance) {
			for i := range s.o.Instances {
				s.o.Instances[i].Registered, s.o.Instances[i].Report.Stopped = true, true
			}
		}, "no instance reports"},
		{"no source", rotation.NoSource, func(s *scene, _ *fleet.Instance) { s.o.Sources, s.o.Instances = nil, nil }, "no source"},
		{"failed source", rotation.SourceFailed, func(s *scene, _ *fleet.Instance) {
			s.o.Failures = []fleet.SourceError{{Source: "etcd://e:1/x", Err: errors.New("no leader")}}
		}, "etcd://e:1/x: no leader"},
		{"unreachable", rotation.Unreachable, func(_ *scene, i *fleet.Instance) {
			i.Report, i.Err = fleet.Report{}, fmt.Errorf("%w: refused", fleet.ErrUnreachable)
		}, "mcp-b:9000: unreachable: refused"},
		{"bad MAC", rotation.BadMAC, func(_ *scene, i *fleet.Instance) { i.Report, i.Err = fleet.Report{}, fleet.ErrMAC }, "mcp-b:9000: "},
		{"malformed", rotation.Malformed, func(_ *scene, i *fleet.Instance) { i.Report, i.Err = fleet.Report{}, fleet.ErrMalformed }, "mcp-b:9000: "},
		{"some other error", rotation.Malformed, func(_ *scene, i *fleet.Instance) { i.Report, i.Err = fleet.Report{}, errors.New("odd") }, "mcp-b:9000: odd"},
		{"other lineage", rotation.OtherLineage, func(_ *scene, i *fleet.Instance) { i.Report.Lineage = "another" }, "another keyset"},
		{"other name", rotation.OtherLineage, func(_ *scene, i *fleet.Instance) { i.Report.Keyset = "another" }, "another keyset"},
		{"newer revision", rotation.NewerRevision, func(_ *scene, i *fleet.Instance) { i.Report.Revision++ }, "newer revision"},
		{"fork", rotation.Fork, func(_ *scene, i *fleet.Instance) { i.Report.Tag = "another" }, "same revision"},
		{"stale", rotation.Silent, func(_ *scene, i *fleet.Instance) {
			i.Registered, i.Report.Now = true, i.Report.Now.Add(-45*time.Second)
		}, "it has stopped reporting; it counts as running until "},
		{"stale at an address", rotation.Silent, func(_ *scene, i *fleet.Instance) { i.Report.Every = time.Millisecond }, "it has stopped reporting"},
		{"clock ahead", rotation.ClockOff, func(s *scene, i *fleet.Instance) {
			i.Registered, i.Report.Now = true, s.o.Ended.Add(skew/2+time.Millisecond)
		}, "its clock is 30.001s ahead; at most 30s is allowed"},
		{"clock behind", rotation.ClockOff, func(s *scene, i *fleet.Instance) { i.Report.Now = s.o.Began.Add(-skew/2 - time.Millisecond) }, "its clock is 30.001s behind; at most 30s is allowed"},
		{"twin", rotation.DuplicateID, func(s *scene, i *fleet.Instance) {
			i.Report.ID, i.Report.Started = s.o.Instances[0].Report.ID, start.Add(1)
		}, "another process reports under its id"},
		{"too few", rotation.TooFewReports, func(s *scene, _ *fleet.Instance) { s.d.Policy.MinInstances = 3 }, "2 instances report, and at least 3 have to"},
		{"fewer than asked for", rotation.TooFewReports, func(s *scene, _ *fleet.Instance) {
			p := s.d.Policy
			p.MinInstances = 4
			s.request.Policy = &p
		}, "2 instances report, and at least 4 have to"},
	}
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			s := staged(t)
			s.want(rotation.Promote, rotation.Promote, s.new, never)
			fault.spoil(s, &s.o.Instances[1])
			check := func(step rotation.Step) {
				t.Helper()
				r := step.Reasons[0]
				if r.Code != fault.code || !r.Fault() || step.Kind != rotation.Blocked || step.NotBefore != never {
					t.Errorf("%+v", step)
				}
				if !strings.Contains(r.String(), fault.says) || r.Fix() == "" {
					t.Errorf("%s\nfix %s", r, r.Fix())
				}
			}
			check(s.next())
			if s.request.Policy == nil {
				s.request.Force = true
				if step := s.next(); step.Kind != rotation.Promote || !step.Forced() {
					t.Errorf("--force: %+v", step)
				}
				s.request.Force = false
			}

			s = staged(t)
			s.do(s.d.Promote(s.note(), s.new))
			s.later(settle + skew)
			s.instance("mcp-a")
			s.instance("mcp-b")
			s.want(rotation.Drain, rotation.Drain, s.old, never)
			fault.spoil(s, &s.o.Instances[1])
			check(s.next())
			s.request.Force = true
			check(s.next()) // a drain is never forced: a key would go under which tokens live

			// What needs no report is blocked by nothing but a document that is not the newest,
			// and a clock that is ahead.
			s.do(s.d.Drain(s.note(), s.old))
			s.later(24 * time.Hour)
			s.instance("mcp-a")
			s.instance("mcp-b")
			fault.spoil(s, &s.o.Instances[1])
			if fault.code == rotation.NewerRevision || fault.code == rotation.Fork {
				s.want(rotation.Blocked, rotation.Retire, s.old, never, fault.code)
				return
			}
			if fault.name == "clock behind" {
				s.want(rotation.Retire, rotation.Retire, s.old, never, fault.code) // which is forced
				s.request.Force = false
				s.want(rotation.Blocked, rotation.Retire, s.old, never, fault.code)
				return
			}
			s.want(rotation.Retire, rotation.Retire, s.old, never)
			s.do(s.d.Retire(s.note(), s.old))
			s.request.Replace = s.new
			s.want(rotation.Stage, rotation.Stage, s.new, never, rotation.DueReplace)
		})
	}
}

// A clock that is ahead comes to the end of every wait too early. Whoever is asked shows it;
// that the report in a registry is old shows nothing.
func TestRetireByAClockThatIsAhead(t *testing.T) {
	drained := func(t *testing.T) *scene {
		s := staged(t)
		s.do(s.d.Promote(s.note(), s.new))
		s.do(s.d.Drain(s.note(), s.old))
		s.later(ttl + 2*skew)
		return s
	}
	const behind = -skew/2 - time.Second
	s := drained(t)
	slow := s.instance("mcp-a")
	slow.Report.Now = s.o.Began.Add(behind)
	step := s.want(rotation.Blocked, rotation.Retire, s.old, never, rotation.ClockOff)
	if len(step.Reasons) != 1 || step.Reasons[0].Fix() != "correct the clock of mcp-a, or that of this host" {
		t.Errorf("%q", step.Reasons)
	}
	s.request.Force = true
	if step := s.want(rotation.Retire, rotation.Retire, s.old, never, rotation.ClockOff); !step.Forced() {
		t.Errorf("not forced: %+v", step)
	}
	s.now = s.now.Add(-time.Second) // what time there is to wait is waited for all the same
	s.o.Began = s.now
	s.want(rotation.Wait, rotation.Retire, s.old, s.now.Add(time.Second), rotation.Expiring)

	s = drained(t)
	s.instance("mcp-a").Report.Now = s.o.Began.Add(-skew / 2)
	s.want(rotation.Retire, rotation.Retire, s.old, never)
	s.o.Instances[0].Report.Now = s.o.Ended.Add(time.Hour) // an instance that is ahead is no danger
	s.want(rotation.Retire, rotation.Retire, s.old, never)
	s.o.Instances[0].Report.Now, s.o.Instances[0].Registered = s.o.Began.Add(-time.Hour), true
	s.want(rotation.Retire, rotation.Retire, s.old, never)
	s.o.Instances[0].Registered, s.o.Instances[0].Report.Lineage = false, "another"
	s.want(rotation.Retire, rotation.Retire, s.old, never)

	// Where all that tell the time agree, the clock of this host is the one to correct.
	for name, c := range map[string]struct {
		offsets    []time.Duration
		registered int // the last ones
		here       bool
	}{
		"all behind":          {[]time.Duration{-time.Hour, -time.Hour - skew/2}, 0, true},
		"one right":           {[]time.Duration{-time.Hour, 0}, 0, false},
		"one ahead":           {[]time.Duration{-time.Hour, time.Hour}, 0, false},
		"each another way":    {[]time.Duration{-time.Hour, -2 * time.Hour}, 0, false},
		"all ahead":           {[]time.Duration{time.Hour, time.Hour}, 0, true},
		"all ahead, reported": {[]time.Duration{time.Hour, time.Hour}, 2, true},

		// The age of a report says nothing of a clock.
		"one behind, others old":  {[]time.Duration{-45 * time.Second, -40 * time.Second, -50 * time.Second}, 2, false},
		"two behind, another old": {[]time.Duration{-45 * time.Second, -45 * time.Second, -time.Second}, 1, true},
	} {
		s := drained(t)
		for i, offset := range c.offsets {
			in := s.instance(fmt.Sprintf("mcp-%c", 'a'+i))
			in.Registered, in.Report.Now = i >= len(c.offsets)-c.registered, s.o.Began.Add(offset)
			in.Report.Every = 20 * time.Second // so that the old ones are fresh all the same
		}
		faults := rotation.Faults(s.d, s.o, s.now)
		if len(faults) == 0 {
			t.Errorf("%s: no fault", name)
		}
		for _, r := range faults {
			if got := strings.Contains(r.Fix(), "of this host: the instances agree"); r.Code != rotation.ClockOff || got != c.here {
				t.Errorf("%s: %s; fix %s", name, r, r.Fix())
			}
		}
	}
}

// A store that was restored from an old copy has a document that servers have left behind.
// To go on from it would fork the keyset.
func TestOldDocument(t *testing.T) {
	for code, spoil := range map[rotation.Code]func(*fleet.Report){
		rotation.NewerRevision: func(r *fleet.Report) { r.Revision++ },
		rotation.Fork:          func(r *fleet.Report) { r.Tag = "another" },
	} {
		s := newScene(t)
		due := start.Add(s.d.Policy.MaxAge)
		s.later(s.d.Policy.MaxAge)
		i := s.instance("mcp-a")
		spoil(&i.Report)
		step := s.want(rotation.Blocked, rotation.Stage, s.old, never, code, rotation.DueAge)
		if r := step.Reasons[0]; !strings.Contains(r.Fix(), "newest copy") {
			t.Errorf("%s\nfix %s", r, r.Fix())
		}
		s.request.Replace = s.old
		s.want(rotation.Blocked, rotation.Stage, s.old, never, code, rotation.DueAge, rotation.DueReplace)
		s.request.Force = true
		if step := s.want(rotation.Stage, rotation.Stage, s.old, never, code, rotation.DueAge, rotation.DueReplace); !step.Forced() {
			t.Errorf("%+v", step)
		}
		s.request = rotation.Request{}

		// A process that has ended holds nothing that could be forked.
		i.Registered, i.Report.Stopped = true, true
		if step := s.want(rotation.Stage, rotation.Stage, s.old, never, rotation.DueAge); step.Forced() {
			t.Errorf("%+v", step)
		}
		// One that is silent for now may come back with what it holds.
		i.Report.Stopped, i.Report.Now = false, s.now.Add(-time.Hour)
		s.want(rotation.Blocked, rotation.Stage, s.old, never, code, rotation.DueAge)
		// Whoever has another keyset, or no proof of one, is no evidence.
		i.Report.Lineage = "another"
		s.want(rotation.Stage, rotation.Stage, s.old, never, rotation.DueAge)
		i.Report.Lineage, i.Err = s.d.Lineage, fleet.ErrMAC
		s.want(rotation.Stage, rotation.Stage, s.old, never, rotation.DueAge)
		// What is not due is not blocked.
		i.Err = nil
		s.later(-time.Minute)
		spoil(&s.instance("mcp-a").Report)
		s.want(rotation.Done, rotation.Done, s.old, due)
	}
}

// What is called off in a later document may be in use again there: nothing is dropped by
// an older one.
func TestOldDocumentRetiresNothing(t *testing.T) {
	s := staged(t)
	s.do(s.d.Promote(s.note(), s.new))
	s.later(settle + skew)
	s.do(s.d.Drain(s.note(), s.old))
	copied := s.d.Next()
	// Until a while ago the old key has sealed again, and no report shows that it did.
	s.do(s.d.Rollback(s.note(), s.old))
	s.later(24 * time.Hour)
	s.do(s.d.Rollback(s.note(), s.new))
	s.later(time.Minute)
	s.instance("mcp-a")
	s.d = copied
	for _, force := range []bool{false, true} {
		s.request.Force = force
		s.want(rotation.Blocked, rotation.Retire, s.old, never, rotation.NewerRevision)
	}
}

// Faults are what blocks a promotion whatever its key, open or not.
func TestFaults(t *testing.T) {
	s := staged(t)
	if got := rotation.Faults(s.d, s.o, s.now); got != nil {
		t.Errorf("%+v", got)
	}
	s.o.Instances[0].Report.Revision++
	s.o.Instances[1].Err = fleet.ErrMAC
	s.o.Instances[1].Report = fleet.Report{}
	s.instance("mcp-c").Report.Verifies = nil // it lags
	blocked := s.next().Reasons
	s.do(s.d.Abort(s.note(), s.new))
	s.d.Revision -= 1
	got := rotation.Faults(s.d, s.o, s.now)
	if len(got) != 2 || got[0].Code != rotation.NewerRevision || got[1].Code != rotation.BadMAC || !slices.Equal(got, blocked[:2]) {
		t.Errorf("%+v", got)
	}
}

// Force by itself drops no key earlier; with a policy that asks for less it does.
func TestForceHastensByItsPolicyOnly(t *testing.T) {
	s := staged(t)
	s.do(s.d.Promote(s.note(), s.new))
	s.later(settle)
	s.instance("mcp-a")
	loose := s.d.Policy
	loose.Settle, loose.MaxSkew = 0, time.Second
	demoted := s.d.Key(s.old).Demoted
	s.request.Force = true
	s.want(rotation.Wait, rotation.Drain, s.old, demoted.Add(settle+skew), rotation.Settling)
	s.request.Policy = &loose
	s.want(rotation.Drain, rotation.Drain, s.old, never)

	s.do(s.d.Drain(s.note(), s.old))
	drained := s.d.Key(s.old).Drained
	s.later(ttl + 2*loose.MaxSkew)
	s.want(rotation.Retire, rotation.Retire, s.old, never)
	s.request.Policy = nil
	s.want(rotation.Wait, rotation.Retire, s.old, drained.Add(ttl+2*skew), rotation.Expiring)
}

// An instance is late once it has had two of its intervals to follow, or is not ready any
// more, whatever settle is.
func TestLate(t *testing.T) {
	for _, c := range []struct{ every, stale, patience time.Duration }{
		{every, time.Hour, 2 * every},
		{10 * time.Minute, time.Hour, 20 * time.Minute},
		{10 * time.Minute, 15 * time.Minute, 15 * time.Minute},
		{10 * time.Minute, 0, 20 * time.Minute},
	} {
		s := staged(t)
		s.d.Policy.MaxStale = c.stale
		at := s.d.Key(s.new).Staged.Add(settle + skew + c.patience)
		look := func(then time.Time) rotation.Step {
			s.later(then.Sub(s.now))
			i := s.instance("mcp-a")
			i.Report.Every, i.Report.Verifies = c.every, []string{s.old}
			return s.next()
		}
		if step := look(at.Add(-1)); step.Kind != rotation.Wait || !step.NotBefore.IsZero() || len(step.Reasons) != 1 || !step.Reasons[0].Until.Equal(at) {
			t.Errorf("%+v: %+v", c, step)
		}
		if step := look(at); step.Kind != rotation.Blocked {
			t.Errorf("%+v: %+v", c, step)
		}
	}
}

// starting makes of an instance one that has come up so long ago, and has nothing yet but
// its place in the registry.
func (s *scene) starting(host string, ago time.Duration) *fleet.Instance {
	i := s.instance(host)
	i.Report.Started, i.Report.Loaded = s.now.Add(-ago), time.Time{}
	i.Report.Ready, i.Report.Reason, i.Report.Primary, i.Report.Verifies = false, fleet.Starting, "", nil
	return i
}

// A rolling deployment in an open rotation is waited for, and blocks it only once a server
// takes too long; what waits for it never goes on without it.
func TestStarting(t *testing.T) {
	const long = 2 * time.Minute
	type look struct {
		name   string
		change func(i *fleet.Instance)
		wait   bool
	}
	looks := func(ago time.Duration) []look {
		return []look{
			{"just now", func(*fleet.Instance) {}, ago < long},
			{"one of its keys is opened", func(i *fleet.Instance) { i.Report.Loaded, i.Report.Verifies = i.Report.Now, []string{"00000000"} }, ago < long},
			{"it has been ready", func(i *fleet.Instance) { i.Report.Reason = "stale" }, false},
			{"it is ready", func(i *fleet.Instance) { i.Report.Ready = true }, false},
			{"its clock was set back", func(i *fleet.Instance) { i.Report.Started = i.Report.Now.Add(1) }, false},
		}
	}
	check := func(step rotation.Step, goal rotation.Kind, code rotation.Code, ago time.Duration, wait bool) {
		t.Helper()
		kind := rotation.Blocked
		if wait {
			kind = rotation.Wait
		}
		if step.Kind != kind || step.Goal != goal || step.NotBefore != never || len(step.Reasons) != 1 || step.Reasons[0].Code != code || step.Reasons[0].Instance != "mcp-b" {
			t.Errorf("%v after it began: %+v", ago, step)
		}
	}
	for _, ago := range []time.Duration{0, time.Minute, long - 1, long, time.Hour} {
		for _, c := range looks(ago) {
			t.Run(fmt.Sprintf("%s, %v", c.name, ago), func(t *testing.T) {
				s := staged(t)
				s.later(time.Hour)
				s.instance("mcp-a")
				s.starting("mcp-b", ago)
				c.change(&s.o.Instances[1])
				check(s.next(), rotation.Promote, rotation.NotVerifying, ago, c.wait)

				s.do(s.d.Promote(s.note(), s.new))
				s.later(time.Hour)
				s.instance("mcp-a")
				c.change(s.starting("mcp-b", ago))
				check(s.next(), rotation.Drain, rotation.NotSealing, ago, c.wait)
				s.o.Instances[1].Report.Primary = s.old
				check(s.next(), rotation.Drain, rotation.StillSealing, ago, c.wait)

				s.o.Instances[1].Report.Revision--
				check(rotation.Obeyed(s.d, s.o, s.now), rotation.Obey, rotation.Behind, ago, c.wait)
			})
		}
	}
}

// What keeps a server from ever being ready is told at once, and whoever is late is not
// hidden behind one that starts.
func TestStartingIsNoExcuse(t *testing.T) {
	s := staged(t)
	s.later(time.Hour)
	s.instance("mcp-a")
	s.starting("mcp-b", 0).Report.Failed = []fleet.Failure{{KID: s.new, Kind: string(keyset.Denied)}}
	s.want(rotation.Blocked, rotation.Promote, s.new, never, rotation.CannotUnwrap)
	s.o.Instances[1].Report.Failed[0].Kind = string(keyset.Throttled)
	s.want(rotation.Wait, rotation.Promote, s.new, never, rotation.CannotUnwrap)
	s.o.Instances[1].Report.Now = s.now.Add(-time.Minute)
	s.o.Instances[1].Registered = true
	s.want(rotation.Blocked, rotation.Promote, s.new, never, rotation.Silent)
	s.later(0)
	s.starting("mcp-b", 0)
	s.instance("mcp-c").Report.Verifies = []string{s.old}
	s.want(rotation.Blocked, rotation.Promote, s.new, never, rotation.NotVerifying, rotation.NotVerifying)
}

func TestCannotUnwrap(t *testing.T) {
	for kind, blocked := range map[keyset.Kind]bool{keyset.Denied: true, keyset.Throttled: false, keyset.Unavailable: false, keyset.Sealed: true} {
		s := newScene(t)
		s.stage()
		s.later(time.Minute)
		i := s.instance("mcp-c")
		i.Report.Verifies = []string{s.old}
		i.Report.Failed = []fleet.Failure{{KID: s.new, Service: "awskms:///arn", Kind: string(kind), Operation: "kms:Decrypt"}}
		step := s.next()
		if r := step.Reasons[0]; r.Code != rotation.CannotUnwrap || r.Fault() != blocked || r.Until.IsZero() != blocked || (step.Kind == rotation.Blocked) != blocked {
			t.Errorf("%s, before its time: %+v", kind, step)
		}
		s.later(settle + 2*every)
		s.o.Instances = append(s.o.Instances, *i)
		s.o.Sources = []string{source}
		s.o.Instances[0].Report.Now = s.now
		s.want(rotation.Blocked, rotation.Promote, s.new, never, rotation.CannotUnwrap)
		if kind == keyset.Denied {
			r := s.next().Reasons[0]
			if got, want := r.String(), "mcp-c (mcp-c:9000), revision 2, last seen 2026-12-02T03:03:30Z: cannot unwrap key "+s.new+": denied, kms:Decrypt with awskms:///arn"; got != want {
				t.Errorf("%s\n%s", got, want)
			}
			if got := r.Fix(); got != "grant kms:Decrypt to mcp-c on awskms:///arn" {
				t.Error(got)
			}
		}
	}
}

// A comparison is with the clock before the first source was asked, and with the oldest
// report if that is older; never with a later reading.
func TestOldestReadingCounts(t *testing.T) {
	s := staged(t)
	at := s.now
	s.o.Began = at.Add(-time.Second)
	s.want(rotation.Wait, rotation.Promote, s.new, at, rotation.Settling)
	s.o.Began = at.Add(time.Second)
	s.want(rotation.Promote, rotation.Promote, s.new, never)
	s.o.Instances[1].Registered, s.o.Instances[1].Report.Now = true, at.Add(-10*time.Second)
	s.want(rotation.Wait, rotation.Promote, s.new, at.Add(10*time.Second), rotation.Settling)
	s.o.Instances[1].Report.Stopped = true // and does not count
	s.want(rotation.Promote, rotation.Promote, s.new, never)
}

func TestProofSettle(t *testing.T) {
	s := newScene(t)
	s.d.Policy.Proof = keyset.ProofSettle
	s.stage()
	at := s.now.Add(settle + skew + stale)
	s.later(settle + skew + stale - time.Millisecond)
	s.want(rotation.Wait, rotation.Promote, s.new, at, rotation.Settling)
	s.later(time.Millisecond)
	s.want(rotation.Promote, rotation.Promote, s.new, never)
	s.o.Sources = []string{source} // one that was named has to answer all the same
	s.want(rotation.Blocked, rotation.Promote, s.new, never, rotation.NoReports)
	s.o.Sources = nil
	s.do(s.d.Promote(s.note(), s.new))
	at = s.now.Add(settle + skew + stale)
	s.want(rotation.Wait, rotation.Drain, s.old, at, rotation.Settling)
	s.later(settle + skew + stale)
	s.want(rotation.Drain, rotation.Drain, s.old, never)
}

// Where nobody reports, those who were told to go on for ever get the time that the
// policy gives them.
func TestFormerPolicyOfNoEnd(t *testing.T) {
	s := newScene(t)
	s.d.Policy.MaxStale = 0
	p := s.d.Policy
	p.Proof, p.MaxStale = keyset.ProofSettle, stale
	s.later(10 * time.Minute)
	s.do(s.d.SetPolicy(s.note(), p))
	until := s.now.Add(settle + stale + skew)
	s.d.Keys[0].Staged = start
	s.stage()
	s.d.Key(s.new).Staged = start // long ago, so that nothing else is waited for
	s.want(rotation.Wait, rotation.Promote, s.new, until, rotation.Settling)
	s.later(settle + stale + skew)
	s.want(rotation.Promote, rotation.Promote, s.new, never)
}

// The same of a max_stale that waits where nobody reports.
func TestForceKeepsAFormerMaxStale(t *testing.T) {
	s := newScene(t)
	s.d.Policy.Proof = keyset.ProofSettle
	p := s.d.Policy
	p.MaxStale = time.Minute
	s.do(s.d.SetPolicy(s.note(), p))
	s.stage()
	s.do(s.d.Promote(s.note(), s.new))
	s.later(settle + skew + p.MaxStale)
	asked := s.d.Policy
	asked.MaxAge /= 2
	s.request = rotation.Request{Policy: &asked, Force: true}
	s.want(rotation.Wait, rotation.Drain, s.old, start.Add(settle+skew+stale), rotation.Settling)
	asked.MaxStale = time.Second
	s.want(rotation.Drain, rotation.Drain, s.old, never)
}

// A former policy counts while it may still be in force somewhere.
func TestFormerPolicyCounts(t *testing.T) {
	s := newScene(t)
	p := s.d.Policy
	p.Settle, p.MaxSkew = time.Second, time.Second
	s.do(s.d.SetPolicy(s.note(), p))
	s.stage()
	s.later(0)
	s.instance("mcp-a")
	s.want(rotation.Wait, rotation.Promote, s.new, start.Add(settle+skew), rotation.Settling)
	s.o.Instances[0].Report.Now = s.now.Add(-time.Second) // but clocks are held to the new bound at once
	s.want(rotation.Blocked, rotation.Promote, s.new, start.Add(settle+skew), rotation.ClockOff, rotation.Settling)
	s.later(2 * time.Hour)
	s.instance("mcp-a")
	s.want(rotation.Promote, rotation.Promote, s.new, never)
}

// Force makes of a policy count what it has otherwise than the document: what a former
// policy still holds is not given up by a flag that asks for something else.
func TestForceKeepsAFormerPolicy(t *testing.T) {
	s := newScene(t)
	short := s.d.Policy
	short.Settle, short.MaxStale, short.MaxSkew = time.Second, 3*time.Minute, time.Second
	s.do(s.d.SetPolicy(s.note(), short))
	s.stage()
	s.do(s.d.Promote(s.note(), s.new))
	s.later(time.Minute)
	s.instance("mcp-a")
	asked := s.d.Policy
	asked.MaxAge /= 2
	s.request = rotation.Request{Policy: &asked, Force: true}
	s.want(rotation.Wait, rotation.Drain, s.old, start.Add(settle+skew), rotation.Settling)
	asked.Settle = time.Second / 2
	s.want(rotation.Wait, rotation.Drain, s.old, start.Add(asked.Settle+skew), rotation.Settling)
	asked.MaxSkew = time.Second / 2
	s.want(rotation.Drain, rotation.Drain, s.old, never)

	s.do(s.d.Drain(s.note(), s.old))
	drained := s.d.Key(s.old).Drained
	asked.MaxSkew = s.d.Policy.MaxSkew
	s.want(rotation.Wait, rotation.Retire, s.old, drained.Add(ttl+2*skew), rotation.Expiring)
}

func TestRequestTightens(t *testing.T) {
	s := staged(t)
	p := s.d.Policy
	p.Settle, p.MaxSkew, p.MaxStale, p.MinInstances, p.MaxAge = settle/2, skew/2, stale/2, 0, 2*p.MaxAge
	if got := rotation.Tighter(s.d.Policy, p); got != s.d.Policy {
		t.Errorf("%+v", got)
	}
	p = s.d.Policy
	p.Settle *= 2
	s.request.Policy = &p
	s.want(rotation.Wait, rotation.Promote, s.new, start.Add(2*settle+skew), rotation.Settling)

	s.later(-time.Minute)
	s.instance("mcp-a")
	p.Settle = 0
	s.want(rotation.Wait, rotation.Promote, s.new, start.Add(settle+skew), rotation.Settling)
	s.request.Force = true
	s.want(rotation.Promote, rotation.Promote, s.new, never) // as the request's policy allows it
	s.request.Policy = nil
	if step := s.next(); step.Kind != rotation.Promote || !step.Forced() || step.NotBefore != never {
		t.Errorf("%+v", step)
	}
}

// A report that shows what should be impossible is heeded at the last gate.
func TestRetireHeedsReports(t *testing.T) {
	s := staged(t)
	s.do(s.d.Promote(s.note(), s.new))
	s.later(settle + skew)
	s.do(s.d.Drain(s.note(), s.old))
	s.later(ttl + 2*skew)
	i := s.instance("mcp-a")
	until := s.now.Add(time.Hour)
	sealing := *i
	sealing.Report.Primary = s.old
	drained := s.d.Key(s.old).Drained
	s.o.Instances[0], s.now = sealing, s.now.Add(-1) // there is time yet
	s.o.Began = s.now
	s.want(rotation.Wait, rotation.Retire, s.old, drained.Add(ttl+2*skew), rotation.StillSealing, rotation.Expiring)
	s.later(1)
	i = s.instance("mcp-a")
	i.Report.Keys = []fleet.KeyUse{{KID: s.old, Seals: 1, Since: start, LiveUntil: until.Add(-skew)}, {KID: s.new, Seals: 9, Since: start, LiveUntil: until.Add(time.Hour)}}
	s.want(rotation.Wait, rotation.Retire, s.old, until, rotation.LiveTokens)
	i.Registered, i.Report.Stopped = true, true // what a process sealed outlives it
	s.want(rotation.Wait, rotation.Retire, s.old, until, rotation.LiveTokens)
	i.Report.Keys = nil
	s.want(rotation.Retire, rotation.Retire, s.old, never)
	i.Report.Stopped, i.Report.Primary = false, s.old
	s.want(rotation.Blocked, rotation.Retire, s.old, never, rotation.StillSealing)
	// Whoever goes on sealing has tokens that live ever longer: to wait for them would not end.
	i.Report.Keys = []fleet.KeyUse{{KID: s.old, Seals: 1, Since: start, LiveUntil: s.now.Add(ttl)}}
	s.want(rotation.Blocked, rotation.Retire, s.old, never, rotation.StillSealing)
	i.Report.Lineage = "another"
	s.want(rotation.Retire, rotation.Retire, s.old, never)
}

func TestPeers(t *testing.T) {
	s := newScene(t)
	export := func() { s.do(s.d.Export(s.note(), "python-a", 30*time.Minute)) }
	confirm := func() { s.do(s.d.Confirm(s.note(), "python-a")) }
	export()
	confirm()
	s.stage()
	s.later(settle + skew)
	promote := func(codes ...rotation.Code) {
		t.Helper()
		s.later(0)
		s.instance("mcp-a")
		kind := rotation.Blocked
		if len(codes) == 0 {
			kind = rotation.Promote
		}
		s.want(kind, rotation.Promote, s.new, never, codes...)
	}
	promote(rotation.PeerWithoutKey)
	export()
	promote(rotation.PeerUnconfirmed)
	confirm()
	promote()
	s.do(s.d.Promote(s.note(), s.new))
	s.later(settle + skew)
	drain := func(codes ...rotation.Code) {
		t.Helper()
		s.later(0)
		s.instance("mcp-a")
		kind := rotation.Blocked
		if len(codes) == 0 {
			kind = rotation.Drain
		}
		step := s.want(kind, rotation.Drain, s.old, never, codes...)
		for _, r := range step.Reasons {
			if !strings.HasPrefix(r.String(), "peer python-a ") || !strings.Contains(r.Fix(), "keytool confirm --peer python-a") {
				t.Errorf("%s\nfix %s", r, r.Fix())
			}
		}
	}
	drain(rotation.PeerSealing)
	export()
	drain(rotation.PeerUnconfirmed)
	confirm()
	drain()
	s.do(s.d.Drain(s.note(), s.old))
	s.want(rotation.Wait, rotation.Retire, s.old, s.now.Add(30*time.Minute+2*skew), rotation.Expiring)
	s.later(30*time.Minute + 2*skew)
	s.do(s.d.Retire(s.note(), s.old))
	s.want(rotation.Done, rotation.Done, s.new, s.d.Primary().Promoted.Add(s.d.Policy.MaxAge)) // nothing waits for a peer now
	s.do(s.d.ForgetPeer(s.note(), "python-a"))
	s.stage()
	s.later(settle + skew)
	promote()
}

// Each unfinished key goes its own way, and what can be done is done.
func TestSeveralUnfinishedKeys(t *testing.T) {
	services := keyset.Services{memkek.New("a")}
	s := &scene{T: t, services: services, now: start}
	var secrets [][]byte
	for n := range 3 {
		secrets = append(secrets, slices.Repeat([]byte{byte(n + 1)}, 32))
	}
	d, _, err := keyset.Init(t.Context(), services, keyset.InitOptions{Name: "fleet", Note: s.note(), Secrets: secrets})
	if err != nil {
		t.Fatal(err)
	}
	s.d = d
	a, b := d.Keys[1].KID, d.Keys[2].KID
	s.stage()
	s.later(time.Minute)
	s.instance("mcp-a")
	s.want(rotation.Wait, rotation.Drain, a, start.Add(settle+skew), rotation.Settling)
	s.later(settle)
	s.instance("mcp-a").Report.Primary = a
	s.want(rotation.Drain, rotation.Drain, b, never)
	s.do(s.d.Drain(s.note(), b))
	s.want(rotation.Promote, rotation.Promote, s.new, never)
	s.do(s.d.Promote(s.note(), s.new))
	s.want(rotation.Wait, rotation.Drain, a, s.now.Add(settle+skew), rotation.StillSealing)
	promoted := s.now
	s.later(2 * every)
	s.instance("mcp-a").Report.Primary = a
	step := s.want(rotation.Blocked, rotation.Drain, a, promoted.Add(settle+skew), rotation.StillSealing)
	if step.Reasons[0].KID != a {
		t.Errorf("%+v", step)
	}
	s.later(ttl + 2*skew)
	s.instance("mcp-a").Report.Primary = a
	s.want(rotation.Retire, rotation.Retire, b, never)
}

func TestBudget(t *testing.T) {
	s := newScene(t)
	s.later(24 * time.Hour)
	use := func(host string, seals int64, since time.Duration) {
		s.instance(host).Report.Keys = []fleet.KeyUse{{KID: s.old, Seals: seals, Since: s.now.Add(-since), LiveUntil: s.now}}
	}
	seals := func() int64 { return rotation.Seals(s.d, s.o, s.old, s.now) }
	use("mcp-a", 1000, 24*time.Hour)
	use("mcp-b", 2000, 24*time.Hour)
	if got := seals(); got != 3000 {
		t.Errorf("%d counted", got)
	}
	s.later(0)
	use("mcp-a", 1000, time.Hour) // it has been started again since
	if got := seals(); got != 24000 {
		t.Errorf("%d by rate", got)
	}
	s.later(0)
	use("mcp-a", 60, time.Millisecond) // a burst at the start
	if got := seals(); got != 24*3600 {
		t.Errorf("%d by rate, over one minute", got)
	}
	s.o.Instances[0].Err = fleet.ErrMAC
	if got := seals(); got != 0 {
		t.Errorf("%d of no report", got)
	}
	s.later(0)
	use("mcp-a", rotation.BudgetDue, 24*time.Hour)
	s.want(rotation.Done, rotation.Done, s.old, start.Add(720*time.Hour))
	use("mcp-b", 1, 24*time.Hour)
	if r := s.want(rotation.Stage, rotation.Stage, s.old, never, rotation.DueBudget).Reasons[0]; r.Seals != rotation.BudgetDue+1 {
		t.Errorf("%+v", r)
	}
	for range 5000 {
		use("mcp-a", 1<<53-1, 0)
	}
	if got := seals(); got <= rotation.BudgetAlarm {
		t.Errorf("%d after running over", got)
	}
	if rotation.Seals(s.d, s.o, "00000000", s.now) != 0 {
		t.Error("seals under no key")
	}
}

func TestReplace(t *testing.T) {
	s := newScene(t)
	s.request.Replace = s.old
	s.want(rotation.Stage, rotation.Stage, s.old, never, rotation.DueReplace)
	s.stage()
	s.later(settle + skew)
	s.instance("mcp-a")
	s.want(rotation.Promote, rotation.Promote, s.new, never) // what is open is finished, not begun again
	s.do(s.d.Promote(s.note(), s.new))
	s.later(settle + skew)
	s.do(s.d.Drain(s.note(), s.old))
	s.later(ttl + 2*skew)
	s.do(s.d.Retire(s.note(), s.old))
	s.want(rotation.Done, rotation.Done, s.new, s.d.Primary().Promoted.Add(s.d.Policy.MaxAge))
}

// Of who still accepts a revoked key it is said, and its patience is counted from the
// revocation, whatever was changed since.
func TestRevokedIsAccepted(t *testing.T) {
	s := staged(t)
	s.later(settle + skew)
	s.instance("mcp-a")
	s.do(s.d.Promote(s.note(), s.new))
	s.do(s.d.Revoke(s.note(), s.old))
	revoked := s.now
	s.later(time.Minute)
	s.do(s.d.SetTTL(s.note(), s.d.TTL/2))
	for _, c := range []struct {
		seals   string
		accepts []string
		kid     string
		since   time.Time
	}{
		{s.old, []string{s.old, s.new}, s.old, revoked},
		{s.new, []string{s.new, s.old}, s.old, revoked},
		{s.old, nil, s.old, revoked},
		{s.new, []string{s.new}, "", s.now},
	} {
		s.o.Instances = nil
		r := &s.instance("mcp-a").Report
		r.Revision, r.Primary, r.Verifies = s.d.Revision-1, c.seals, c.accepts
		reasons := rotation.Obeyed(s.d, s.o, s.now).Reasons
		at := slices.IndexFunc(reasons, func(r rotation.Reason) bool { return r.Code == rotation.Behind && r.Instance == "mcp-a" })
		if at < 0 || reasons[at].KID != c.kid || !reasons[at].Until.Equal(c.since.Add(settle+skew+2*every)) {
			t.Errorf("%+v: %+v", c, reasons)
		}
	}
}

func TestObeyed(t *testing.T) {
	s := staged(t)
	s.do(s.d.Abort(s.note(), s.new))
	written := s.now
	obeyed := func(kind rotation.Kind, at time.Time, codes ...rotation.Code) {
		t.Helper()
		step := rotation.Obeyed(s.d, s.o, s.now)
		var got []rotation.Code
		for _, r := range step.Reasons {
			got = append(got, r.Code)
		}
		if step.Kind != kind || step.Goal != rotation.Obey || !step.NotBefore.Equal(at) || !slices.Equal(got, codes) {
			t.Errorf("%+v", step)
		}
	}
	s.later(time.Minute)
	s.instance("mcp-a").Report.Revision--
	s.instance("mcp-b").Report.Revision++ // somebody else has changed something
	obeyed(rotation.Wait, written.Add(settle+skew), rotation.Behind, rotation.Settling)
	s.later(settle)
	s.instance("mcp-a").Report.Revision--
	obeyed(rotation.Wait, never, rotation.Behind)
	s.later(2 * every)
	s.instance("mcp-a").Report.Revision--
	obeyed(rotation.Blocked, never, rotation.Behind)
	s.o.Instances[0].Report.Revision++
	obeyed(rotation.Done, never)
	s.o.Instances[0].Err = fleet.ErrUnreachable
	obeyed(rotation.Blocked, never, rotation.Unreachable)
	s.later(0)
	obeyed(rotation.Blocked, never, rotation.NoSource)
	s.d.Policy.Proof = keyset.ProofSettle
	obeyed(rotation.Wait, written.Add(settle+skew+stale), rotation.Settling)
	s.later(stale)
	obeyed(rotation.Done, never)
}

func TestDropped(t *testing.T) {
	s := newScene(t)
	was := s.d.Primary().Wrapped[0].Service
	dropped := func(kind rotation.Kind, codes ...rotation.Code) rotation.Step {
		t.Helper()
		step := rotation.Dropped(s.d, s.o, s.now, was)
		var got []rotation.Code
		for _, r := range step.Reasons {
			got = append(got, r.Code)
		}
		if step.Kind != kind || step.Goal != rotation.Drop || !slices.Equal(got, codes) {
			t.Errorf("%+v", step)
		}
		return step
	}
	s.later(time.Hour)
	i := s.instance("mcp-a")
	for _, r := range dropped(rotation.Blocked, rotation.NotWrapped, rotation.NotWrapped).Reasons {
		if !strings.HasSuffix(r.String(), " is wrapped by "+was+" alone") || r.Fix() != "keytool rewrap --add URI" {
			t.Errorf("%s\nfix %s", r, r.Fix())
		}
	}
	other := keyset.WrappedKey{Service: "memkek://b", Version: "2", Ciphertext: []byte("x")}
	s.d.Keys[0].Wrapped = append(s.d.Keys[0].Wrapped, other)
	s.d.Auth.Wrapped = append(s.d.Auth.Wrapped, other)
	i.Report.Opened = []fleet.Opened{{KID: s.old, Service: was}, {KID: s.old, Service: other.Service, Version: "1"}, {KID: fleet.AuthKey, Service: other.Service, Version: "2"}}
	dropped(rotation.Blocked, rotation.NotOpened)
	i.Report.Failed = []fleet.Failure{{KID: s.old, Service: was, Kind: "denied"}, {KID: s.old, Service: other.Service, Kind: "sealed"}}
	if r := dropped(rotation.Blocked, rotation.CannotUnwrap).Reasons[0]; r.Fix() != "unseal memkek://b" {
		t.Errorf("%s\nfix %s", r, r.Fix())
	}
	i.Report.Opened[1].Version = "2"
	dropped(rotation.Done)
}

// Right after another wrapping was added the servers have to read it, and to open it: they
// get the time for that.
func TestDroppedWaits(t *testing.T) {
	s := newScene(t)
	was, other := s.d.Primary().Wrapped[0], keyset.WrappedKey{Service: "memkek://b", Version: "2", Ciphertext: []byte("x")}
	both := []keyset.WrappedKey{was, other}
	s.later(time.Hour)
	s.do(s.d.Rewrap(s.note(), map[string][]keyset.WrappedKey{"": append(s.d.Auth.Wrapped[:1:1], other), s.old: both}))
	added := s.now
	limit := added.Add(settle + skew + 2*every)
	look := func(at time.Time, kind rotation.Kind, code rotation.Code, until time.Time, change func(r *fleet.Report)) rotation.Reason {
		t.Helper()
		s.later(at.Sub(s.now))
		s.o.Instances = nil
		r := &s.instance("mcp-a").Report
		r.Services = []string{was.Service, other.Service}
		r.Opened = []fleet.Opened{{KID: fleet.AuthKey, Service: other.Service, Version: "2"}, {KID: s.old, Service: was.Service}}
		change(r)
		step := rotation.Dropped(s.d, s.o, s.now, was.Service)
		if step.Kind != kind || step.Goal != rotation.Drop || step.NotBefore != never || len(step.Reasons) != 1 || step.Reasons[0].Code != code || !step.Reasons[0].Until.Equal(until) {
			t.Fatalf("%v after: %+v", s.now.Sub(added), step)
		}
		return step.Reasons[0]
	}
	asItIs := func(*fleet.Report) {}
	behind := func(r *fleet.Report) { r.Revision, r.Services = r.Revision-1, r.Services[:1] }
	lacks := func(r *fleet.Report) { r.Services = r.Services[:1] }
	failing := func(kind keyset.Kind) func(r *fleet.Report) {
		return func(r *fleet.Report) {
			r.Failed = []fleet.Failure{{KID: s.old, Service: other.Service, Kind: string(kind)}}
		}
	}
	look(added, rotation.Wait, rotation.NotOpened, limit, asItIs)
	look(added, rotation.Wait, rotation.NotOpened, limit, behind)
	look(added, rotation.Wait, rotation.CannotUnwrap, limit, failing(keyset.Unavailable))
	look(added, rotation.Blocked, rotation.CannotUnwrap, never, failing(keyset.Denied))
	// It has read that there is another service, and does not have it: that does not come by itself.
	if r := look(added, rotation.Blocked, rotation.NotOpened, never, lacks); !strings.HasPrefix(r.Fix(), "give mcp-a the key service memkek://b as well") || !strings.Contains(r.String(), "does not have that key service") {
		t.Errorf("%s\nfix %s", r, r.Fix())
	}
	look(limit.Add(-1), rotation.Wait, rotation.NotOpened, limit, asItIs)
	for _, change := range []func(*fleet.Report){asItIs, behind} {
		if r := look(limit, rotation.Blocked, rotation.NotOpened, limit, change); !strings.HasPrefix(r.Fix(), "find out why mcp-a does not follow the store") {
			t.Errorf("%s\nfix %s", r, r.Fix())
		}
	}
	// What else is written to the history since gives nobody more time.
	s.do(s.d.Record(s.note(), "forget-instance"))
	look(limit, rotation.Blocked, rotation.NotOpened, limit, asItIs)
	look(limit.Add(time.Hour), rotation.Wait, rotation.NotOpened, limit.Add(time.Hour+2*time.Minute), func(r *fleet.Report) {
		r.Started, r.Loaded, r.Ready, r.Reason, r.Services = s.now, time.Time{}, false, fleet.Starting, nil
	})
	// A key that was staged since is wrapped by the other service alone, or by both.
	s.stage()
	s.d.Key(s.new).Wrapped = []keyset.WrappedKey{was, {Service: other.Service, Version: "2", Ciphertext: []byte("y")}}
	look(s.now, rotation.Wait, rotation.NotOpened, s.now.Add(settle+skew+2*every), func(r *fleet.Report) {
		r.Opened = append(r.Opened, fleet.Opened{KID: s.old, Service: other.Service, Version: "2"})
	})
}

func TestPhases(t *testing.T) {
	s := newScene(t)
	phases := func(want ...rotation.Phase) {
		t.Helper()
		got := rotation.Phases(s.d, s.now, s.next())
		for i, name := range []string{"distribute", "promote", "retire"}[:len(want)] {
			want[i].Name = name
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
	}
	phases()
	s.later(time.Hour)
	s.stage()
	began := s.now
	over := rotation.Phase{State: rotation.Over, Since: began, At: began}
	ahead := rotation.Phase{State: rotation.Ahead}
	s.later(time.Minute)
	s.instance("mcp-a")
	phases(over, rotation.Phase{State: rotation.Running, Since: began, At: began.Add(settle + skew)}, ahead)
	s.o.Instances = nil
	phases(over, rotation.Phase{State: rotation.Stuck, Since: began, At: began.Add(settle + skew)}, ahead)
	s.later(settle)
	s.o.Sources = []string{source}
	phases(over, rotation.Phase{State: rotation.Stuck, Since: began}, ahead)

	s.do(s.d.Promote(s.note(), s.new))
	promoted := s.now
	over2 := rotation.Phase{State: rotation.Over, Since: promoted, At: promoted}
	s.instance("mcp-a")
	phases(over, over2, rotation.Phase{State: rotation.Running, Since: promoted, At: promoted.Add(settle + skew + ttl + 2*skew)})
	s.later(settle + skew + time.Hour)
	phases(over, over2, rotation.Phase{State: rotation.Stuck, Since: promoted})
	s.do(s.d.Drain(s.note(), s.old))
	phases(over, over2, rotation.Phase{State: rotation.Running, Since: promoted, At: s.now.Add(ttl + 2*skew)})
	s.later(ttl + 2*skew)
	s.do(s.d.Retire(s.note(), s.old))
	phases()
}

func TestNoKeyset(t *testing.T) {
	s := newScene(t)
	s.d = &keyset.Document{}
	s.want(rotation.Blocked, "", "", never, rotation.NoPrimary)
	if rotation.Phases(s.d, s.now, s.next()) != nil {
		t.Error("phases of nothing")
	}
	if rotation.Obeyed(s.d, s.o, s.now).Kind != rotation.Blocked || rotation.Dropped(s.d, s.o, s.now, "").Kind != rotation.Blocked {
		t.Error("nothing is obeyed")
	}
}

func TestApplyRefusesWhatChangesNothing(t *testing.T) {
	s := newScene(t)
	for _, kind := range []rotation.Kind{rotation.Wait, rotation.Blocked, rotation.Done, rotation.Obey, rotation.Drop, ""} {
		if err := (rotation.Step{Kind: kind}).Apply(s.d, s.note(), keyset.Key{}); err == nil || kind.Changes() {
			t.Errorf("%q is applied", kind)
		}
	}
	if (rotation.Step{Kind: rotation.Drain}).Timed() || !(rotation.Step{Kind: rotation.Promote}).Timed() {
		t.Error("which stamps others count from")
	}
	if rotation.SaveWithin(s.d.Policy) != time.Minute {
		t.Error("the share of a save")
	}
}
