package fleet_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/echoseal/echoseal/fleet"
)

func BenchmarkSign(b *testing.B) {
	key, r := mustKey(b, 0), report(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := key.Sign(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	key := mustKey(b, 0)
	signed := sign(b, key, report(1))
	b.ReportAllocs()
	b.SetBytes(int64(len(signed)))
	for b.Loop() {
		if _, err := key.Verify(signed); err != nil {
			b.Fatal(err)
		}
	}
}

// A fleet is collected over loopback. Memory per instance does not depend on how many
// there are; the servers' is counted, too.
func BenchmarkCollect(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			key := mustKey(b, 0)
			mux := http.NewServeMux()
			var uris []string
			address := serve(b, "127.0.0.1:0", mux)
			for i := range n {
				path := fmt.Sprintf("/%d", i)
				mux.Handle(path, reporting(b, key, report(i)))
				uris = append(uris, "http://"+address+path)
			}
			sources, err := fleet.Openers{fleet.HTTPOpener()}.Open(b.Context(), uris...)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				o := fleet.Collect(b.Context(), key, nil, sources...)
				if len(o.Instances) != n || len(o.Failures) != 0 {
					b.Fatalf("%d instances, %v", len(o.Instances), o.Failures)
				}
				for _, i := range o.Instances {
					if i.Err != nil {
						b.Fatal(i.Err)
					}
				}
			}
		})
	}
}
