//go:build unix

package keyring

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/echoseal/echoseal/internal/rewrite"
	"github.com/echoseal/echoseal/keyset"
)

// A revisionLog notes each revision that a ring says it has loaded.
type revisionLog struct {
	slog.Handler

	loaded chan int64
}

func (l revisionLog) Handle(_ context.Context, record slog.Record) error {
	if record.Message == "keyset loaded" {
		record.Attrs(func(a slog.Attr) bool {
			if a.Key == "revision" {
				l.loaded <- a.Value.Int64()
			}
			return true
		})
	}
	return nil
}

// However a file is replaced, a ring that reads it loads each revision that stays, once,
// and never less than a whole one.
func TestFileIsReplaced(t *testing.T) {
	const stay = 100
	w := newWorld(t)
	secret := w.authSecret()
	first := w.encode(w.doc)
	text := func(revision int64) []byte {
		doc := parse(t, first)
		doc["revision"] = revision
		doc["more"] = string(bytes.Repeat([]byte("x"), int(revision)*37%9000)) // they differ in length
		return retag(t, doc, secret)
	}
	for _, way := range rewrite.Ways() {
		t.Run(way.Name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err == nil {
				err = os.Chmod(dir, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
			path, replace, err := way.Start(dir, text(1))
			if err != nil {
				t.Fatal(err)
			}
			file, err := keyset.NewFile(path)
			if err != nil {
				t.Fatal(err)
			}
			log := revisionLog{slog.DiscardHandler, make(chan int64, 3*stay)}
			log.Handler = slog.NewTextHandler(&logs{}, nil)
			r, err := Open(t.Context(), Config{
				Name: "billing", Source: file, Services: keyset.Services{w.kek}, Every: time.Millisecond, Logger: slog.New(log),
			})
			if err != nil {
				t.Fatal(err)
			}
			token := seal(t, r)
			seen := <-log.loaded
			for revision := int64(2); revision < 2+2*stay; revision++ { // every other one is replaced at once
				if err := replace(text(revision)); err != nil {
					t.Fatal(err)
				}
				if revision%2 == 0 {
					continue
				}
				for seen < revision {
					select {
					case next := <-log.loaded:
						if next <= seen || next > revision {
							t.Fatalf("revision %d was loaded after %d, while %d is there", next, seen, revision)
						}
						seen = next
					case <-time.After(30 * time.Second):
						t.Fatalf("revision %d was not loaded: %+v", revision, r.Status())
					}
				}
				if !opens(t, r, token) {
					t.Fatal("a good token is refused")
				}
			}
			if err := errors.Join(r.Refresh(t.Context()), r.Close()); err != nil {
				t.Error(err)
			}
			if len(log.loaded) > 0 {
				t.Errorf("revision %d was loaded again", <-log.loaded)
			}
		})
	}
}
