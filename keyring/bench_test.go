package keyring

import (
	"crypto/rand"
	"encoding/base64"
	"slices"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
)

// pair runs a floor and a subject in alternating batches, floor, subject, floor, and reports
// the median of the subject's time over the mean of its two neighbours. Plain loops
// disagree with themselves on a shared machine.
func pair(b *testing.B, floor, subject func()) {
	const batch = 60
	run := func(f func()) float64 {
		began := time.Now()
		for range batch {
			f()
		}
		return float64(time.Since(began))
	}
	run(floor)
	run(subject)
	var ratios []float64
	for b.Loop() {
		before := run(floor)
		it := run(subject)
		after := run(floor)
		ratios = append(ratios, 2*it/(before+after))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x/floor")
}

func benchmarkPayload(b *testing.B) []byte {
	b.Helper()
	payload := make([]byte, 1024)
	_, _ = rand.Read(payload)
	return payload
}

// BenchmarkSealUnseal is a token's way through a live ring over its way through a ring of
// package local.
func BenchmarkSealUnseal(b *testing.B) {
	r, payload := newWorld(b).open(), benchmarkPayload(b)
	buf, out := make([]byte, 0, 4096), make([]byte, 0, 4096)
	way := func(c codec.Appender) func() {
		return func() {
			token, err := c.AppendSeal(buf, payload, time.Time{})
			if err == nil {
				_, err = c.AppendUnseal(out, string(token))
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	pair(b, way(local.Ephemeral()), way(r))
}

// BenchmarkUnsealInFlood is unsealing a good token between tokens under key ids that nobody
// knows, over unsealing it alone; a flood costs others nothing but its own time.
func BenchmarkUnsealInFlood(b *testing.B) {
	r := newWorld(b).open()
	token, err := r.Seal(benchmarkPayload(b))
	if err != nil {
		b.Fatal(err)
	}
	out := make([]byte, 0, 4096)
	good := func() {
		if _, err := r.AppendUnseal(out, token); err != nil {
			b.Fatal(err)
		}
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var raw [64]byte
		tick := time.NewTicker(100 * time.Microsecond) // 10,000 a second, so that a core is left
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				_, _ = rand.Read(raw[:])
				_, _ = r.Unseal("v1." + base64.RawURLEncoding.EncodeToString(raw[:]))
			}
		}
	}()
	quiet := newWorld(b).open()
	same, err := quiet.Seal(benchmarkPayload(b))
	if err != nil {
		b.Fatal(err)
	}
	pair(b, func() {
		if _, err := quiet.AppendUnseal(out, same); err != nil {
			b.Fatal(err)
		}
	}, good)
	close(stop)
	<-done
}
