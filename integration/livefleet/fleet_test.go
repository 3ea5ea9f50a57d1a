package livefleet

import (
	"testing"
	"time"
)

func TestFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "file", newFilePlace(t), goSDK, mcpGo)
	defer w.finish()
	w.live(w.killed, w.together, w.storeLost, w.keysLost)
}

func TestVault(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "vault", newVaultPlace(t), goSDK, mcpGo)
	defer w.finish()
	w.live(w.keysDenied, w.storeLost, w.backAndForth, w.keysLost)
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "etcd", newEtcdPlace(t), goSDK, mcpGo)
	defer w.finish()
	w.live(w.serversComeAndGo, w.paused, w.storeLost, w.keysLost, w.revoked)
}

// live lets a choice of things happen once or, if the fleet is to live for long, all that
// can.
func (w *world) live(choice ...func()) {
	w.Helper()
	if lifetime(w.T) > 0 {
		choice = w.everything()
	}
	w.happen(choice...)
}

// everything is what can happen to a fleet at this place.
func (w *world) everything() []func() {
	all := []func(){w.killed, w.together, w.storeLost, w.keysLost, w.backAndForth, w.paused, w.revoked}
	if w.place.deny != nil {
		all = append(all, w.keysDenied)
	}
	if w.place.registry != "" || w.dns { // else a keytool that runs does not hear of who comes
		all = append(all, w.serversComeAndGo)
	}
	return all
}

// happen lets things happen, each once or again and again for as long as the fleet is to
// live.
func (w *world) happen(happenings ...func()) {
	w.Helper()
	for began, long := time.Now(), lifetime(w.T); ; {
		for _, happens := range happenings {
			happens()
		}
		if time.Since(began) >= long {
			return
		}
	}
}
