package keyset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/echoseal/echoseal/internal/strict"
)

// InitOptions say what a new keyset is like.
type InitOptions struct {
	Name   string        // required: [a-z0-9][a-z0-9._-]{0,62}
	TTL    time.Duration // 0: 10 minutes
	Policy Policy        // the zero value: DefaultPolicy()

	// Secrets are those of an existing ring, 32 to 1024 bytes each as [local.New] takes
	// them, the first one primary: the keyset takes it over, so that no token in flight is
	// refused. The others leave by TTL, so it has to be as long as tokens lived until now;
	// it may be lowered afterwards. None: a new key is made.
	Secrets [][]byte

	// After is the revision that the keyset follows, in [0, 2^52), when it replaces one that
	// nobody can open any more. 0 otherwise. Nobody has verified it: one near 2^53 would
	// leave no revisions for what comes.
	After int64

	Note Note // Note.At is required
}

// Init makes a new keyset and its auth key, wrapped by the first of the services. Save
// what [AuthKey.Encode] makes of it, with version "", so that an existing keyset is
// never replaced:
//
//	doc, auth, err := keyset.Init(ctx, services, keyset.InitOptions{Name: "billing", Note: keyset.Note{At: time.Now(), Actor: "me"}})
//	text, err := auth.Encode(doc)
//	_, err = store.Save(ctx, text, "")
//
// What is wrong with the options is found before the first call of a service. Errors are
// [ErrConfig] then, else those of the services.
func Init(ctx context.Context, s Services, o InitOptions) (*Document, *AuthKey, error) {
	if len(s) == 0 {
		return nil, nil, errNoService
	}
	d, err := o.document()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	auth, err := d.initAuth(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	if err := d.initKeys(ctx, s, o); err != nil {
		return nil, nil, err
	}
	d.raise()
	d.note(o.Note, "init", d.Primary().KID)
	if err := d.check(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrDocument, err)
	}
	return d, auth, nil
}

// document returns the new keyset without its keys.
func (o InitOptions) document() (*Document, error) {
	const tooMany = 1 << 52
	if o.After < 0 || o.After >= tooMany {
		return nil, errors.New("the revision to follow is not in [0, 2^52): no keyset was ever saved so often, so that what it stands in is forged; remove that, and make a new keyset in its place")
	}
	d := &Document{Name: o.Name, Lineage: newUUID(), Revision: o.After + 1, TTL: o.TTL, Policy: o.Policy, Auth: AuthEntry{ID: newUUID()}}
	if d.TTL == 0 {
		d.TTL = 10 * time.Minute
	}
	if d.Policy == (Policy{}) {
		d.Policy = DefaultPolicy()
	}
	d.Policy.Was = nil
	if err := d.checkHead(); err != nil {
		return nil, err
	}
	if err := o.Note.check(); err != nil {
		return nil, err
	}
	seen := make(map[string]int)
	for i, secret := range o.Secrets {
		key, err := localKey(secret)
		if err != nil {
			return nil, fmt.Errorf("secret %d: %w", i, err)
		}
		if first, twice := seen[key.KID()]; twice {
			return nil, fmt.Errorf("secret %d has the key id %s of secret %d: give each one once", i, key.KID(), first)
		}
		seen[key.KID()] = i
	}
	return d, nil
}

func (d *Document) initAuth(ctx context.Context, s Services) (*AuthKey, error) {
	encryptionContext := EncryptionContext(d.Name, d.Auth.ID, Auth)
	secret, w, err := s.Generate(ctx, encryptionContext)
	if err != nil {
		return nil, fmt.Errorf("making the auth key of keyset %s: %w", d.Name, err)
	}
	defer clear(secret)
	if err := preflight(ctx, s, encryptionContext, secret, w); err != nil {
		return nil, err
	}
	d.Auth.Wrapped = []WrappedKey{w}
	return NewAuthKey(d.Auth.ID, secret)
}

func (d *Document) initKeys(ctx context.Context, s Services, o InitOptions) error {
	at := strict.CeilTime(o.Note.At)
	if len(o.Secrets) == 0 {
		k, err := d.GenerateKey(ctx, s, at)
		if err != nil {
			return err
		}
		k.State, k.Staged, k.Promoted = Primary, at, at
		d.Keys = []Key{k}
		return nil
	}
	for i, secret := range o.Secrets {
		k, err := d.wrapKey(ctx, s, secret, at)
		if err != nil {
			return fmt.Errorf("secret %d: %w", i, err)
		}
		k.State, k.Staged, k.Promoted = Primary, at, at
		if i > 0 {
			k.State, k.Demoted = Retiring, at
		}
		d.Keys = append(d.Keys, k)
	}
	return nil
}
