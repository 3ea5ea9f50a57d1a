package keyset

import (
	"io/fs"
	"os"
	"testing"
)

func TestIsTrusted(t *testing.T) {
	me, root, keeper, other := owner{user: os.Geteuid()}, owner{}, owner{user: 70001}, owner{user: 70002}
	for _, c := range []struct {
		file owner
		mode fs.FileMode
		want bool
	}{
		{other, 0o755, true}, {other, 0o700, true},
		{other, 0o775, false}, {other, 0o757, false}, {other, 0o777 | fs.ModeSticky, false},
		{keeper, 0o777, true}, {me, 0o777, true}, {root, 0o777, true},
	} {
		if got := isTrusted(c.file, keeper, c.mode); got != c.want {
			t.Errorf("a file of %d in a folder %v of %d: %v", c.file.user, c.mode, keeper.user, got)
		}
	}
}
