package binding

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/internal/canon"
)

func TestTimesAreThoseOfFloats(t *testing.T) {
	var got, want []byte
	check := func(seconds float64) {
		t.Helper()
		got, want = appendTime(got[:0], seconds), canon.AppendFloat(want[:0], seconds)
		if string(got) != string(want) {
			t.Fatalf("%v is %s, want %s", seconds, got, want)
		}
	}
	for _, edge := range []float64{-1, 0, 0.5, 1 << 30, 1 << 31, 1 << 53, math.MaxFloat64} {
		for _, at := range []float64{math.Nextafter(edge, math.Inf(-1)), edge, math.Nextafter(edge, math.Inf(1)), edge + 0.5, edge + 600} {
			check(at)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		check(seconds(time.Unix(1<<30+random.Int64N(1<<30), random.Int64N(1e9))))
		check(1<<30 + float64(random.Int64N(1<<52))/(1<<22))
	}
	// All fractions that a time can have: whole seconds before them change nothing.
	for fraction := range 1 << 22 {
		check(1_700_000_000 + float64(fraction)/(1<<22))
	}
}

// The life of a token is added as floats are.
func TestExpiryIsTheSumOfFloats(t *testing.T) {
	for _, ttl := range []time.Duration{1, time.Millisecond, time.Second, 1500 * time.Millisecond, 10 * time.Minute, 24 * time.Hour, 1 << 62} {
		now := time.Unix(1_700_000_000, 123_456_789)
		r := mustPolicy(t, local.Ephemeral(), Options{Audience: "a"}).Round(call, Principal{})
		payload, ok := r.appendClaims(nil, "s", now, ttl, [saltSize]byte{})
		if !ok {
			t.Fatal("no claims")
		}
		if want := string(canon.AppendFloat([]byte(`,"exp":`), seconds(now)+ttl.Seconds())) + `,"m"`; !bytes.Contains(payload, []byte(want)) {
			t.Errorf("%v: the claims are %s, want %s in them", ttl, payload, want)
		}
	}
}
