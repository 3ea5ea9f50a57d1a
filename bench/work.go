package main

import (
	"slices"
	"strings"
	"time"
)

// A work is a state to seal.
type work struct {
	name  string
	state string
	batch int // operations between two looks at the clock
}

func works() []work {
	const jsonText = `{"step":"confirm","items":[{"sku":"A-17","count":2,"note":"fragile \"glass\""},{"sku":"B-2","count":1}],"page":3},`
	const text = "plain text, "
	return []work{
		{"128 B", strings.Repeat("x", 128), 60},
		{"1 KiB", strings.Repeat(text, 90)[:1<<10], 60},
		{"16 KiB", strings.Repeat(text, 1400)[:16<<10], 12},
		{"1 KiB of JSON", strings.Repeat(jsonText, 10)[:1<<10], 60},
	}
}

// What all tokens are bound to. The arguments have seven members out of order, one of them
// an object, one an array.
const (
	tool      = "provision"
	audience  = "billing"
	principal = `["client-123","https://as.example","alice"]`
	arguments = `{"region":"eu-west-1","count":3,"name":"orders-db","tags":["prod","tier-1","pci"],"size":{"cpu":8,"memory_gb":64},"encrypted":true,"approval":"change request 4711 of the platform team, second"}`
)

// A runner does something n times and tells how long that took.
type runner func(n int) (time.Duration, error)

// each makes a runner of what does it once.
func each(once func() error) runner {
	return func(n int) (time.Duration, error) {
		began := time.Now()
		for range n {
			if err := once(); err != nil {
				return 0, err
			}
		}
		return time.Since(began), nil
	}
}

// A cell is what was measured of one subject at one work.
type cell struct {
	ratio float64       // to the floor
	floor time.Duration // of one operation
}

// compare measures a subject by the paired method, in as many rounds.
func compare(rounds, batch int, floor, subject runner) (cell, error) {
	var ratios, floors []float64
	if _, err := subject(batch); err != nil { // warms it up
		return cell{}, err
	}
	before, err := floor(batch)
	if err != nil {
		return cell{}, err
	}
	for range rounds {
		took, err := subject(batch)
		if err != nil {
			return cell{}, err
		}
		after, err := floor(batch)
		if err != nil {
			return cell{}, err
		}
		ratios = append(ratios, 2*float64(took)/float64(before+after))
		floors = append(floors, float64(after)/float64(batch))
		before = after
	}
	return cell{median(ratios), time.Duration(median(floors))}, nil
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return (sorted[len(sorted)/2] + sorted[(len(sorted)-1)/2]) / 2
}
