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
func allKeyServices() keyset.Openers {
	return keyset.Openers{localkek.Opener(), awskms.Opener(), gcpkms.Opener(), vault.Opener()}
}

func allStores() keyset.SourceOpeners {
	return keyset.SourceOpeners{keyset.FileOpener(), keyset.EnvOpener(), vault.StoreOpener(), etcdstore.Opener()}
}

func allFleets() fleet.Openers {
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
	text    []byte // of doc
	version string
	undated []undated
}

// required completes the settings, and tells which are missing.
func (a *app) required() error {
	a.settings()
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
		return usagef("set %s", strings.Join(missing, ", and "))
	}
	return nil
}

// connect opens the store, the key services and the fleet, and reads nothing yet.
func (a *app) connect(ctx context.Context) (*opened, error) {
	if err := a.required(); err != nil {
		return nil, err
	}
	o := &opened{app: a}
	if err := o.reachKeyset(ctx); err != nil {
		return nil, o.failed(err)
	}
	if err := o.reachFleet(ctx); err != nil {
		return nil, o.failed(err)
	}
	return o, nil
}

// reachKeyset opens the store and the key services.
func (o *opened) reachKeyset(ctx context.Context) (err error) {
	if o.source, err = o.app.Stores.Open(ctx, o.app.flags.store); err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	if o.services, err = o.app.KeyServices.Open(ctx, o.app.flags.keyServices...); err != nil {
		return fmt.Errorf("--key-service: %w", err)
	}
	o.app.reached = true
	return nil
}

// reachFleet opens the places where servers report.
func (o *opened) reachFleet(ctx context.Context) (err error) {
	if o.sources, err = o.app.Fleets.Open(ctx, o.app.flags.fleet...); err != nil {
		return fmt.Errorf("--fleet: %w", err)
	}
	return nil
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
	return misconfigured(err)
}

func (o *opened) close() {
	// What is not closed now ends with the process.
	_ = o.services.Close()
	_ = o.sources.Close()
	closeSource(o.source)
}

// closeSource closes a source that holds connections.
func closeSource(s keyset.Source) {
	if c, ok := s.(io.Closer); ok {
		_ = c.Close() // likewise
	}
}

// place names the store for people, without a credential.
func (o *opened) place() string { return o.app.placeOf(o.source) }

func (a *app) placeOf(source keyset.Source) string {
	if s, ok := source.(fmt.Stringer); ok {
		return s.String()
	}
	return a.flags.store
}

// load reads the document, and verifies it. What comes after one that this run has read or
// written goes on from there.
func (o *opened) load(ctx context.Context) error {
	text, version, err := o.source.Load(ctx)
	if errors.Is(err, keyset.ErrNotExist) {
		return absent(o.source, o.place())
	}
	if err != nil {
		return &exitError{code: failed, err: err} // be it that what is there is not accepted: it was not typed
	}
	doc, err := keyset.Parse(text)
	if err != nil {
		return damaged(o.place(), text, err)
	}
	if doc.Name != o.app.flags.name {
		return usagef("the keyset at %s is %s, and --name is %s: correct one of the two", o.place(), doc.Name, shown(o.app.flags.name))
	}
	o.app.named = true
	if err := o.otherLineage(doc); err != nil {
		return err
	}
	if o.auth == nil || o.auth.ID() != doc.Auth.ID {
		if err := o.openAuth(ctx, doc); err != nil {
			return err
		}
	}
	if err := o.auth.Verify(doc); err != nil {
		return fmt.Errorf("%s: %w", o.place(), err)
	}
	if err := o.older(doc); err != nil {
		return err
	}
	if o.version != version {
		o.app.detail("read revision %d of %s from %s", doc.Revision, doc.Name, o.place())
	}
	o.doc, o.text, o.version = doc, text, version
	return o.dateAnew(ctx)
}

// errOtherLineage is the error of a keyset that was begun anew while a command ran: what that
// was asked for is about the keys of the other.
var errOtherLineage = errors.New("another keyset has taken the place of the one that this run is about")

func (o *opened) otherLineage(doc *keyset.Document) error {
	if o.doc == nil || doc.Lineage == o.doc.Lineage {
		return nil
	}
	return fmt.Errorf("%w: at %s the lineage of %s is %s, and was %s; if nobody began it anew, put the newest backup of the old one back; keytool status shows it", errOtherLineage, o.place(), doc.Name, doc.Lineage, o.doc.Lineage)
}

// older is the error of a document that cannot come after the one that this run has: a
// replica is behind, or a copy was put in its place. To go on from it would make
// another document of a revision that servers have.
func (o *opened) older(doc *keyset.Document) error {
	switch {
	case o.doc == nil || doc.Revision > o.doc.Revision:
		return nil
	case doc.Revision < o.doc.Revision:
		return fmt.Errorf("%s gives revision %d again after %d: a replica that is behind comes up by itself; if an older copy was put there, put the newest back", o.place(), doc.Revision, o.doc.Revision)
	case bytes.Equal(doc.Tag, o.doc.Tag):
		return nil
	default:
		return fmt.Errorf("%s gives another revision %d than before: somebody has put a copy back and changed that; of the two put the one back that servers have, see keytool status", o.place(), doc.Revision)
	}
}

func (o *opened) openAuth(ctx context.Context, doc *keyset.Document) error {
	secret, err := o.services.OpenAuth(ctx, doc)
	if err != nil {
		return fmt.Errorf("opening the keyset's auth key: %w", err)
	}
	defer clear(secret)
	if o.auth, err = keyset.NewAuthKey(doc.Auth.ID, secret); err != nil {
		return err
	}
	o.reports, err = fleet.NewKey(secret)
	return err
}

// observe asks the fleet.
func (o *opened) observe(ctx context.Context) fleet.Observation {
	ctx, cancel := asking(ctx)
	defer cancel()
	obs := fleet.Collect(ctx, o.reports, o.app.Now, o.sources...)
	o.app.detail("asked %s: %s, %s", count(len(obs.Sources), "source"), count(len(obs.Instances), "instance"), count(len(obs.Failures), "failure"))
	return obs
}

// asking bounds how long the fleet is asked, by half of the time that is left: a registry
// that hangs must not take the time for what does not wait for it.
func asking(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}
