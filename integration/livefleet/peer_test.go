package livefleet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/integration/internal/mixed"
	"github.com/echoseal/echoseal/integration/peers"
)

// A peer is a Python server, which follows no keyset: it runs with the keys that were
// exported to it last.
type peer struct {
	name      string
	framework string
	runs      []*run // one for each export, of which the last has not ended
}

// A run is a process of a peer.
type run struct {
	*mixed.Python

	name  string // that the balancer has for it
	seals string // the key that was primary at its export
}

// TestPeers rotates the keys of a fleet of every SDK. Two of its servers are Python's and
// get the keys by keytool export; a rotation waits for them twice.
func TestPeers(t *testing.T) {
	t.Parallel()
	peers.Dir(t)
	w := newWorld(t, "peers", newFilePlace(t), goSDK, mcpGo)
	defer w.finish()
	for _, framework := range []string{mixed.PythonSDK, mixed.FastMCP} {
		w.addPeer(framework)
	}
	w.happen(w.handedOver)
	if stayed := w.load.stayed.Load(); stayed > 0 {
		t.Errorf("%d rounds were answered by the server that they came from", stayed)
	}
}

// handedOver rotates, and hands each peer the keys of each phase.
func (w *world) handedOver() {
	old := w.primary()
	k := w.start(nil, "rotate", "--replace", old, "--wait")
	k.says("1/3 staged")
	for _, p := range w.peers {
		k.says("peer " + p.name)
		w.load.some()
		if w.primary() != old {
			w.Fatal("a key was promoted that a peer has not got")
		}
		w.handOver(p)
	}
	k.says("promoted")
	for _, p := range w.peers {
		k.says("peer " + p.name)
		w.load.some()
		if w.document().Key(old) == nil {
			w.Fatal("a key was retired that a peer seals with")
		}
		w.handOver(p)
	}
	k.ends(0)
	w.settled(old)
	primary := w.primary()
	for _, p := range w.peers {
		w.load.awaitSealed(w.T, p.runs[len(p.runs)-1].name, primary, time.Time{})
		w.handOver(p) // so that it loses the key that is retired
		w.load.awaitSealed(w.T, p.runs[len(p.runs)-1].name, primary, time.Time{})
	}
}

// addPeer adds a peer, and hands it the keys.
func (w *world) addPeer(framework string) {
	w.Helper()
	p := &peer{name: fmt.Sprintf("peer-%d", len(w.peers)+1), framework: framework}
	w.peers = append(w.peers, p)
	w.handOver(p)
	first := p.runs[0]
	w.load.awaitSealed(w.T, first.name, first.seals, time.Time{})
}

// handOver does what keytool says: it exports the keys, starts the peer with them in the
// place of the process that has older ones, deletes the file, and confirms.
func (w *world) handOver(p *peer) {
	w.Helper()
	file := filepath.Join(w.dir, p.name+".json")
	w.write("export", "--peer", p.name, "--ttl", ttl.String(), "--out", file)
	keys, err := os.ReadFile(file)
	if err == nil {
		err = os.Remove(file)
	}
	if err != nil {
		w.Fatal(err)
	}
	r := &run{name: fmt.Sprintf("%s-%d", p.name, len(p.runs)+1)}
	for _, exported := range w.document().Peers {
		if exported.Name == p.name {
			r.seals = exported.Primary
		}
	}
	r.Python = mixed.StartPython(w.T, r.name, mixed.Config{
		Framework: p.framework, Keys: json.RawMessage(keys), TTL: ttl.Seconds(), Audience: audience, Users: users,
	})
	w.balancer.add(r.name, r.URL)
	if len(p.runs) > 0 {
		w.end(p.runs[len(p.runs)-1])
	}
	p.runs = append(p.runs, r)
	w.write("confirm", "--peer", p.name)
}

// end ends a process of a peer in an orderly way.
func (w *world) end(r *run) {
	w.Helper()
	w.balancer.remove(r.name)
	if err := r.Stop(); err != nil {
		w.Errorf("%s ends with %v", r.name, err)
	}
	for line := range strings.Lines(r.Log.String()) {
		if _, what, ok := strings.Cut(line, "requestState rejected on "); ok && !strings.HasSuffix(what, ": expired\n") {
			w.load.fail("VALID ROUND REFUSED: by %s: %s", r.name, what)
		}
	}
}

// write runs a command of keytool that changes the keyset, again if another writer was
// first: a rotation that waits.
func (w *world) write(args ...string) {
	w.Helper()
	for {
		k := w.start(nil, args...)
		if k.ends(0, 5); k.code() == 0 {
			return
		}
	}
}
