package fleettest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/fleet/fleettest"
	"github.com/echoseal/echoseal/internal/memfleet"
)

func TestMemory(t *testing.T) {
	run(t, func(r *memfleet.Registry) fleet.Registry { return r })
}

// run runs the kit on registries in memory that are changed.
func run(t *testing.T, change func(*memfleet.Registry) fleet.Registry) {
	places := make(map[string]*memfleet.Registry)
	fleettest.TestRegistry(t, func(_ *testing.T, place string) fleet.Registry {
		if places[place] == nil {
			places[place] = new(memfleet.Registry)
		}
		return change(places[place])
	})
}

// A changed registry has functions in the place of some of its methods.
type changed struct {
	*memfleet.Registry
	collect func(answers []fleet.Answer, err error) ([]fleet.Answer, error)
	keep    func(keep time.Duration) time.Duration
	forget  func(id string, there bool) (forget bool, err error)
}

func (c *changed) Collect(ctx context.Context) ([]fleet.Answer, error) {
	answers, err := c.Registry.Collect(ctx)
	if c.collect == nil {
		return answers, err
	}
	return c.collect(answers, err)
}

func (c *changed) Publish(ctx context.Context, id string, signed []byte, keep time.Duration) error {
	if c.keep != nil {
		keep = c.keep(keep)
	}
	return c.Registry.Publish(ctx, id, signed, keep)
}

func (c *changed) Forget(ctx context.Context, id string) error {
	if c.forget != nil {
		answers, err := c.Registry.Collect(ctx)
		if err != nil {
			return err
		}
		there := slices.ContainsFunc(answers, func(a fleet.Answer) bool { return a.Address == id })
		if forget, err := c.forget(id, there); !forget || err != nil {
			return err
		}
	}
	return c.Registry.Forget(ctx, id)
}

// Each fault, and the test that finds it.
var faults = map[string]struct {
	test  string
	fault changed
}{
	"hides that it was not read": {"ended", changed{
		collect: func(answers []fleet.Answer, _ error) ([]fleet.Answer, error) { return answers, nil },
	}},
	"hides that it is a registry": {"published", changed{
		collect: func(answers []fleet.Answer, err error) ([]fleet.Answer, error) {
			for i := range answers {
				answers[i].Registered = false
			}
			return answers, err
		},
	}},
	"takes emptiness for a failure": {"empty", changed{
		collect: func(answers []fleet.Answer, err error) ([]fleet.Answer, error) {
			if len(answers) == 0 && err == nil {
				err = errors.New("there is nothing")
			}
			return answers, err
		},
	}},
	"cuts a long report": {"large", changed{
		collect: func(answers []fleet.Answer, err error) ([]fleet.Answer, error) {
			for i := range answers {
				answers[i].Signed = answers[i].Signed[:min(64<<10, len(answers[i].Signed))]
			}
			return answers, err
		},
	}},
	"gives one page of many": {"many", changed{
		collect: func(answers []fleet.Answer, err error) ([]fleet.Answer, error) {
			return answers[:min(50, len(answers))], err
		},
	}},
	"drops too early": {"lapsed", changed{
		keep: func(keep time.Duration) time.Duration { return keep / 2 },
	}},
	"drops what it should keep for ever": {"lapsed", changed{
		keep: func(keep time.Duration) time.Duration {
			if keep == 0 {
				return time.Second
			}
			return keep
		},
	}},
	"never forgets": {"forgotten", changed{
		forget: func(string, bool) (bool, error) { return false, nil },
	}},
	"misses what it should forget": {"forgotten", changed{
		forget: func(_ string, there bool) (bool, error) {
			if !there {
				return false, errors.New("there is none")
			}
			return true, nil
		},
	}},
}

const variable = "FLEETTEST_FAULT"

func TestFault(t *testing.T) {
	if fault, ok := faults[os.Getenv(variable)]; ok {
		run(t, func(r *memfleet.Registry) fleet.Registry {
			c := fault.fault
			c.Registry = r
			return &c
		})
	}
}

// The kit finds each fault, in a process whose test has to fail.
func TestFindsFaults(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestFault$/^"+fault.test+"$")
			cmd.Env = append(os.Environ(), variable+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !bytes.Contains(out, []byte("--- FAIL: TestFault/"+fault.test)) {
				t.Errorf("the kit did not find it: %v\n%s", err, out)
			}
		})
	}
}
