// Package memstore is a store of keysets in memory, for tests of this module: a real
// one, with compare-and-swap and a watch, whose back end can be made to fail.
package memstore

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/echoseal/echoseal/keyset"
)

// A Server holds keysets by place. The zero value is empty and ready for use.
type Server struct {
	// Step, if not nil, is called before each step of a call, with its name, and ends
	// the call if it returns an error. Set it before use.
	Step func(ctx context.Context, step string) error

	mu       sync.Mutex
	places   map[string]*document
	revision int
	changed  chan struct{} // closed at the next change
}

type document struct {
	content []byte
	version string
}

// Open returns a handle to the place of that name.
func (s *Server) Open(place string) *Store { return &Store{s, place} }

// A Store is a [keyset.Store] and a [keyset.Watcher]: one place of a Server.
type Store struct {
	server *Server
	place  string
}

var (
	_ keyset.Store   = (*Store)(nil)
	_ keyset.Watcher = (*Store)(nil)
)

// String names the place.
func (s *Store) String() string { return "mem://" + s.place }

// The steps of a call.
const (
	StepCall   = "call"
	StepAnswer = "answer" // what was to be done is done
)

func (s *Store) step(ctx context.Context, name string) error {
	err := ctx.Err()
	if err == nil && s.server.Step != nil {
		err = s.server.Step(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

// Load returns a copy of the document.
func (s *Store) Load(ctx context.Context) (doc []byte, version string, err error) {
	if err := s.step(ctx, StepCall); err != nil {
		return nil, "", err
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	d := s.server.places[s.place]
	if d == nil {
		return nil, "", fmt.Errorf("%s: %w", s, keyset.ErrNotExist)
	}
	return bytes.Clone(d.content), d.version, nil
}

// Save keeps a copy of doc.
func (s *Store) Save(ctx context.Context, doc []byte, version string) (newVersion string, err error) {
	if err := s.step(ctx, StepCall); err != nil {
		return "", err
	}
	newVersion, ok := s.server.swap(s.place, bytes.Clone(doc), version)
	if !ok {
		return "", fmt.Errorf("%s: %w", s, keyset.ErrConflict)
	}
	if err := s.step(ctx, StepAnswer); err != nil {
		return "", err
	}
	return newVersion, nil
}

func (s *Server) swap(place string, doc []byte, version string) (newVersion string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	present := ""
	if d := s.places[place]; d != nil {
		present = d.version
	}
	if version != present {
		return "", false
	}
	if s.places == nil {
		s.places = make(map[string]*document)
	}
	s.revision++
	newVersion = strconv.Itoa(s.revision)
	s.places[place] = &document{doc, newVersion}
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	return newVersion, true
}

// next returns a channel that is closed at the next change of any place.
func (s *Server) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// Watch calls changed after each change of any place.
func (s *Store) Watch(ctx context.Context, changed func()) error {
	next := s.server.next()
	if err := s.step(ctx, StepCall); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next:
			next = s.server.next()
			changed()
		}
	}
}
