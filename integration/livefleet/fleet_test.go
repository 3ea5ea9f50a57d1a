package livefleet

import "testing"

func TestFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "file", newFilePlace(t), goSDK)
	defer w.finish()
	w.killed()
	w.together()
	w.storeLost()
}
