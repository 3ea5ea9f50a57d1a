package fleet_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/echoseal/echoseal/fleet"
)

// Whatever is accepted is a report, the same one when it is signed again, and nothing
// else is without the key.
func FuzzVerify(f *testing.F) {
	key, other := mustKey(f, 0), mustKey(f, 1)
	bare := report(2)
	bare.Verifies, bare.Primary, bare.Services, bare.Opened, bare.Failed, bare.Keys = nil, "", nil, nil, nil, nil
	for _, seed := range [][]byte{
		[]byte(golden), sign(f, key, report(1)), sign(f, key, bare), sign(f, other, bare),
		[]byte(`{"report":{},"mac":""}`), []byte(`{"mac":"` + goldenMAC + `","report":null}`), []byte(`{"report":{"v":1,"v":2}}`), []byte(`[[[[`),
		bytes.Replace([]byte(golden), []byte(`"v":1`), []byte(`"v":1e0`), 1), []byte(golden[:len(golden)/2]),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, signed []byte) {
		r, err := key.Verify(signed)
		if err != nil {
			if malformed, mac := errors.Is(err, fleet.ErrMalformed), errors.Is(err, fleet.ErrMAC); malformed == mac || !reflect.DeepEqual(r, fleet.Report{}) {
				t.Errorf("%+v, %v", r, err)
			}
			return
		}
		if _, err := other.Verify(signed); !errors.Is(err, fleet.ErrMAC) {
			t.Errorf("under another key: %v", err)
		}
		again, err := key.Sign(r)
		if err != nil {
			t.Fatalf("what was accepted cannot be signed: %v", err)
		}
		if got, err := key.Verify(again); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v, %v; want %+v", got, err, r)
		}
	})
}
