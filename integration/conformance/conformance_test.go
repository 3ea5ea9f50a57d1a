// Package conformance runs the official MCP conformance suite against a server of each
// of the Go SDKs behind its middleware.
package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/integration/peers"
)

// tampered is the scenario that changes a state on its way.
const tampered = "input-required-result-tampered-state"

// carriers are the scenarios in which a state goes to the client.
var carriers = []string{
	"input-required-result-request-state",
	"input-required-result-multiple-input-requests",
	"input-required-result-multi-round",
	"input-required-result-non-tool-request",
	tampered,
}

// An sdk serves the tools and the prompt of the suite.
type sdk struct {
	name  string
	serve func(*testing.T, protection) (url string)
}

// A protection is what the middleware is made of; without a policy there is none.
type protection struct {
	policy  *binding.Policy
	logger  *slog.Logger
	refused func(context.Context, binding.Refusal)
}

var sdks = []sdk{
	{name: "go-sdk", serve: serveGoSDK},
	{name: "mcp-go", serve: serveMCPGo},
}

func TestConformance(t *testing.T) {
	all := scenarios(t)
	if len(all) != 14 {
		t.Fatalf("the suite has %d input-required-result scenarios, not 14: %q", len(all), all)
	}
	for _, sdk := range sdks {
		for _, scenario := range all {
			t.Run(sdk.name+"/"+scenario, func(t *testing.T) { conforms(t, sdk, scenario) })
		}
	}
}

func conforms(t *testing.T, sdk sdk, scenario string) {
	var refused atomic.Int32
	url := sdk.serve(t, protected(t, func(_ context.Context, r binding.Refusal) {
		refused.Add(1)
		// The suite appends to the token; whether it still is one of the
		// format depends on its length, which varies with the time.
		if r.Reason != codec.Malformed && r.Reason != codec.BadSeal {
			t.Errorf("a state was refused for the reason %q", r.Reason)
		}
	}))
	checks := run(t, url, scenario)
	for _, c := range checks {
		if c.Status != "SUCCESS" {
			t.Errorf("%s is %s: %s", c.ID, c.Status, c.ErrorMessage)
		}
	}
	states := states(checks)
	for _, state := range states {
		if !strings.HasPrefix(state, "v1.") {
			t.Errorf("the client got a state that is not sealed: %q", state)
		}
	}
	if slices.Contains(carriers, scenario) && scenario != tampered && len(states) == 0 {
		t.Error("the client got no state at all")
	}
	want := int32(0)
	if scenario == tampered {
		want = 1
	}
	if got := refused.Load(); got != want {
		t.Errorf("%d states were refused, want %d", got, want)
	}
}

// Without the middleware the same server must fail, or the test above shows nothing.
func TestConformanceUnprotected(t *testing.T) {
	for _, sdk := range sdks {
		checks := run(t, sdk.serve(t, protection{}), tampered)
		if !slices.ContainsFunc(checks, func(c check) bool { return c.Status == "FAILURE" }) {
			t.Errorf("an unprotected server of %s passes %s: %+v", sdk.name, tampered, checks)
		}
	}
}

func protected(t *testing.T, refused func(context.Context, binding.Refusal)) protection {
	t.Helper()
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	ring, err := local.New(secret)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := binding.New(ring, binding.Options{Audience: "conformance"})
	if err != nil {
		t.Fatal(err)
	}
	return protection{policy, slog.New(slog.NewTextHandler(t.Output(), nil)), refused}
}

// scenarios asks the suite for its scenarios of multi round-trip requests.
func scenarios(t *testing.T) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := peers.Conformance(ctx, t, "list", "--server")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("listing the scenarios: %v\n%s", err, out)
	}
	return regexp.MustCompile(`input-required-result-[a-z-]*[a-z]`).FindAllString(string(out), -1)
}

// A check is one of those that the suite makes in a scenario.
type check struct {
	ID           string          `json:"id"`
	Status       string          `json:"status"`
	ErrorMessage string          `json:"errorMessage"`
	Details      json.RawMessage `json:"details"`
}

// run runs one scenario and returns its checks, of which there is at least one beside
// that of the schema, which is made even if nothing else is. The suite ends with an
// error exactly if a check fails.
func run(t *testing.T, url, scenario string) []check {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	cmd := peers.Conformance(ctx, t, "server", "--url", url, "--scenario", scenario, "--spec-version", "2026-07-28", "--output-dir", dir)
	cmd.Dir = dir
	out, failed := cmd.CombinedOutput()

	var checks []check
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "checks.json" {
			return err
		}
		report, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return json.Unmarshal(report, &checks)
	})
	if err != nil || !slices.ContainsFunc(checks, func(c check) bool { return c.ID != "wire-schema-valid" }) {
		t.Fatalf("the suite reports no check: %v, %v\n%s", err, failed, out)
	}
	failure := slices.ContainsFunc(checks, func(c check) bool { return c.Status == "FAILURE" })
	if failure != (failed != nil) {
		t.Errorf("the suite's exit code does not match its report: %v\n%s", failed, out)
	}
	if t.Failed() || testing.Verbose() {
		t.Logf("%s", bytes.TrimSpace(out))
	}
	return checks
}

// states returns the states that the suite received, as far as its report shows them.
func states(checks []check) []string {
	var all []string
	for _, c := range checks {
		var details struct {
			Result struct {
				RequestState string `json:"requestState"`
			} `json:"result"`
		}
		// The details of some checks have another shape, and no state.
		if json.Unmarshal(c.Details, &details) == nil && details.Result.RequestState != "" {
			all = append(all, details.Result.RequestState)
		}
	}
	return all
}
