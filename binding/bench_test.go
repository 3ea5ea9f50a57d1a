package binding

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec/local"
)

// The benchmarks report x/floor: the time of a seal or an unseal over the time of
// what no implementation could leave out, in the same process. The floor is 12 random
// bytes, AES-256-GCM with a ready AEAD over a payload of exactly the real size, one
// base64url conversion into a ready buffer and one SHA-256 over the raw arguments,
// without claims or allocations.
//
// The machine's speed drifts, so batches of floor and subject take turns; a ratio is
// a batch over the mean of the two floors around it, and the metric the median of
// all. Absolute times of such a run mean little and are not reported.
func BenchmarkSeal(b *testing.B)   { bench(b, true) }
func BenchmarkUnseal(b *testing.B) { bench(b, false) }

// benchArguments has seven members out of order, one of them an object, one an array.
var benchArguments = []byte(`{"region":"eu-west-1","count":3,"name":"orders-db","tags":["prod","tier-1","pci"],"size":{"cpu":8,"memory_gb":64},"encrypted":true,"approval":"change request 4711 of the platform team, second"}`)

func bench(b *testing.B, sealing bool) {
	jsonText := `{"step":"confirm","items":[{"sku":"A-17","count":2,"note":"fragile \"glass\""},{"sku":"B-2","count":1}],"page":3},`
	for _, work := range []struct{ name, state string }{
		{"128B", strings.Repeat("x", 128)},
		{"1KiB", strings.Repeat("plain text, ", 86)[:1024]},
		{"16KiB", strings.Repeat("plain text, ", 1400)[:16<<10]},
		{"1KiB-json", strings.Repeat(jsonText, 10)[:1024]},
	} {
		for _, way := range []string{"string", "append", "same-round"} {
			if way == "same-round" && (!sealing || work.name != "1KiB") {
				continue
			}
			b.Run(work.name+"/"+way, func(b *testing.B) {
				batch := 60
				if len(work.state) > 4096 {
					batch = 12
				}
				subject, floor := benchPair(b, sealing, way, work.state)
				reportRatio(b, batch, subject, floor)
			})
		}
	}
}

func benchPair(b *testing.B, sealing bool, way, state string) (subject, floor func()) {
	ring := local.Ephemeral()
	p := mustPolicy(b, ring, Options{Audience: "billing"})
	request := Request{Method: MethodCallTool, Target: "provision", Arguments: benchArguments}
	principal := Bound(`["client-123","https://as.example","alice"]`)
	same := p.Round(request, principal)
	token := mustSeal(b, same, state)
	payload, err := ring.Unseal(token)
	if err != nil {
		b.Fatal(err)
	}
	block, err := aes.NewCipher(make([]byte, 32))
	if err != nil {
		b.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 0, 64<<10)
	body := make([]byte, 16, 64<<10)
	sealed := aead.Seal(body, body[4:16], payload, body[:7])
	text := make([]byte, base64.RawURLEncoding.EncodedLen(len(sealed)))
	base64.RawURLEncoding.Encode(text, sealed)
	if !sealing {
		floor = func() {
			sha256.Sum256(benchArguments)
			n, _ := base64.RawURLEncoding.Decode(buf[:cap(buf)], text)
			if _, err := aead.Open(body[:0], buf[4:16], buf[16:n], buf[:7]); err != nil {
				b.Fatal(err)
			}
		}
		body = make([]byte, 0, 64<<10)
		if way == "string" {
			return func() { check2(p.Round(request, principal).Unseal(token)) }, floor
		}
		dst := make([]byte, 0, 64<<10)
		return func() { check2(p.Round(request, principal).AppendUnseal(dst, token)) }, floor
	}
	floor = func() {
		sha256.Sum256(benchArguments)
		_, _ = rand.Read(body[4:16])
		base64.RawURLEncoding.Encode(text, aead.Seal(body, body[4:16], payload, body[:7]))
	}
	dst := make([]byte, 0, 64<<10)
	switch way {
	case "string":
		return func() { check2(p.Round(request, principal).Seal(state)) }, floor
	case "append":
		return func() { check2(p.Round(request, principal).AppendSeal(dst, state)) }, floor
	}
	return func() { check2(same.AppendSeal(dst, state)) }, floor
}

func check2[T any](_ T, err error) {
	if err != nil {
		panic(err)
	}
}

// reportRatio runs batches floor, subject, floor, … and reports the median ratio.
func reportRatio(b *testing.B, batch int, subject, floor func()) {
	run := func(f func()) float64 {
		start := time.Now()
		for range batch {
			f()
		}
		return float64(time.Since(start))
	}
	rounds := max(300, b.N/batch)
	ratios := make([]float64, 0, rounds)
	run(subject)
	before := run(floor)
	for range rounds {
		middle := run(subject)
		after := run(floor)
		ratios = append(ratios, middle/((before+after)/2))
		before = after
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x/floor")
	b.ReportMetric(0, "ns/op") // shared machines: only the ratio means something
}
