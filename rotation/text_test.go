package rotation_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

func TestReasonTexts(t *testing.T) {
	at := start.Add(time.Nanosecond)
	for _, test := range []struct {
		r    rotation.Reason
		want string
	}{
		{rotation.Reason{Code: rotation.DueBudget, KID: "4c11d0e2", Seals: rotation.BudgetDue + 1}, "about 50% of the tokens that 4c11d0e2 may seal are sealed"},
		{rotation.Reason{Code: rotation.Expiring, KID: "4c11d0e2", Until: at}, "tokens under 4c11d0e2 may be alive until 2026-12-02T03:00:01Z"},
		{rotation.Reason{Code: rotation.Settling, Until: start}, "until 2026-12-02T03:00:00Z the store may still give a server the revision from before the last change"},
		{rotation.Reason{Code: rotation.Behind, Instance: "mcp-a", Revision: 7, Seen: at}, "mcp-a, revision 7, last seen 2026-12-02T03:00:00Z: has not read the newest revision yet"},
		{rotation.Reason{Code: rotation.Behind, KID: "4c11d0e2", Instance: "mcp-a", Revision: 7, Seen: at}, "mcp-a, revision 7, last seen 2026-12-02T03:00:00Z: has not read yet that 4c11d0e2 is revoked, and accepts it"},
		{rotation.Reason{Code: rotation.ClockOff, Instance: "mcp-a", Offset: -1 << 63, Limit: skew / 2}, "mcp-a: its clock is 106751 days behind; at most 30s is allowed"},
		{rotation.Reason{Code: rotation.ClockOff, Instance: "mcp-a", Offset: 36 * time.Hour, Limit: skew / 2}, "mcp-a: its clock is 36h0m0s ahead; at most 30s is allowed"},
	} {
		if got := test.r.String(); got != test.want {
			t.Errorf("%s\nwant %s", got, test.want)
		}
	}
}

// Whatever came from a store or an instance is shown, and steers nothing.
func TestReasonsDoNotSteerTheTerminal(t *testing.T) {
	const odd = "a\x1b[2J\r\n\u202e\u009b\xff"
	const shown = `a\x1b[2J\r\n\u202e\u009b\xff`
	for _, code := range []rotation.Code{
		rotation.Malformed, rotation.SourceFailed, rotation.PeerSealing, rotation.NotOpened, rotation.CannotUnwrap, rotation.DuplicateID, rotation.Silent,
	} {
		r := rotation.Reason{Code: code, KID: odd, ID: odd, Address: odd, Source: odd, Peer: odd, Service: odd, Detail: odd, Health: odd, Failure: &fleet.Failure{Kind: odd, Operation: odd, Service: odd}}
		if code != rotation.SourceFailed && code != rotation.PeerSealing {
			r.Instance = odd
		}
		for _, text := range []string{r.String(), r.Fix()} {
			if strings.ContainsAny(text, "\x1b\r\n\u202e\u009b") {
				t.Errorf("%s: %q", code, text)
			}
		}
		if !strings.Contains(r.String(), shown) {
			t.Errorf("%s: %s", code, r)
		}
	}
}

// What somebody has put into a registry is on no command line that is offered to be typed.
func TestRemediesHaveNoForeignWord(t *testing.T) {
	for _, code := range []rotation.Code{rotation.Malformed, rotation.BadMAC, rotation.Silent} {
		r := rotation.Reason{Code: code, Instance: "an instance", ID: `"$(reboot)"`, Address: `"$(reboot)"`, Source: "etcd://a:2379/fleet"}
		if fix := r.Fix(); strings.Contains(fix, "keytool") || !strings.HasSuffix(fix, `: delete "$(reboot)" there`) {
			t.Errorf("%s: %s", code, fix)
		}
	}
}

// A wrong path is seen only in the whole address.
func TestRemedyNamesTheWholeAddress(t *testing.T) {
	for source, want := range map[string]string{
		"http://10.0.0.7:9464/repot":          "correct the address http://10.0.0.7:9464/repot, ",
		"dns+http://mcp.internal:9464/report": "correct the address 10.0.0.7:9464 of dns+http://mcp.internal:9464/report, ",
	} {
		r := rotation.Reason{Code: rotation.Malformed, Instance: "10.0.0.7:9464", Address: "10.0.0.7:9464", Source: source}
		if fix := r.Fix(); !strings.HasPrefix(fix, want) {
			t.Errorf("%s\nwant %s", fix, want)
		}
	}
}

