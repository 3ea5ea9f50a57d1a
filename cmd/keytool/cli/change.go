package cli

import (
	"context"
	"fmt"

	"github.com/echoseal/echoseal/keyset"
)

// A change is the report of a command that has changed the keyset in one step, or of
// what it would do, or of why it did not.
type change struct {
	outlook
	Action   string `json:"action"`
	DryRun   bool   `json:"dry_run,omitempty"`
	Name     string `json:"name"`
	Store    string `json:"store"`
	Revision int64  `json:"revision"` // with the change in it; 0 if there is no keyset
	KID      string `json:"kid,omitempty"`

	counted string // the key from whose stamp others count, "" if the change has none
}

func (c *change) text(p *printer) {
	revision := "none"
	if c.Revision > 0 {
		revision = fmt.Sprintf("revision %d", c.Revision)
	}
	c.outlook.text(p, c.DryRun, labelled{"keyset", fmt.Sprintf("%s   %s   %s", c.Name, revision, c.Store)})
}

// A move makes one change in next. It calls stamp for the note of the change when all that
// takes time is behind it.
type move func(o *opened, next *keyset.Document, stamp func() keyset.Note) error

// apply opens the keyset, says what to expect, and makes one change.
func (a *app) apply(ctx context.Context, c *change, m move) error {
	o, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer o.close()
	if err := o.foretell(ctx); err != nil {
		return err
	}
	return o.apply(ctx, c, m)
}

// apply makes one change: on a copy of the document, saved and reported.
func (o *opened) apply(ctx context.Context, c *change, m move) error {
	a := o.app
	if _, err := o.store(); err != nil {
		return err
	}
	next, stamped := o.doc.Next(), a.Now()
	stamp := func() keyset.Note {
		n := o.stamp()
		stamped = n.At
		return n
	}
	if err := m(o, next, stamp); err != nil {
		return err
	}
	c.Verdict, c.DryRun, c.Name, c.Store, c.Revision = verdictDone, a.flags.dryRun, next.Name, o.place(), next.Revision
	if a.flags.dryRun {
		c.Verdict, a.report = verdictDue, c
		return a.pendingIfAsked()
	}
	if err := o.save(ctx, next, stamped, c.counted != "", c.counted); err != nil {
		return err
	}
	c.Revision, a.report = o.doc.Revision, c
	return nil
}

// did chooses the words for what was done, or with --dry-run would be.
func (a *app) did(would, did string) string {
	if a.flags.dryRun {
		return would
	}
	return did
}

// pendingIfAsked ends a command that has found something to do or to wait for.
func (a *app) pendingIfAsked() error {
	if a.flags.exitCode {
		return exit(pending)
	}
	return nil
}
