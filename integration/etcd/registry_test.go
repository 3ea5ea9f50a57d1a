package etcd_test

import (
	"testing"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/fleet/fleettest"
	"github.com/echoseal/echoseal/keyset/etcdstore"
)

func TestRegistryKit(t *testing.T) {
	s := newServer(t)
	fleettest.TestRegistry(t, func(t *testing.T, place string) fleet.Registry {
		t.Helper()
		registry, err := etcdstore.OpenRegistry(within(t), uri("etcd", "kit/"+place, s.address()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = registry.Close() })
		return registry
	})
}