// Nothing answers at an id in a registry, and it is on no list.
func TestRemediesInARegistry(t *testing.T) {
	for _, err := range []error{fleet.ErrMAC, fleet.ErrMalformed, fmt.Errorf("%w: too long", fleet.ErrMalformed), errors.New("odd")} {
		s := staged(t)
		id := strings.Repeat("0", 32)
		s.o.Instances[1] = fleet.Instance{Source: "etcd://e:1/x", Address: id, Registered: true, Err: err}
		r := s.next().Reasons[0]
		if fix := r.Fix(); r.ID != id || !strings.HasSuffix(fix, "keytool fleet forget "+id+" --reason TEXT") || strings.Contains(fix, "answers at") {
			t.Errorf("%v: %+v\nfix %s", err, r, fix)
		}
	}
}

// A report from a time to come is fresh until that has passed, be its instance dead or not.
func TestRemedyForTheDeadAhead(t *testing.T) {
	const correct = "correct the clock of mcp-b, or that of this host"
	forget := func(i *fleet.Instance) string {
		return correct + ", or if mcp-b is gone for good: keytool fleet forget " + i.Report.ID + " --reason TEXT"
	}
	for _, maxStale := range []time.Duration{0, time.Hour} {
		s := staged(t)
		s.d.Policy.MaxStale = maxStale
		i := &s.o.Instances[1]
		fix := func() string {
			t.Helper()
			found := rotation.Faults(s.d, s.o, s.now)
			if len(found) == 0 || found[len(found)-1].Code != rotation.ClockOff {
				t.Fatalf("%+v", found)
			}
			return found[len(found)-1].Fix()
		}
		i.Report.Now = s.o.Ended.Add(1000 * time.Hour)
		if got := fix(); got != correct {
			t.Errorf("at an address: %s", got)
		}
		i.Registered, i.Address = true, i.Report.ID
		if got := fix(); got != forget(i) {
			t.Errorf("in a registry: %s", got)
		}
		// Where all the others are as far ahead none of them is the one that died.
		s.o.Instances[0].Report.Now = i.Report.Now
		if got := fix(); strings.Contains(got, "forget") {
			t.Errorf("it is this clock that is wrong: %s", got)
		}
	}
}

// An instance in a registry that has died with something wrong to say stays there, for ever
// if the policy says so: whatever it has said, the way out is named.
func TestRemedyForTheDead(t *testing.T) {
	for code, spoil := range map[rotation.Code]func(*scene, *fleet.Report){
		rotation.Silent:        func(*scene, *fleet.Report) {},
		rotation.NewerRevision: func(_ *scene, r *fleet.Report) { r.Revision++ },
		rotation.Fork:          func(_ *scene, r *fleet.Report) { r.Tag = "another" },
		rotation.OtherLineage:  func(_ *scene, r *fleet.Report) { r.Lineage = "another" },
		rotation.DuplicateID:   func(s *scene, r *fleet.Report) { r.ID, r.Started = s.o.Instances[0].Report.ID, start.Add(1) },
	} {
		s := staged(t)
		i := &s.o.Instances[1]
		spoil(s, &i.Report)
		i.Registered, i.Address = true, i.Report.ID
		reason := func() (rotation.Reason, string) {
			found := rotation.Faults(s.d, s.o, s.now)
			r := found[len(found)-1]
			if r.Code != code {
				t.Fatalf("%s: %+v", code, found)
			}
			return r, r.Fix()
		}
		forget := " is gone for good: keytool fleet forget " + i.Report.ID + " --reason TEXT"
		if code != rotation.Silent {
			if r, fix := reason(); strings.Contains(fix, "gone") || strings.Contains(r.String(), "stopped") || !r.Until.IsZero() {
				t.Errorf("%s, and it lives: %s\nfix %s", code, r, fix)
			}
		}
		i.Report.Now = i.Report.Now.Add(-time.Hour)
		if _, fix := reason(); code == rotation.Silent && fix != "start mcp-b again, or if it"+forget {
			t.Errorf("%s: fix %s", code, fix)
		}
		if r, fix := reason(); !strings.HasSuffix(fix, forget) || !strings.HasSuffix(r.String(), "it has stopped reporting; it counts as running until "+r.Until.UTC().Format(time.RFC3339)) {
			t.Errorf("%s: %s\nfix %s", code, r, fix)
		}
		s.d.Policy.MaxStale = 0
		if r, fix := reason(); !strings.HasSuffix(fix, forget) || !strings.HasSuffix(r.String(), "it has stopped reporting") || !r.Until.IsZero() {
			t.Errorf("%s for ever: %s\nfix %s", code, r, fix)
		}
		i.Registered, i.Address = false, "mcp-b:9000"
		for _, r := range rotation.Faults(s.d, s.o, s.now) {
			if strings.Contains(r.Fix(), "forget") {
				t.Errorf("%s at an address: fix %s", code, r.Fix())
			}
		}
	}
}

