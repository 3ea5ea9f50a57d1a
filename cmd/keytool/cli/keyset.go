package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/echoseal/echoseal/codec/awskms"
	"github.com/echoseal/echoseal/codec/gcpkms"
	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/codec/vault"
	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/etcdstore"
)

// The places and services that a URI may name.
func keyServiceOpeners() keyset.Openers {
	return keyset.Openers{localkek.Opener(), awskms.Opener(), gcpkms.Opener(), vault.Opener()}
}

func sourceOpeners() keyset.SourceOpeners {
	return keyset.SourceOpeners{keyset.FileOpener(), keyset.EnvOpener()}
}

func fleetOpeners() fleet.Openers {
	return fleet.Openers{fleet.HTTPOpener(), fleet.DNSOpener(nil), etcdstore.FleetOpener()}
}

// An opened keyset is what a command works on: all that the flags name, opened, and
// the document in it, verified.
type opened struct {
	app      *app
	source   keyset.Source
	services keyset.Services
	sources  fleet.Sources

	doc     *keyset.Document
	auth    *keyset.AuthKey
	reports *fleet.Key
	version string
}

// connect opens the store, the key services and the fleet, and reads nothing yet.
func (a *app) connect(ctx context.Context) (*opened, error) {
	var missing []string
	if a.flags.store == "" {
		missing = append(missing, "--store or ECHOSEAL_STORE")
	}
	if a.flags.name == "" {
		missing = append(missing, "--name or ECHOSEAL_NAME")
	}
	if len(a.flags.keyServices) == 0 {
		missing = append(missing, "--key-service or ECHOSEAL_KEY_SERVICES")
	}
	if len(missing) > 0 {
		return nil, usagef("set %s", strings.Join(missing, ", and "))
	}
	o := &opened{app: a}
	var err error
	if o.source, err = sourceOpeners().Open(ctx, a.flags.store); err != nil {
		return nil, o.failed(err)
	}
	if o.services, err = keyServiceOpeners().Open(ctx, a.flags.keyServices...); err != nil {
		return nil, o.failed(err)
	}
	if o.sources, err = fleetOpeners().Open(ctx, a.flags.fleet...); err != nil {
		return nil, o.failed(err)
	}
	return o, nil
}

// open connects and loads.
func (a *app) open(ctx context.Context) (*opened, error) {
	o, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.load(ctx); err != nil {
		return nil, o.failed(err)
	}
	return o, nil
}

func (o *opened) failed(err error) error {
	o.close()
	if errors.Is(err, keyset.ErrConfig) || errors.Is(err, fleet.ErrConfig) {
		return &exitError{code: usage, err: err}
	}
	return err
}

func (o *opened) close() {
	_ = o.services.Close()
	_ = o.sources.Close()
	if c, ok := o.source.(io.Closer); ok {
		_ = c.Close()
	}
}

// load reads the document, and verifies it.
func (o *opened) load(ctx context.Context) error {
	text, version, err := o.source.Load(ctx)
	if errors.Is(err, keyset.ErrNotExist) {
		return fmt.Errorf("%w; keytool init makes one", err)
	}
	if err != nil {
		return err
	}
	doc, err := keyset.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", o.app.flags.store, err)
	}
	if doc.Name != o.app.flags.name {
		return fmt.Errorf("the keyset at %s is %s, and --name is %.80q: correct one of the two", o.app.flags.store, doc.Name, o.app.flags.name)
	}
	if o.auth == nil || o.auth.ID() != doc.Auth.ID {
		if err := o.openAuth(ctx, doc); err != nil {
			return err
		}
	}
	if err := o.auth.Verify(doc); err != nil {
		return fmt.Errorf("%s: %w; restore it from a copy, and find out who can write there", o.app.flags.store, err)
	}
	o.doc, o.version = doc, version
	return nil
}

