package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/keyset"
)

type validateReport struct {
	File     string   `json:"file"`
	Valid    bool     `json:"valid"`
	Problem  string   `json:"problem,omitempty"`
	Fix      string   `json:"fix,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Name     string   `json:"name,omitempty"`
	Lineage  string   `json:"lineage,omitempty"`
	Revision int64    `json:"revision,omitempty"`
	Keys     int      `json:"keys,omitempty"`
	Primary  string   `json:"primary,omitempty"`
	Tag      string   `json:"tag"`
}

func (r *validateReport) text(p *printer) {
	if !r.Valid {
		p.linef("%s  %s", p.paint(red, "INVALID"), r.File)
		p.linef("  why     %s", r.Problem)
		if r.Fix != "" {
			p.linef("  fix     %s", r.Fix)
		}
		return
	}
	p.linef("%s  %s", p.paint(green, "VALID"), r.File)
	p.linef("  keyset  %s   revision %d   %s, primary %s", r.Name, r.Revision, count(r.Keys, "key"), r.Primary)
	p.linef("  tag     %s", r.Tag)
	for _, w := range r.Warnings {
		p.linef("  %s", p.paint(yellow, "warning "+w))
	}
}

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Checks a keyset document offline, for a build server",
		Long: `validate checks everything that can be checked without a key service: form, states,
times, limits. It does not check the tag, so it does not tell who wrote the document.
FILE may be - for standard input. It exits 4 if the document is not a keyset.`,
		Example: "  keytool validate keyset.json",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := a.context(cmd)
			defer cancel()
			r := &validateReport{File: args[0], Tag: tagNotChecked}
			doc, err := a.readFile(ctx, args[0], keyset.MaxBytes)
			if large := (*largeError)(nil); errors.As(err, &large) {
				r.Problem, r.Fix = fmt.Sprintf("it is larger than a keyset may be, which is %d bytes", large.limit), "it is another file, or was damaged: take another copy of the keyset, the newest that is valid"
				a.report = r
				return exit(refused)
			}
			if err != nil {
				return err
			}
			a.report = r
			d, err := keyset.Parse(doc)
			if err != nil {
				r.Problem = err.Error()
				if !newerFormat(doc) {
					r.Fix = "no server takes it, and nothing can mend it: take another copy of the keyset, the newest that is valid"
				}
				return exit(refused)
			}
			r.Valid, r.Name, r.Lineage, r.Revision = true, d.Name, d.Lineage, d.Revision
			r.Keys, r.Primary = len(d.Keys), d.Primary().KID
			if len(doc) > keyset.LargeBytes {
				r.Warnings = append(r.Warnings, fmt.Sprintf("it is %d bytes long; some places hold no more than %d", len(doc), keyset.LargeBytes))
			}
			if d.HasUnknownMembers() {
				r.Warnings = append(r.Warnings, "it has members that this version does not know: a newer keytool wrote it, and only that can change it")
			}
			return nil
		},
	}
}

// readFile reads a file, or standard input for "-", and refuses more than limit bytes.
func (a *app) readFile(ctx context.Context, name string, limit int64) ([]byte, error) {
	if name != "-" {
		return readLimited(ctx, name, limit)
	}
	const stdin = "standard input"
	return reading(ctx, stdin, func() ([]byte, error) { return readAll(a.Stdin, stdin, limit) })
}

// readLimited reads a file, which may be a pipe, and refuses more than limit bytes.
func readLimited(ctx context.Context, name string, limit int64) ([]byte, error) {
	return reading(ctx, name, func() ([]byte, error) {
		f, err := os.Open(name)
		if err != nil && mayBeInput(name) {
			return nil, usagef("the argument is not the name of a file, and is not shown, since it may be what should be in one: put it on standard input, with - for the name")
		}
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		return readAll(f, name, limit)
	})
}

func readAll(in io.Reader, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, &largeError{name, limit}
	}
	return data, nil
}

// A largeError is that of an input of more bytes than are read.
type largeError struct {
	name  string
	limit int64
}

func (e *largeError) Error() string {
	return fmt.Sprintf("%s is larger than %d bytes", e.name, e.limit)
}
