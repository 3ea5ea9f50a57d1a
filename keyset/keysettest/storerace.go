package keysettest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/echoseal/echoseal/keyset"
)

const (
	writers = 4
	each    = 8 // documents of each of them
)

// concurrentCreation checks that of many who create one does.
func (k *storeKit) concurrentCreation(t *testing.T) {
	for range each {
		name := place()
		versions := make([]string, writers)
		var wg sync.WaitGroup
		for i := range writers {
			s := k.New(t, name)
			wg.Go(func() {
				var err error
				versions[i], err = s.Save(within(t), fmt.Append(nil, "of writer ", i), "")
				if err != nil && !errors.Is(err, keyset.ErrConflict) {
					t.Errorf("Save: %v, want ErrConflict or nothing", err)
				}
			})
		}
		wg.Wait()
		winners := writers
		for _, version := range versions {
			if version == "" {
				winners--
			}
		}
		if winners != 1 {
			t.Fatalf("%d writers have created one place", winners)
		}
		winner := slices.IndexFunc(versions, func(v string) bool { return v != "" })
		k.holds(t, name, k.New(t, name), fmt.Sprint("of writer ", winner), versions[winner])
	}
}

// concurrentWriters checks that nothing that was acknowledged is lost: each writer adds
// lines to one document.
func (k *storeKit) concurrentWriters(t *testing.T) {
	name, s, first := k.holding(t, "")
	var mu sync.Mutex
	versions := map[string]string{first: ""}
	var wg sync.WaitGroup
	for i := range writers {
		s := k.New(t, name)
		wg.Go(func() {
			ctx := within(t)
			for j := 0; j < each; {
				doc, version, err := s.Load(ctx)
				if err != nil {
					t.Errorf("Load: %v", err)
					return
				}
				line := fmt.Sprintf("%d of %d\n", j, i)
				doc = append(doc, line...)
				newVersion, err := s.Save(ctx, doc, version)
				if errors.Is(err, keyset.ErrConflict) {
					continue
				}
				if err != nil {
					t.Errorf("Save: %v", err)
					return
				}
				j++
				mu.Lock()
				if other, taken := versions[newVersion]; taken && other != string(doc) {
					t.Errorf("two documents have the version %q", newVersion)
				}
				versions[newVersion] = string(doc)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	doc, version := mustLoad(t, s)
	if versions[version] != doc {
		t.Errorf("the last document is not that which was saved with its version %q", version)
	}
	for i := range writers {
		for j := range each {
			if line := fmt.Sprintf("%d of %d\n", j, i); strings.Count(doc, line) != 1 {
				t.Errorf("the line %q is there %d times", line, strings.Count(doc, line))
			}
		}
	}
}

// readers checks that a reader gets whole documents, each with its version, while they
// are replaced.
func (k *storeKit) readers(t *testing.T) {
	name, s, version := k.holding(t, tagged(0, 0))
	ctx, stop := context.WithCancel(t.Context())
	var known sync.Map // the document by version
	known.Store(version, tagged(0, 0))
	read := make([]map[string]string, 2)
	var wg sync.WaitGroup
	for i := range read {
		s := k.New(t, name)
		read[i] = make(map[string]string)
		patient := within(t)
		wg.Go(func() {
			for ctx.Err() == nil {
				doc, version, err := s.Load(patient)
				switch {
				case err != nil:
					t.Errorf("Load while a writer writes: %v", err)
					return
				case !isTagged(doc):
					t.Errorf("Load while a writer writes gives %d bytes that were never saved", len(doc))
					return
				}
				read[i][version] = string(doc)
			}
		})
	}
	for n := range 4 * each {
		doc := tagged(n+1, n*n*1511%max(1, k.MaxBytes/2))
		version = mustSave(t, s, doc, version)
		known.Store(version, doc)
	}
	stop()
	wg.Wait()
	for _, versions := range read {
		for version, doc := range versions {
			if saved, ok := known.Load(version); !ok || saved != doc {
				t.Errorf("a reader got another document with version %q than was saved (%v)", version, ok)
			}
		}
	}
}

// tagged returns a document that tells when a part of it is missing.
func tagged(n, size int) string {
	body := fmt.Sprint(n, " ", strings.Repeat("x", size))
	sum := sha256.Sum256([]byte(body))
	return body + hex.EncodeToString(sum[:])
}

func isTagged(doc []byte) bool {
	at := len(doc) - 2*sha256.Size
	if at < 0 {
		return false
	}
	sum := sha256.Sum256(doc[:at])
	return hex.EncodeToString(sum[:]) == string(doc[at:])
}
