package etcd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/fleet/fleettest"
	"github.com/echoseal/echoseal/keyset/etcdstore"
)

func TestRegistryKit(t *testing.T) {
	s := newServer(t)
	fleettest.TestRegistry(t, func(t *testing.T, place string) fleet.Registry {
		t.Helper()
		return openRegistry(t, s, "kit/"+place)
	})
}

func openRegistry(t *testing.T, s *server, key string) *etcdstore.Registry {
	t.Helper()
	registry, err := etcdstore.OpenRegistry(within(t), uri("etcd", key, s.address()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = registry.Close() })
	return registry
}

func publish(t *testing.T, registry fleet.Registry, id, report string, keep time.Duration) {
	t.Helper()
	if err := registry.Publish(within(t), id, []byte(report), keep); err != nil {
		t.Fatal(err)
	}
}

func collect(t *testing.T, registry fleet.Registry) []fleet.Answer {
	t.Helper()
	answers, err := registry.Collect(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

// A fleet of a thousand, with two pages' worth of what does not belong there.
func TestThousandInstances(t *testing.T) {
	s := newServer(t)
	registry := openRegistry(t, s, "many")
	client := s.client(t)
	put := func(key string, size int) {
		t.Helper()
		if _, err := client.Put(within(t), key, strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
	}
	const instances, size = 1000, 3000
	for i := range instances {
		publish(t, registry, fmt.Sprintf("%032x", i*0x10001), strings.Repeat("r", size), time.Hour)
	}
	foreign := []string{"many/instances/", "many/instances/x", "many/instances/" + strings.ToUpper(id), "many/instances/" + id + "/more", "many/instances/\xff\n"}
	for _, key := range foreign {
		put(key, 1)
	}
	put("many/instances/"+id, fleet.MaxBytes+1)
	for _, key := range []string{"many", "many/instance", "many/instances0", "many2/instances/" + id} {
		put(key, 1) // next to it, but not in it
	}

	seen := make(map[string]bool)
	var malformed int
	for _, answer := range collect(t, registry) {
		if seen[answer.Address] || !answer.Registered {
			t.Errorf("%q is answered twice, or as not registered", answer.Address)
		}
		seen[answer.Address] = true
		switch {
		case errors.Is(answer.Err, fleet.ErrMalformed) && answer.Signed == nil:
			malformed++
		case answer.Err != nil || len(answer.Signed) != size || len(answer.Address) != 32:
			t.Errorf("%q: %d bytes, %v", answer.Address, len(answer.Signed), answer.Err)
		}
	}
	if malformed != len(foreign)+1 || len(seen) != instances+malformed {
		t.Errorf("%d answers, %d of them malformed", len(seen), malformed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if answers, err := registry.Collect(ctx); !errors.Is(err, context.Canceled) || len(answers) != 0 {
		t.Errorf("canceled: %d answers, %v", len(answers), err)
	}
}

func TestPublishRefuses(t *testing.T) {
	s := newServer(t)
	registry := openRegistry(t, s, "strict")
	for name, err := range map[string]error{
		"no id":          registry.Publish(within(t), "", []byte("x"), time.Hour),
		"short id":       registry.Publish(within(t), id[1:], []byte("x"), time.Hour),
		"upper case":     registry.Publish(within(t), strings.ToUpper(id), []byte("x"), time.Hour),
		"another's path": registry.Publish(within(t), "../"+id[3:], []byte("x"), time.Hour),
		"too large":      registry.Publish(within(t), id, make([]byte, fleet.MaxBytes+1), time.Hour),
		"negative":       registry.Publish(within(t), id, []byte("x"), -1),
		"300 years":      registry.Publish(within(t), id, []byte("x"), 1<<63-1),
		"forget":         registry.Forget(within(t), ""),
	} {
		if err == nil || !strings.Contains(err.Error(), registry.String()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if answers := collect(t, registry); len(answers) != 0 {
		t.Errorf("%d answers", len(answers))
	}
}

// Who reports for days leaves one lease behind, not one for each report.
func TestLeasesDoNotAddUp(t *testing.T) {
	s := newServer(t)
	registry, client := openRegistry(t, s, "leases"), s.client(t)
	leases := func() int {
		t.Helper()
		answer, err := client.Leases(within(t))
		if err != nil {
			t.Fatal(err)
		}
		return len(answer.Leases)
	}
	for range 20 {
		publish(t, registry, id, "report", time.Hour)
	}
	if n := leases(); n != 1 {
		t.Errorf("%d leases", n)
	}
	publish(t, registry, id, "for ever", 0)
	if n := leases(); n != 0 {
		t.Errorf("%d leases of a report that stays for ever", n)
	}
	if answers := collect(t, registry); len(answers) != 1 || string(answers[0].Signed) != "for ever" {
		t.Errorf("%v", answers)
	}
}

// Whose lease somebody revokes is there again with its next report.
func TestLeaseRevoked(t *testing.T) {
	s := newServer(t)
	registry, client := openRegistry(t, s, "revoked"), s.client(t)
	for range 2 {
		publish(t, registry, id, "report", time.Hour)
		if answers := collect(t, registry); len(answers) != 1 || string(answers[0].Signed) != "report" {
			t.Errorf("%v", answers)
		}
		answer, err := client.Leases(within(t))
		if err != nil || len(answer.Leases) != 1 {
			t.Fatal(answer, err)
		}
		if _, err := client.Revoke(within(t), answer.Leases[0].ID); err != nil {
			t.Fatal(err)
		}
		if answers := collect(t, registry); len(answers) != 0 {
			t.Errorf("%v", answers)
		}
	}
}

// A report whose answer is lost may be there, and stays.
func TestPublishWithALostAnswer(t *testing.T) {
	s := newServer(t)
	lost := 0
	losing := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		err := invoke(ctx, method, request, reply, conn, options...)
		if err == nil && strings.HasSuffix(method, "/Put") {
			lost++
			err = status.Error(codes.Unavailable, "the answer is lost")
		}
		return err
	}
	registry, err := etcdstore.NewRegistry(s.through(t, losing), "lost")
	if err != nil {
		t.Fatal(err)
	}
	if err := registry.Publish(within(t), id, []byte("report"), time.Hour); err == nil || !strings.Contains(err.Error(), "the answer is lost") || lost != 1 {
		t.Errorf("after %d lost answers: %v", lost, err)
	}
	if answers, err := registry.Collect(within(t)); err != nil || len(answers) != 1 || string(answers[0].Signed) != "report" {
		t.Errorf("there are %v, %v", answers, err)
	}
}

// An instance that stops, one that dies, and one that dies and comes back: collected
// with their signatures, as a rotation sees them.
func TestInstancesComeAndGo(t *testing.T) {
	s := newServer(t)
	key, err := fleet.NewKey(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	const every, keep = time.Minute, 3 * time.Second
	instance := func(n int, started time.Time) *fleet.Publisher {
		name := fmt.Sprintf("%032x", n)
		return &fleet.Publisher{
			Registry: openRegistry(t, s, "fleet"),
			ID:       name,
			Every:    every,
			Logger:   slog.New(slog.DiscardHandler),
			Report: func(stopped bool) ([]byte, time.Duration, error) {
				now := time.Now()
				signed, err := key.Sign(report(name, n, started, now, every, stopped))
				return signed, keep, err
			},
		}
	}
	began := time.Now().Add(-time.Hour)
	stopped, died, came := instance(1, began), instance(2, began), instance(3, began)
	for _, p := range []*fleet.Publisher{stopped, died, came} {
		if err := p.Publish(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	if err := stopped.Stop(within(t)); err != nil {
		t.Fatal(err)
	}
	observer := openRegistry(t, s, "fleet")
	look := func() (live, silent []string) {
		t.Helper()
		o := fleet.Collect(within(t), key, nil, observer)
		if len(o.Failures) != 0 {
			t.Fatal(o.Failures)
		}
		for _, i := range o.Instances {
			switch {
			case i.Err != nil || !i.Registered:
				t.Errorf("%s: %v", i.Address, i.Err)
			case i.Live():
				live = append(live, i.Report.Host)
			default:
				silent = append(silent, i.Report.Host)
			}
		}
		return live, silent
	}
	if live, silent := look(); fmt.Sprint(live, silent) != "[host-2 host-3] [host-1]" {
		t.Errorf("live %q, stopped %q", live, silent)
	}
	// One of them goes on, by another connection: the others lapse.
	eventually(t, "the lapse of the one that died", func() bool {
		if err := came.Publish(within(t)); err != nil {
			t.Fatal(err)
		}
		live, silent := look()
		return fmt.Sprint(live, silent) == "[host-3] []"
	})
	if err := died.Publish(within(t)); err != nil {
		t.Fatal(err)
	}
	if live, _ := look(); fmt.Sprint(live) != "[host-2 host-3]" {
		t.Errorf("live %q", live)
	}
}

// What was accepted outlives a restart of the server, for ever or for its time.
func TestRegistryAfterRestart(t *testing.T) {
	s := newServer(t)
	registry := openRegistry(t, s, "restarted")
	other := fmt.Sprintf("%032x", 1)
	publish(t, registry, id, "for ever", 0)
	publish(t, registry, other, "for an hour", time.Hour)
	s.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if answers, err := registry.Collect(ctx); !errors.Is(err, context.DeadlineExceeded) || len(answers) != 0 {
		t.Errorf("without a server: %d answers, %v", len(answers), err)
	}
	if err := registry.Publish(ctx, id, []byte("x"), time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a server: %v", err)
	}
	s.start(t)
	if answers := collect(t, registry); len(answers) != 2 {
		t.Errorf("%d answers", len(answers))
	}
	publish(t, registry, other, "again", time.Hour)
	if answers := collect(t, registry); len(answers) != 2 || string(answers[0].Signed) != "again" {
		t.Errorf("%d answers", len(answers))
	}
}

func report(id string, n int, started, now time.Time, every time.Duration, stopped bool) fleet.Report {
	return fleet.Report{
		ID: id, Host: fmt.Sprint("host-", n), Started: started, Now: now, Every: every, Stopped: stopped,
		Keyset: "billing", Lineage: "7e2a6f0c-31f2-4d7e-9d5a-2b1f6f0c31f2", Revision: 3,
		Tag: "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", Loaded: started,
		Primary: "4c11d0e2", Verifies: []string{"4c11d0e2"}, TTL: 10 * time.Minute, Ready: true,
		Software: "0.1.0",
	}
}
