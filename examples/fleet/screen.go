package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// A screen prints lines, and on a terminal below them one that is always new.
type screen struct {
	out  io.Writer
	live bool

	mu     sync.Mutex
	status func() string
	shown  bool
	stop   chan struct{}
	done   sync.WaitGroup
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out, stop: make(chan struct{})}
	f, ok := out.(*os.File)
	s.live = ok && term.IsTerminal(int(f.Fd()))
	return s
}

func (s *screen) heading(text string) { s.linef("\n%s\n", text) }

func (s *screen) linef(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	fmt.Fprintf(s.out, format+"\n", args...)
}

// watch shows on a terminal what status returns, again and again.
func (s *screen) watch(status func() string) {
	if !s.live {
		return
	}
	s.mu.Lock()
	s.status = status
	s.mu.Unlock()
	s.done.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-s.stop:
				return
			case <-tick.C:
				s.draw()
			}
		}
	})
}

func (s *screen) draw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	fmt.Fprint(s.out, "  … "+s.status())
	s.shown = true
}

func (s *screen) erase() {
	if s.shown {
		fmt.Fprint(s.out, "\r\x1b[K")
		s.shown = false
	}
}

func (s *screen) close() {
	close(s.stop)
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
}

// An indent prints what keytool writes, line by line.
type indent struct {
	screen  *screen
	shorten func(string) string
	rest    string
}

// Write implements io.Writer.
func (i *indent) Write(text []byte) (int, error) {
	i.rest += string(text)
	for {
		line, rest, ok := strings.Cut(i.rest, "\n")
		if !ok {
			return len(text), nil
		}
		i.screen.linef("    %s", i.shorten(line))
		i.rest = rest
	}
}

func (i *indent) flush() {
	if i.rest != "" {
		i.screen.linef("    %s", i.shorten(i.rest))
		i.rest = ""
	}
}

// field returns a string member of a JSON object.
func field(object, member string) (string, error) {
	var members map[string]any
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		return "", err
	}
	value, ok := members[member].(string)
	if !ok {
		return "", fmt.Errorf("there is no %s", member)
	}
	return value, nil
}
