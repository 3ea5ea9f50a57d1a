package livefleet

import (
	"testing"
	"time"
)

func TestFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "file", newFilePlace(t), goSDK, mcpGo)
	defer w.finish()
	w.live(w.killed, w.together, w.storeLost)
}

func TestVault(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "vault", newVaultPlace(t), goSDK, mcpGo)
	defer w.finish()
	w.live(w.keysDenied, w.storeLost, w.backAndForth)
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "etcd", newEtcdPlace(t), goSDK, mcpGo)
	defer w.finish()
	w.live(w.serversComeAndGo, w.paused, w.storeLost, w.revoked)
}

// live lets things happen, each once or again and again for as long as the fleet is to
// live.
func (w *world) live(happenings ...func()) {
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
