package rotation_test

import (
	"context"
	"fmt"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/rotation"
)

// A whole rotation of a keyset whose servers do not report, by a clock that jumps to each
// time at which something can be done.
func Example() {
	now := time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC)
	services := keyset.Services{memkek.New("example")}
	policy := keyset.DefaultPolicy()
	policy.Proof = keyset.ProofSettle
	doc, _, err := keyset.Init(context.Background(), services, keyset.InitOptions{Name: "billing", Policy: policy, Note: keyset.Note{At: now}})
	if err != nil {
		fmt.Println(err)
		return
	}
	request := rotation.Request{Replace: doc.Primary().KID}
	for {
		step := rotation.Next(doc, fleet.Observation{Began: now, Ended: now}, now, request)
		switch {
		case step.Kind == rotation.Done:
			fmt.Println("done")
			return
		case !step.Kind.Changes():
			fmt.Printf("wait %v to %s\n", step.NotBefore.Sub(now), step.Goal)
			now = step.NotBefore
			continue
		}
		var fresh keyset.Key
		if step.Kind == rotation.Stage {
			if fresh, err = doc.GenerateKey(context.Background(), services, now); err != nil {
				fmt.Println(err)
				return
			}
		}
		if doc = doc.Next(); step.Apply(doc, keyset.Note{At: now}, fresh) != nil {
			return
		}
		fmt.Printf("revision %d: %s\n", doc.Revision, step.Kind)
	}
	// Output:
	// revision 2: stage
	// wait 1h3m0s to promote
	// revision 3: promote
	// wait 1h3m0s to drain
	// revision 4: drain
	// wait 12m0s to retire
	// revision 5: retire
	// done
}
