//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package keyset_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/echoseal/echoseal/internal/rewrite"
	"github.com/echoseal/echoseal/keyset"
)

// tagged returns a document of some length that tells when a part of it is missing.
func tagged(revision int) []byte {
	body := fmt.Sprintf("%d %s", revision, strings.Repeat("keyset ", revision*revision*37%9000))
	sum := sha256.Sum256([]byte(body))
	return []byte(body + hex.EncodeToString(sum[:]))
}

// revisionOf returns the revision of a document, false if it is not whole.
func revisionOf(doc []byte) (revision int, ok bool) {
	_, err := fmt.Sscan(string(doc), &revision)
	return revision, err == nil && bytes.Equal(doc, tagged(revision))
}

// A poller reads a store over and over.
type poller struct {
	seen chan int // a revision that is another than the last
	errs []error
	torn int
	back []string
}

func poll(ctx context.Context, s keyset.Source) (p *poller, wait func()) {
	p = &poller{seen: make(chan int, 1000)}
	var wg sync.WaitGroup
	wg.Go(func() {
		last := -1
		for ctx.Err() == nil {
			doc, version, err := s.Load(context.WithoutCancel(ctx))
			if err != nil {
				p.errs = append(p.errs, err)
				continue
			}
			revision, ok := revisionOf(doc)
			if !ok {
				p.torn++
				continue
			}
			if sum := sha256.Sum256(doc); version != hex.EncodeToString(sum[:]) {
				p.back = append(p.back, "the version is not that of the document")
			}
			if revision < last {
				p.back = append(p.back, fmt.Sprintf("revision %d after %d", revision, last))
			}
			if revision != last {
				last = revision
				p.seen <- revision
			}
		}
	})
	return p, wg.Wait
}

// However a file is replaced, whoever polls it meets whole revisions, or what can be
// told from them, and no revision that stays is missed.
func TestFileReload(t *testing.T) {
	const stay = 100
	for _, way := range rewrite.Ways() {
		t.Run(way.Name, func(t *testing.T) {
			dir, _ := folder(t)
			path, replace, err := way.Start(dir, tagged(0))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p, wait := poll(ctx, newFile(t, path))
			for revision := range 2 * stay { // every other one is replaced at once
				if err := replace(tagged(revision)); err != nil {
					t.Fatal(err)
				}
				if revision%2 == 1 {
					p.awaits(t, revision)
				}
			}
			cancel()
			wait()
			for _, err := range p.errs {
				if !way.Moved || !errors.Is(err, keyset.ErrNotExist) {
					t.Fatalf("%d errors: %v", len(p.errs), err)
				}
			}
			if p.torn > 0 && !way.Torn {
				t.Errorf("%d documents were torn", p.torn)
			}
			if len(p.back) > 0 {
				t.Error(p.back[0])
			}
			t.Logf("%d errors, %d torn", len(p.errs), p.torn)
		})
	}
}

func (p *poller) awaits(t *testing.T, revision int) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case seen := <-p.seen:
			if seen == revision {
				return
			}
		case <-timeout:
			t.Fatalf("revision %d was not seen", revision)
		}
	}
}
