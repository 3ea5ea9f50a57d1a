package keyset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// A Source is where a keyset document is read. It may have a String method that
// names the place, for logs and errors. It is safe for concurrent use.
type Source interface {
	// Load returns the document as it stands there, and a version that another
	// document at the same place does not have. The caller may keep and change doc.
	//
	// The error is [ErrNotExist] where there is no document. A document that can be
	// read is returned whatever it holds: the caller checks it.
	Load(ctx context.Context) (doc []byte, version string, err error)
}

// A Store is a [Source] that can be written, by compare-and-swap: of two writers that
// began with the same version one wins, and the other is told.
//
// Package keysettest checks what a Store must do.
type Store interface {
	Source

	// Save replaces the document of the given version, as [Source.Load] returned it,
	// and returns the new one's version. Version "" only creates: it succeeds where
	// Load gives ErrNotExist. A reader sees the old document or the new one, never
	// anything else, and so does the next reader if the writer dies.
	//
	// The error is [ErrConflict] if another document than that of version is there, or
	// none.
	// Whoever gets it loads again, and decides again; the same document is never just
	// saved with the newer version. After any other error the old document or the new
	// one is there: load to see which. What was sent to a server without an answer may be
	// carried out later still, as long as the old one is there: to save that again, under
	// its own version, prevents it where a version counts, and is no hash.
	Save(ctx context.Context, doc []byte, version string) (newVersion string, err error)
}

// A Watcher is a [Source] that tells when to read it again.
//
// Optional: found by type assertion. Who uses it polls nevertheless.
type Watcher interface {
	// Watch calls changed whenever the document may have changed since Watch was
	// called, and returns when ctx is done, or earlier with the error that keeps it
	// from watching: the caller waits a little and calls it again. A change between
	// the two calls is not lost, since whoever calls Watch reads once afterwards.
	// changed returns at once; it is never called after Watch has returned.
	Watch(ctx context.Context, changed func()) error
}

var (
	// ErrNotExist is the error of [Source.Load] where there is no document.
	ErrNotExist = errors.New("there is no keyset")

	// ErrConflict is the error of [Store.Save] where another writer was first.
	ErrConflict = errors.New("another writer was first")
)

// A SourceFunc is a [Source] made of one function that returns the document: enough
// for a secret manager. The version is a hash of the document. The function is called by
// several goroutines at once, keeps nothing of what it returns, and gives [ErrNotExist]
// where there is no document.
type SourceFunc func(context.Context) ([]byte, error)

// Load calls f.
func (f SourceFunc) Load(ctx context.Context) (doc []byte, version string, err error) {
	doc, err = f(ctx)
	if err != nil {
		return nil, "", err
	}
	return doc, contentVersion(doc), nil
}

// contentVersion returns the version of a document for a place that has none of its
// own.
func contentVersion(doc []byte) string {
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:])
}
