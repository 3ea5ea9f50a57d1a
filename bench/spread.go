package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
)

// runs is how often each of the two sides of a comparison is run, in turns.
const runs = 12

// A comparison is a quotient, measured as often as there are runs.
type comparison struct {
	name  string
	goal  string
	ratio func(ctx context.Context) ([]float64, error)
}

func comparisons() []comparison {
	return []comparison{
		{"two cores over one, tokens a second, AppendSeal and AppendUnseal", "≥ 1.9", func(context.Context) ([]float64, error) { return cores(turns(turnAppend)) }},
		{"two cores over one, tokens a second, Seal and Unseal", "≥ 1.9", func(context.Context) ([]float64, error) { return cores(turns(turnStrings)) }},
		{"the same of the floor, with a new string for each result", "", func(context.Context) ([]float64, error) { return cores(floorStrings) }},
		{"unseal in a ring of 64 keys over a ring of one", "1", ringOf64},
		{"unseal in a ring that has followed 200 revisions over one at its first", "1", afterMany},
		{"p99 of unsealing with a new revision every 10 ms over none", "< 1.1", swaps},
		{"FIPS 140-3 mode over none, seal", "≤ 1.4", func(ctx context.Context) ([]float64, error) { return fips(ctx, "seal") }},
		{"FIPS 140-3 mode over none, unseal", "≤ 1.1", func(ctx context.Context) ([]float64, error) { return fips(ctx, "unseal") }},
	}
}

// writeSpread measures what no single figure tells, and prints it as Markdown.
func writeSpread(ctx context.Context, out io.Writer) error {
	fmt.Fprintln(out, "| quotient | to reach | median | lowest | highest | runs |\n| --- | ---: | ---: | ---: | ---: | ---: |")
	for _, c := range comparisons() {
		ratios, err := c.ratio(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Fprintf(out, "| %s | %s | %.3f | %.3f | %.3f | %d |\n", c.name, c.goal, median(ratios), slices.Min(ratios), slices.Max(ratios), len(ratios))
	}
	r, err := serverRounds(ctx)
	if err != nil {
		return err
	}
	more := func(ratios []float64) float64 { return r.without * (median(ratios) - 1) }
	fmt.Fprintf(out, "\nA round of a go-sdk server (tools/call over a transport in memory, with a state of 1 KiB that comes and one that goes) takes %.0f µs without Echoseal, "+
		"and with it %.2f times that (%.2f to %.2f in %d runs): %.1f µs more. With a state as long as the token, and no Echoseal, it takes %.1f µs more.\n",
		r.without, median(r.with), slices.Min(r.with), slices.Max(r.with), len(r.with), more(r.with), more(r.longer))
	return nil
}

// alternate runs a and b in turns, a once more at the end, and returns each b over the
// mean of its neighbours.
func alternate(a, b func() (float64, error)) ([]float64, error) {
	var ratios []float64
	before, err := a()
	if err != nil {
		return nil, err
	}
	for range runs {
		it, err := b()
		if err != nil {
			return nil, err
		}
		after, err := a()
		if err != nil {
			return nil, err
		}
		ratios = append(ratios, 2*it/(before+after))
		before = after
	}
	return ratios, nil
}

// paired compares b with a by the paired method, which bears a shared machine.
func paired(a, b runner) ([]float64, error) {
	var ratios []float64
	for range runs {
		c, err := compare(rounds, 60, a, b)
		if err != nil {
			return nil, err
		}
		ratios = append(ratios, c.ratio)
	}
	return ratios, nil
}

// A side makes the runners of as many goroutines.
type side func(goroutines int) ([]runner, error)

// turns seal a state and open a token, under one policy.
func turns(turn func(r *binding.Round, state, token string, sealed, opened []byte) error) side {
	return func(goroutines int) ([]runner, error) {
		w := works()[1]
		policy, who, token, err := sealed(w)
		runners := make([]runner, goroutines)
		for i := range runners {
			one, other := make([]byte, 0, len(token)), make([]byte, 0, len(token))
			runners[i] = each(func() error { return turn(policy.Round(request, who), w.state, token, one, other) })
		}
		return runners, err
	}
}

func turnStrings(r *binding.Round, state, token string, _, _ []byte) error {
	_, err := r.Seal(state)
	if err == nil {
		_, err = r.Unseal(token)
	}
	return err
}

func turnAppend(r *binding.Round, state, token string, sealed, opened []byte) error {
	_, err := r.AppendSeal(sealed, state)
	if err == nil {
		_, err = r.AppendUnseal(opened, token)
	}
	return err
}

// floorStrings are the floor's turns, with each result in a new string: what the cipher and
// Go's allocator do by themselves.
func floorStrings(goroutines int) ([]runner, error) {
	payload, err := claims(works()[1].state)
	if err != nil {
		return nil, err
	}
	runners := make([]runner, goroutines)
	for i := range runners {
		var kept string
		seal, unseal, err := floor(payload, func(result []byte) { kept = string(result) })
		if err != nil {
			return nil, err
		}
		runners[i] = each(func() error {
			_, err := seal(1)
			if err == nil {
				_, err = unseal(1)
			}
			runtime.KeepAlive(kept)
			return err
		})
	}
	return runners, nil
}

// cores compares how many turns two goroutines on two cores take in a time with how many
// one on one core does.
func cores(of side) ([]float64, error) {
	on := func(n int) func() (float64, error) {
		return func() (float64, error) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
			runners, err := of(n)
			if err != nil {
				return 0, err
			}
			counts, errs := make([]int, n), make([]error, n)
			began := time.Now()
			end := began.Add(300 * time.Millisecond)
			var wait sync.WaitGroup
			for i, run := range runners {
				wait.Go(func() {
					const look = 64 // turns between two looks at the clock
					done := 0
					for errs[i] == nil && time.Now().Before(end) {
						_, errs[i] = run(look)
						done += look
					}
					counts[i] = done
				})
			}
			wait.Wait()
			took := time.Since(began)
			sum := 0
			for _, n := range counts {
				sum += n
			}
			return float64(sum) / took.Seconds(), errors.Join(errs...)
		}
	}
	return alternate(on(1), on(2))
}

// unsealing opens one token again and again.
func unsealing(c codec.Appender, token string) runner {
	dst := make([]byte, 0, len(token))
	return each(func() error {
		_, err := c.AppendUnseal(dst, token)
		return err
	})
}

// ringOf64 compares unsealing under the last of 64 keys with unsealing under the only one.
func ringOf64(context.Context) ([]float64, error) {
	keys := make([]*local.Key, 64)
	for i := range keys {
		key, err := local.NewKey(fmt.Appendf(nil, "a secret for a benchmark, number %02d", i))
		if err != nil {
			return nil, err
		}
		keys[i] = key
	}
	payload, err := claims(works()[1].state)
	if err != nil {
		return nil, err
	}
	one, err := local.NewRing(keys[63])
	if err != nil {
		return nil, err
	}
	many, err := local.NewRing(keys...)
	if err != nil {
		return nil, err
	}
	token, err := one.Seal(payload)
	if err != nil {
		return nil, err
	}
	return paired(unsealing(one, token), unsealing(many, token))
}
