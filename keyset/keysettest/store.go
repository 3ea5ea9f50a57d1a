package keysettest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"testing"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

// A StoreHarness gives the tests a store, and the means to disturb what is behind it.
// Its functions are called by one goroutine at a time.
type StoreHarness struct {
	// New returns a store for a place, which is empty when its name is first used.
	// Called again it returns another store for the same place, as another process would
	// have it. A name is 32 lower-case letters and digits, and never used by another
	// run. What is to be closed is closed when t ends. Required.
	New func(t testing.TB, place string) keyset.Store

	// MaxBytes is how large a document can be there. 0: [keyset.MaxBytes].
	MaxBytes int

	// Silence makes the back end take calls and not answer, until t ends.
	Silence func(t testing.TB)

	// Kill saves doc in the place of version, as a writer does that dies as it comes to
	// one of its steps, which are counted from 0. It reports whether the writer came so
	// far; one that did not has saved doc. It returns when the writer is dead.
	Kill func(t testing.TB, place string, doc []byte, version string, step int) bool

	// Restart stops what is behind the stores and starts it again, with all that was
	// stored, and returns when it can be called. The stores that there are stay.
	Restart func(t testing.TB)

	// Without says why a subtest is not for this store, by its name: the subtest is
	// left out, and logs the reason. A subtest that is not named here but needs a field that
	// is not set fails. The names, and what each needs:
	//
	//	empty place           conflict              cancelled
	//	create                concurrent creation   caller's buffers
	//	round trip            concurrent writers    Watcher
	//	versions              readers
	//	silence               Silence
	//	killed writer         Kill
	//	restart               Restart
	Without map[string]string

	prompt time.Duration // bounds how late a change is told; 0: 10 s
}

// Store checks what [keyset.Store] promises, and what [keyset.Watcher] promises if the
// store is one.
func Store(t *testing.T, h StoreHarness) {
	if h.MaxBytes == 0 {
		h.MaxBytes = keyset.MaxBytes
	}
	if h.prompt == 0 {
		h.prompt = 10 * time.Second
	}
	k := &storeKit{h}
	runSubtests(t, h.Without, map[string]subtest{
		"empty place":         {run: k.emptyPlace},
		"create":              {run: k.create},
		"round trip":          {run: k.roundTrip},
		"versions":            {run: k.versions},
		"conflict":            {run: k.conflict},
		"concurrent creation": {run: k.concurrentCreation},
		"concurrent writers":  {run: k.concurrentWriters},
		"readers":             {run: k.readers},
		"caller's buffers":    {run: k.buffers},
		"cancelled":           {run: k.cancelled},
		"Watcher":             {run: k.watcher},
		"silence":             {k.silence, missing(h.Silence == nil, "Silence")},
		"killed writer":       {k.killedWriter, missing(h.Kill == nil, "Kill")},
		"restart":             {k.restart, missing(h.Restart == nil, "Restart")},
	})
}

type storeKit struct{ StoreHarness }

// place returns the name of an empty place.
func place() string {
	name := make([]byte, 16)
	_, _ = rand.Read(name) // never fails: it ends the process instead
	return hex.EncodeToString(name)
}

// holding returns a place that holds a document, a store for it, and the version.
func (k *storeKit) holding(t *testing.T, doc string) (name string, s keyset.Store, version string) {
	t.Helper()
	name = place()
	s = k.New(t, name)
	return name, s, mustSave(t, s, doc, "")
}

func mustSave(t *testing.T, s keyset.Store, doc, version string) (newVersion string) {
	t.Helper()
	newVersion, err := s.Save(within(t), []byte(doc), version)
	if err != nil {
		t.Fatalf("Save with version %q: %v", version, err)
	}
	if newVersion == "" {
		t.Fatal("Save returns no version")
	}
	return newVersion
}

func mustLoad(t *testing.T, s keyset.Store) (doc, version string) {
	t.Helper()
	content, version, err := s.Load(within(t))
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return string(content), version
}

// holds checks that a document of a version is there, for s as for another store.
func (k *storeKit) holds(t *testing.T, name string, s keyset.Store, doc, version string) {
	t.Helper()
	for what, s := range map[string]keyset.Store{"the store": s, "another store": k.New(t, name)} {
		got, v := mustLoad(t, s)
		if got != doc {
			t.Errorf("%s holds %.100q of %d bytes, want %.100q of %d", what, got, len(got), doc, len(doc))
		}
		if v != version {
			t.Errorf("%s gives version %q, want %q", what, v, version)
		}
	}
}

// shortly returns a context that ends soon, and when.
func shortly(t *testing.T) (context.Context, time.Time) {
	t.Helper()
	at := time.Now().Add(soon)
	ctx, cancel := context.WithDeadline(t.Context(), at)
	t.Cleanup(cancel)
	return ctx, at
}
