package keyring

import (
	"testing"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/codectest"
)

func TestCodecKit(t *testing.T) {
	codectest.Run(t, func(tb testing.TB) codec.Codec {
		return newWorld(tb).open(func(c *Config) { c.Now = nil })
	})
}

func TestWholeRotation(t *testing.T) {
	w := newWorld(t)
	r := w.open()
	old := w.doc.Primary().KID
	first := seal(t, r)
	refresh := func(what string) {
		t.Helper()
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	kid := w.stage()
	refresh("stage")
	if k := keyOf(r, kid); k == nil || !k.Held || r.Status().Sealing != old {
		t.Fatalf("after stage: %+v", r.Status())
	}
	w.promote(kid)
	refresh("promote")
	second := seal(t, r)
	if r.KID(second) != kid || !opens(t, r, first) || !opens(t, r, second) {
		t.Errorf("after promote: %+v", r.Status())
	}
	w.retire(old)
	refresh("retire")
	if opens(t, r, first) || !opens(t, r, second) {
		t.Errorf("after retire: %+v", r.Status())
	}
}