func (o *opened) openAuth(ctx context.Context, doc *keyset.Document) error {
	secret, err := o.services.OpenAuth(ctx, doc)
	if err != nil {
		return err
	}
	defer clear(secret)
	if o.auth, err = keyset.NewAuthKey(doc.Auth.ID, secret); err != nil {
		return err
	}
	o.reports, err = fleet.NewKey(secret)
	return err
}

// store returns the place to write to.
func (o *opened) store() (keyset.Store, error) {
	if s, ok := o.source.(keyset.Store); ok {
		return s, nil
	}
	return nil, usagef("%s can only be read: write the keyset where it comes from", o.app.flags.store)
}

// save writes next, with the version that was loaded. After an error that does not tell
// which document is there it looks: nil means that it is next.
func (o *opened) save(ctx context.Context, next *keyset.Document) error {
	store, err := o.store()
	if err != nil {
		return err
	}
	text, err := o.auth.Encode(next)
	if err != nil {
		return err
	}
	version, err := store.Save(ctx, text, o.version)
	if err != nil {
		if version, err = o.isThere(ctx, text, err); err != nil {
			return err
		}
	}
	o.doc, o.version = next, version
	return nil
}

// lookAgain is how long it may take to see what is there after a failed save.
const lookAgain = 5 * time.Second

func (o *opened) isThere(ctx context.Context, text []byte, saveErr error) (version string, err error) {
	if errors.Is(saveErr, keyset.ErrConflict) {
		return "", fmt.Errorf("%w: nothing was changed; run the command again, it decides anew", saveErr)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookAgain)
	defer cancel()
	there, version, err := o.source.Load(ctx)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w; whether the change was written is not known (%w): look with keytool status, and run the command again", saveErr, err)
	case bytes.Equal(there, text):
		o.app.note("the store answered late or not at all (%v), but the change is there", saveErr)
		return version, nil
	default:
		return "", fmt.Errorf("%w; nothing was changed", saveErr)
	}
}

// observe asks the fleet.
func (o *opened) observe(ctx context.Context) fleet.Observation {
	return fleet.Collect(ctx, o.reports, o.app.Now, o.sources...)
}

// stamp returns the note for a change that is made now.
func (o *opened) stamp() keyset.Note { return o.app.stamp() }

func (a *app) stamp() keyset.Note {
	return keyset.Note{At: a.Now(), Actor: a.actor(), Reason: a.flags.reason}
}

// A change is the report of a command that has changed the keyset in one step, or of
// what it would do.
type change struct {
	Action   string `json:"action"`
	DryRun   bool   `json:"dry_run,omitempty"`
	Name     string `json:"name"`
	Store    string `json:"store"`
	Revision int64  `json:"revision"`
	KID      string `json:"kid,omitempty"`
	Did      string `json:"did"`            // one sentence
	Then     string `json:"then,omitempty"` // what comes next
}

func (c *change) text(p *printer) {
	verdict := p.paint(green, "DONE")
	if c.DryRun {
		verdict = p.paint(yellow, "WOULD")
	}
	p.linef("%s  %s", verdict, c.Did)
	p.linef("  keyset  %s   revision %d   %s", c.Name, c.Revision, c.Store)
	if c.Then != "" {
		p.linef("  then    %s", c.Then)
	}
}

// apply makes one change: move on a copy of the document, save, report.
func (a *app) apply(ctx context.Context, c *change, move func(o *opened, next *keyset.Document) error) error {
	o, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	if _, err := o.store(); err != nil {
		return err
	}
	next := o.doc.Next()
	if err := move(o, next); err != nil {
		return err
	}
	c.DryRun, c.Name, c.Store, c.Revision = a.flags.dryRun, next.Name, a.flags.store, next.Revision
	if !a.flags.dryRun {
		if err := o.save(ctx, next); err != nil {
			return err
		}
	}
	a.report = c
	if a.flags.dryRun && a.flags.exitCode {
		return exit(pending)
	}
	return nil
}
