package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/echoseal/echoseal/fleet"
)

// Two instances serve their reports, and whoever rotates collects them. The second one
// holds another keyset's authentication key, so nothing that it says is believed.
func Example() {
	var sources fleet.Sources
	for i, auth := range [][]byte{bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)} {
		key, err := fleet.NewKey(auth) // the live ring does this, and reports
		if err != nil {
			fmt.Println(err)
			return
		}
		instance := httptest.NewServer(fleet.Handler(func(context.Context) ([]byte, error) {
			return key.Sign(fleet.Report{
				ID: fmt.Sprintf("%032x", i), Host: "mcp-a", Started: time.Now(), Now: time.Now(), Every: 15 * time.Second,
				Keyset: "fleet", Lineage: "5c1d7e1e-9e0b-4a55-8a3b-c0ffee15900d", Revision: 7, Tag: "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
				Primary: "4c11d0e2", Verifies: []string{"4c11d0e2", "9f2c61ab"}, TTL: 10 * time.Minute, Ready: true,
			})
		}))
		defer instance.Close()
		source, err := fleet.HTTP(instance.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		sources = append(sources, source)
	}

	key, err := fleet.NewKey(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	o := fleet.Collect(ctx, key, time.Now, sources...)
	for _, i := range o.Instances {
		switch {
		case errors.Is(i.Err, fleet.ErrMAC):
			fmt.Println("an instance of another keyset")
		case i.Err != nil:
			fmt.Println(i.Address, i.Err)
		default:
			fmt.Println(i.Name(), i.Report.Health(), i.Report.Primary, i.Report.Verifies, i.Live(), i.Report.Fresh(o.Began))
		}
	}
	// Output:
	// mcp-a ok 4c11d0e2 [4c11d0e2 9f2c61ab] true true
	// an instance of another keyset
}
