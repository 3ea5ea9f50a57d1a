package etcdstore

import (
	"context"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/rotation"
)

// What the registry takes for an id is what a report may have for one, and what is offered
// on a command line as one: three packages decide it, each for itself.
func TestIDsAreTheSameEverywhere(t *testing.T) {
	key, err := fleet.NewKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 12, 2, 3, 0, 0, 0, time.UTC)
	reported := func(id string) bool {
		_, err := key.Sign(fleet.Report{
			ID: id, Started: at, Now: at, Every: time.Second, Keyset: "fleet", Lineage: "5c1d7e1e-9e0b-4a55-8a3b-c0ffee15900d", Revision: 1,
			Tag: strings.Repeat("A", 43) + "=", TTL: time.Minute,
		})
		if err != nil && !strings.Contains(err.Error(), ": id: ") {
			t.Fatal(err)
		}
		return err == nil
	}
	offered := func(id string) bool {
		r := rotation.Reason{Code: rotation.Silent, Instance: "mcp-a", ID: id, Address: id, Until: at}
		return strings.Contains(r.Fix(), "keytool fleet forget")
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://127.0.0.1:1"}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	registry, err := NewRegistry(client, "key")
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel() // nothing is sent
	taken := func(id string) bool {
		forget, publish := registry.Forget(over, id), registry.Publish(over, id, nil, 0)
		if forget == nil || publish == nil {
			t.Fatal("there is no server, and it answers")
		}
		const refused = "the id of the instance is not"
		if strings.Contains(forget.Error(), refused) != strings.Contains(publish.Error(), refused) {
			t.Fatalf("%q: %v, but %v", id, forget, publish)
		}
		return !strings.Contains(forget.Error(), refused)
	}

	good := "000102030405060708090a0b0c0d0eff"
	ids := []string{
		good, "", good[:31], good + "0", good[:31] + "\n", good + "\n", "\n" + good, good + "\x00", " " + good[1:], good[:31] + "\xff",
		strings.ToUpper(good), good[:31] + "g", good[:31] + "`", good[:31] + "/", good[:31] + ":", good[:31] + "@", good[:30] + "é",
		strings.Repeat("٣", 16), strings.Repeat("٣", 32), strings.Repeat("0", 16) + "\n" + strings.Repeat("0", 15), good + "\n" + good, "../" + good[3:], "$(" + good[2:],
	}
	for b := range 256 { // each byte, first and last
		ids = append(ids, string([]byte{byte(b)})+good[1:], good[:31]+string([]byte{byte(b)}))
	}
	n := 0
	for _, id := range ids {
		r, o, k := reported(id), offered(id), taken(id)
		if r != o || o != k {
			t.Errorf("%q: in a report %v, offered %v, in the registry %v", id, r, o, k)
		}
		if r {
			n++
		}
	}
	if n != 1+2*16 {
		t.Errorf("%d ids are taken", n)
	}
}
