package keyset

import (
	"fmt"
	"slices"
	"time"
)

// Export notes that a peer is given every key that unseals, and seals with the
// primary, with a ceiling of its own, which counts in every key's MaxTTL. Until
// [Document.Confirm] the peer is not known to run with them.
func (d *Document) Export(n Note, peer string, ttl time.Duration) error {
	return d.change(n, func(d *Document) error {
		p := Peer{Name: peer, Primary: d.Primary().KID, TTL: ttl}
		for _, k := range d.Keys {
			if k.Unseals() {
				p.KIDs = append(p.KIDs, k.KID)
			}
		}
		if i := d.peer(peer); i >= 0 {
			p.TTL = max(p.TTL, d.Peers[i].TTL) // tokens of the longer life are there
			d.Peers[i] = p
		} else {
			d.Peers = append(d.Peers, p)
		}
		d.raise()
		d.note(n, "export", "")
		return nil
	})
}

// Confirm notes that a peer runs with what was exported to it last.
func (d *Document) Confirm(n Note, peer string) error {
	return d.change(n, func(d *Document) error {
		i := d.peer(peer)
		if i < 0 {
			return d.noPeer(peer)
		}
		d.Peers[i].Confirmed = true
		d.note(n, "confirm", "")
		return nil
	})
}

// ForgetPeer notes that a peer is no more.
func (d *Document) ForgetPeer(n Note, peer string) error {
	return d.change(n, func(d *Document) error {
		i := d.peer(peer)
		if i < 0 {
			return d.noPeer(peer)
		}
		d.Peers = slices.Delete(d.Peers, i, i+1)
		d.note(n, "forget", "")
		return nil
	})
}

func (d *Document) peer(name string) int {
	return slices.IndexFunc(d.Peers, func(p Peer) bool { return p.Name == name })
}

func (d *Document) noPeer(name string) error {
	return fmt.Errorf("the keyset %s has no peer %.80q", d.Name, name)
}
