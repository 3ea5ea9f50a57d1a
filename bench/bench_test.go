package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/middleware/gosdk"
)

// BenchmarkTable reports each cell of the table as the metric x/floor. Absolute times of a
// shared machine mean little and are not reported.
func BenchmarkTable(b *testing.B) {
	for _, s := range append(ours(), peers()...) {
		for i, w := range works() {
			for way, name := range []string{"seal", "unseal"} {
				b.Run(strings.Join([]string{strings.Trim(s.name, "*"), w.name, name}, "/"), func(b *testing.B) {
					payload, err := claims(w.state)
					if err != nil {
						b.Fatal(err)
					}
					t := &table{works: works()}
					seal, unseal, err := s.open(w, payload)
					if err != nil {
						b.Fatal(err)
					}
					run := [2]runner{seal, unseal}[way]
					if run == nil {
						b.Skip("there is nothing to measure")
					}
					floorSeal, floorUnseal, err := floor(payload, nil)
					if err != nil {
						b.Fatal(err)
					}
					c, err := compare(max(rounds, b.N/w.batch), t.works[i].batch, [2]runner{floorSeal, floorUnseal}[way], run)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(c.ratio, "x/floor")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// Every subject gives back what it sealed, at every size: opening one checks that.
func TestSubjects(t *testing.T) {
	for _, s := range append(ours(), peers()...) {
		for _, w := range works() {
			payload, err := claims(w.state)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(payload, []byte(`"aud":"`+audience+`"`)) {
				t.Errorf("the claims are %.80s", payload)
			}
			seal, unseal, err := s.open(w, payload)
			if err != nil {
				t.Errorf("%s, %s: %v", s.name, w.name, err)
				continue
			}
			for way, run := range [2]runner{seal, unseal} {
				if run == nil {
					continue
				}
				if took, err := run(2); err != nil || took <= 0 {
					t.Errorf("%s, %s, way %d: %v, %v", s.name, w.name, way, took, err)
				}
			}
		}
	}
}

func TestPythonBoundary(t *testing.T) {
	if os.Getenv("ECHOSEAL_PEERS") == "" {
		t.Skip("the Python SDK is set up by make test")
	}
	python, err := startPython(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer python.close()
	for _, w := range works() {
		seal, unseal, err := python.subject().open(w, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range []runner{seal, unseal} {
			if took, err := run(2); err != nil || took <= 0 {
				t.Errorf("%s: %v, %v", w.name, took, err)
			}
		}
	}
}

// Rounds give a sealed state with the middleware, the state itself without it, and carry
// it on.
func TestServerRounds(t *testing.T) {
	policy, err := newPolicy()
	if err != nil {
		t.Fatal(err)
	}
	for _, middleware := range [][]mcp.Middleware{nil, {gosdk.Middleware(policy, nil)}} {
		round, end, err := roundsOf(t.Context(), "a state", middleware...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := round(3); err != nil {
			t.Error(err)
		}
		end()
	}
}

// A ring that follows a new revision again and again opens its tokens all the time.
func TestSwaps(t *testing.T) {
	f, err := newFollowed(t.Context(), 20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.ring.Close() }()
	token, err := f.ring.Seal([]byte("payload"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < 20; i++ {
		before := f.ring.Status().Revision
		f.at.Store(int64(i))
		if err := f.ring.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after := f.ring.Status().Revision; after != before+1 {
			t.Fatalf("revision %d after %d", after, before)
		}
		if out, err := f.ring.Unseal(token); err != nil || string(out) != "payload" {
			t.Fatalf("%q, %v", out, err)
		}
	}
}

func TestReplace(t *testing.T) {
	page := []byte("# Title\n" + begin + "old\n" + end + "rest\n")
	got, err := replace(page, []byte("new\n"))
	if want := "# Title\n" + begin + "new\n" + end + "rest\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"", begin, end, end + begin} {
		if _, err := replace([]byte(bad), nil); err == nil {
			t.Errorf("%q is taken for a page", bad)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{"table"}, {"-once", "both"}, {"-write", "there is no such page"}} {
		var out, notes strings.Builder
		if err := run(context.Background(), args, &out, &notes); err == nil || out.Len() > 0 {
			t.Errorf("%q: %v, %q", args, err, &out)
		}
	}
}
