package loopback

import (
	"net"
	"sync"
	"testing"
)

// A Link is the way to a server, by TCP. It can be cut and mended, and fall silent. It is
// safe for concurrent use.
type Link struct {
	listener net.Listener
	target   string

	mu      sync.Mutex
	conns   map[net.Conn]bool
	cut     bool
	silent  bool
	limit   int    // chunks that still get through; negative: all
	answers bool   // those from the server count
	broken  func() // called when the limit is reached, which cuts the link

	wait sync.WaitGroup
}

// NewLink returns a link to HOST:PORT, which ends with the test.
func NewLink(tb testing.TB, target string) *Link {
	tb.Helper()
	return newLink(tb, target, -1, false, nil)
}

// NewBrittleLink returns a link that is cut for ever when it is to carry one chunk more
// than its limit to the server, or of the answers, if those count too. Then it calls
// broken.
func NewBrittleLink(tb testing.TB, target string, limit int, answers bool, broken func()) *Link {
	tb.Helper()
	return newLink(tb, target, limit, answers, broken)
}

func newLink(tb testing.TB, target string, limit int, answers bool, broken func()) *Link {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	l := &Link{listener: listener, target: target, conns: make(map[net.Conn]bool), limit: limit, answers: answers, broken: broken}
	l.wait.Go(l.accept)
	tb.Cleanup(func() {
		_ = listener.Close()
		l.SetCut(true)
		l.wait.Wait()
	})
	return l
}

// Address returns where clients reach it: HOST:PORT.
func (l *Link) Address() string { return l.listener.Addr().String() }

// SetCut ends all connections and lets no other through, or lets them through again.
func (l *Link) SetCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		l.end()
	}
}

// SetSilent loses all that is sent in both directions, or no longer. Connections that may
// have lost something end then.
func (l *Link) SetSilent(silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = silent
	if !silent {
		l.end()
	}
}

// end closes all connections. l.mu is held.
func (l *Link) end() {
	for conn := range l.conns {
		_ = conn.Close()
	}
	clear(l.conns)
}

// IsCut reports whether the link was cut, by hand or by its limit.
func (l *Link) IsCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

func (l *Link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		if l.keep(near, far) {
			l.wait.Go(func() { l.pump(near, far, true) })
			l.wait.Go(func() { l.pump(far, near, false) })
		}
	}
}

// keep notes new connections, or closes them if the link is cut.
func (l *Link) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range conns {
		l.conns[conn] = true
	}
	if l.cut {
		l.end()
	}
	return !l.cut
}

func (l *Link) pump(from, to net.Conn, toServer bool) {
	chunk := make([]byte, 8<<10)
	for {
		n, err := from.Read(chunk)
		if err == nil && l.carries(toServer) {
			_, err = to.Write(chunk[:n])
		}
		if err != nil {
			_ = from.Close()
			_ = to.Close()
			return
		}
	}
}

// carries reports whether the next chunk gets through.
func (l *Link) carries(toServer bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cut || l.silent:
		return false
	case !toServer && !l.answers || l.limit < 0:
		return true
	case l.limit == 0:
		l.cut = true
		l.end()
		l.broken()
		return false
	}
	l.limit--
	return true
}
