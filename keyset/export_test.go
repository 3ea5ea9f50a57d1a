package keyset

import (
	"context"
	"time"
)

// AtStep has hook called before each step of a Save, and before a Load reads.
func (f *File) AtStep(hook func(step string)) { f.step = hook }

// WrapKey is what Init makes the key of a secret with.
func (d *Document) WrapKey(ctx context.Context, s Services, secret []byte, now time.Time) (Key, error) {
	return d.wrapKey(ctx, s, secret, now)
}