// When a registry forgets an instance does not depend on what somebody asks for today.
func TestLapseIsThatOfTheDocument(t *testing.T) {
	for _, force := range []bool{false, true} {
		s := staged(t)
		i := &s.o.Instances[1]
		i.Registered, i.Report.Now = true, i.Report.Now.Add(-time.Minute)
		want := i.Lapses(stale, skew)
		p := s.d.Policy
		p.MaxStale, p.MaxSkew = 3*stale, 2*skew
		s.request = rotation.Request{Policy: &p, Force: force}
		if r := s.next().Reasons[0]; r.Code != rotation.Silent || !r.Until.Equal(want) {
			t.Errorf("%+v\nwant %v", r, want)
		}
	}
}

// What is too long for a duration is a long wait, never none.
func TestWaitsDoNotRunOver(t *testing.T) {
	s := staged(t)
	p := s.d.Policy
	p.Settle = 1<<63 - 1
	s.request.Policy = &p
	if step := s.next(); step.Kind != rotation.Wait || step.NotBefore.Year() < 2300 {
		t.Errorf("%+v", step)
	}
	s = staged(t)
	s.d.Policy.Proof, s.d.Policy.MaxStale = keyset.ProofSettle, 0 // for ever
	s.later(time.Hour)
	if step := s.next(); step.Kind != rotation.Wait || step.NotBefore.Year() < 2300 {
		t.Errorf("%+v", step)
	}
}

// A phase that is not over ends in time to come, and no sooner than the step allows.
func TestPhasesEndNoSoonerThanTheStep(t *testing.T) {
	end := func(s *scene, n int) rotation.Phase { return rotation.Phases(s.d, s.now, s.next())[n] }
	s := staged(t)
	s.later(time.Minute)
	s.instance("mcp-a")
	if p := end(s, 1); p.State != rotation.Running || !p.At.Equal(s.now) {
		t.Errorf("due: %+v", p)
	}
	s = staged(t)
	s.o.Instances[0].Report.Now = s.now.Add(-5 * time.Second)
	if p := end(s, 1); !p.At.Equal(s.now.Add(5 * time.Second)) {
		t.Errorf("an old report: %+v", p)
	}
	s = staged(t)
	s.do(s.d.Promote(s.note(), s.new))
	demoted := s.now
	s.later(time.Minute)
	s.o.Sources = []string{source} // nobody reports
	if p := end(s, 2); p.State != rotation.Stuck || !p.At.Equal(demoted.Add(settle+skew+ttl+2*skew)) {
		t.Errorf("blocked, the drain still to come: %+v", p)
	}
	s.later(settle)
	s.instance("mcp-a").Report.Now = s.now.Add(-5 * time.Second)
	if p := end(s, 2); !p.At.Equal(s.now.Add(5*time.Second + ttl + 2*skew)) {
		t.Errorf("an old report before the drain: %+v", p)
	}
	s.do(s.d.Drain(s.note(), s.old))
	s.later(time.Minute)
	live := s.now.Add(24 * time.Hour)
	s.instance("mcp-a").Report.Keys = []fleet.KeyUse{{KID: s.old, Seals: 1, Since: start, LiveUntil: live}}
	if p := end(s, 2); !p.At.Equal(live.Add(skew)) {
		t.Errorf("tokens that live longer: %+v", p)
	}
}
