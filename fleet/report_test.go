package fleet_test

import (
	"testing"
	"time"

	"github.com/echoseal/echoseal/fleet"
)

func TestFreshForThreeIntervals(t *testing.T) {
	r := fleet.Report{Now: noon, Every: 15 * time.Second}
	for after, want := range map[time.Duration]bool{
		-time.Hour: true, 0: true, 45 * time.Second: true, 45*time.Second + 1: false, time.Hour: false,
	} {
		if got := r.Fresh(noon.Add(after)); got != want {
			t.Errorf("after %v: fresh is %v", after, got)
		}
	}
}

func TestHealth(t *testing.T) {
	failed := []fleet.Failure{{KID: "4c11d0e2"}}
	for _, c := range []struct {
		r    fleet.Report
		want string
	}{
		{fleet.Report{Ready: true}, "ok"},
		{fleet.Report{Ready: true, Reason: "store: denied"}, "degraded"},
		{fleet.Report{Ready: true, Failed: failed}, "degraded"},
		{fleet.Report{Reason: fleet.Starting}, "starting"},
		{fleet.Report{Reason: "no store read for 1h0m0s"}, "not ready"},
		{fleet.Report{}, "not ready"},
		{fleet.Report{Stopped: true, Ready: true}, "stopped"},
	} {
		if got := c.r.Health(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.r, got, c.want)
		}
	}
}

func TestLapse(t *testing.T) {
	const every, stale, skew = 15 * time.Second, time.Hour, time.Minute
	const keep = time.Hour + 2*time.Minute + 45*time.Second
	if got := fleet.Keep(every, stale, skew); got != keep {
		t.Errorf("Keep gives %v, want %v", got, keep)
	}
	if got := fleet.Keep(every, 0, skew); got != 0 {
		t.Errorf("Keep gives %v where max_stale is 0, want 0: for ever", got)
	}
	made := fleet.Report{Now: noon, Every: every}
	for name, c := range map[string]struct {
		i     fleet.Instance
		stale time.Duration
		want  time.Time
	}{
		"registered":          {fleet.Instance{Registered: true, Report: made}, stale, noon.Add(keep)},
		"kept for ever":       {fleet.Instance{Registered: true, Report: made}, 0, time.Time{}},
		"listed":              {fleet.Instance{Report: made}, stale, time.Time{}},
		"registered nonsense": {fleet.Instance{Registered: true, Err: fleet.ErrMAC}, stale, time.Time{}},
	} {
		if got := c.i.Lapses(c.stale, skew); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestLive(t *testing.T) {
	stopped := fleet.Report{Stopped: true}
	for name, c := range map[string]struct {
		i    fleet.Instance
		want bool
	}{
		"listed":               {fleet.Instance{}, true},
		"listed, stopped":      {fleet.Instance{Report: stopped}, true},
		"listed, silent":       {fleet.Instance{Err: fleet.ErrUnreachable}, true},
		"registered":           {fleet.Instance{Registered: true}, true},
		"registered, stopped":  {fleet.Instance{Registered: true, Report: stopped}, false},
		"registered, nonsense": {fleet.Instance{Registered: true, Err: fleet.ErrMAC}, true},
	} {
		if got := c.i.Live(); got != c.want {
			t.Errorf("%s: live is %v", name, got)
		}
	}
}

func TestOffset(t *testing.T) {
	o := fleet.Observation{Began: noon, Ended: noon.Add(3 * time.Second)}
	for now, want := range map[time.Duration]time.Duration{
		-40 * time.Second: -40 * time.Second, -time.Millisecond: -time.Millisecond, 0: 0, 2 * time.Second: 0, 3 * time.Second: 0, 33 * time.Second: 30 * time.Second,
	} {
		if got := o.Offset(&fleet.Instance{Report: fleet.Report{Now: noon.Add(now)}}); got != want {
			t.Errorf("a report of noon and %v: %v, want %v", now, got, want)
		}
	}
	if got := o.Offset(&fleet.Instance{Err: fleet.ErrMAC}); got != 0 {
		t.Errorf("no report has the offset %v", got)
	}
}

func TestName(t *testing.T) {
	for want, i := range map[string]fleet.Instance{
		"mcp-a":       {Address: "127.0.0.1:80", Report: fleet.Report{Host: "mcp-a"}},
		"127.0.0.1:1": {Address: "127.0.0.1:1"},
		"127.0.0.1:2": {Address: "127.0.0.1:2", Err: fleet.ErrUnreachable},
	} {
		if got := i.Name(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
