package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"
)

// rounds is how many ratios a figure is the median of.
const rounds = 300

// A table has a line for each subject, with a figure for each work, sealed and unsealed.
type table struct {
	works  []work
	lines  []*line
	floors [2][]time.Duration // of each work: to seal, to unseal
}

type line struct {
	subject
	ratios [2][][]float64 // to seal and to unseal, for each work those of each pass
}

// measure fills a table in two passes. notes gets what is left out.
func measure(ctx context.Context, notes io.Writer) (*table, error) {
	all := append(ours(), peers()...)
	python, err := startPython(ctx)
	switch {
	case errors.Is(err, errNoPython):
		fmt.Fprintln(notes, err)
	case err != nil:
		return nil, err
	default:
		defer python.close()
		all = append(all, python.subject())
	}
	t := &table{works: works()}
	for _, s := range all {
		l := &line{subject: s}
		for way := range l.ratios {
			l.ratios[way] = make([][]float64, len(t.works))
		}
		t.lines = append(t.lines, l)
	}
	for way := range t.floors {
		t.floors[way] = make([]time.Duration, len(t.works))
	}
	const passes = 2
	for range passes {
		for i, w := range t.works {
			payload, err := claims(w.state)
			if err != nil {
				return nil, err
			}
			for _, l := range t.lines {
				if err := t.fill(l, i, payload); err != nil {
					return nil, fmt.Errorf("%s, %s: %w", l.name, w.name, err)
				}
			}
		}
	}
	return t, nil
}

func (t *table) fill(l *line, i int, payload []byte) error {
	w := t.works[i]
	seal, unseal, err := l.open(w, payload)
	if err != nil {
		return err
	}
	floorSeal, floorUnseal, err := floor(payload, nil)
	if err != nil {
		return err
	}
	floors := [2]runner{floorSeal, floorUnseal}
	for way, run := range [2]runner{seal, unseal} {
		if run == nil {
			continue
		}
		c, err := compare(rounds, w.batch, floors[way], run)
		if err != nil {
			return err
		}
		l.ratios[way][i] = append(l.ratios[way][i], c.ratio)
		if least := &t.floors[way][i]; *least == 0 || c.floor < *least {
			*least = c.floor
		}
	}
	return nil
}

// write prints the table as Markdown.
func (t *table) write(out io.Writer) {
	heads := []string{"times the floor"}
	for _, way := range []string{"seal", "unseal"} {
		for _, w := range t.works {
			heads = append(heads, way+" "+w.name)
		}
	}
	row := func(cells []string) { fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | ")) }
	row(heads)
	row(append([]string{"---"}, strings.Fields(strings.Repeat("---: ", len(heads)-1))...))
	cells := []string{"the floor"}
	for _, floors := range t.floors {
		for _, f := range floors {
			cells = append(cells, fmt.Sprintf("%.2f µs", float64(f)/1e3))
		}
	}
	row(cells)
	for _, l := range t.lines {
		cells := []string{l.name}
		if !l.whole {
			cells[0] += " †"
		}
		for _, works := range l.ratios {
			for _, passes := range works {
				cells = append(cells, figure(passes))
			}
		}
		row(cells)
	}
	worst, where := t.disagreement()
	fmt.Fprintf(out, "\n† seals claims that are ready, which is a part of the job: it neither makes nor checks them.\n"+
		"Each figure is the mean of two passes. They differ by %.1f %% at most (%s); the floor's times are the lower of them.\n", worst*100, where)
}

func figure(passes []float64) string {
	if len(passes) == 0 {
		return ""
	}
	m := mean(passes)
	if m >= 10 {
		return fmt.Sprintf("%.0f", m)
	}
	return fmt.Sprintf("%.2f", m)
}

func mean(all []float64) float64 {
	sum := 0.0
	for _, x := range all {
		sum += x
	}
	return sum / float64(len(all))
}

// disagreement returns by how much the passes differ where they differ most.
func (t *table) disagreement() (worst float64, where string) {
	for _, l := range t.lines {
		for way, works := range l.ratios {
			for i, passes := range works {
				for _, x := range passes {
					if d := 2 * math.Abs(x/mean(passes)-1); d > worst {
						worst, where = d, fmt.Sprintf("%s, %s %s", strings.Trim(l.name, "*"), [2]string{"seal", "unseal"}[way], t.works[i].name)
					}
				}
			}
		}
	}
	return worst, where
}

// machine tells what was measured on, and when.
func machine(now time.Time) string {
	model := "an unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for field := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(field, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	load := ""
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 0 {
			load = ", load " + fields[0] + " at the end"
		}
	}
	return fmt.Sprintf("%s, %s%s; %s.", model, platform(), load, now.UTC().Format("2 January 2006"))
}
