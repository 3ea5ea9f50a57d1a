package etcd_test

import (
	"net"
	"sync"
	"testing"
)

// A link is the way to a server. It can be cut and mended, and fall silent.
type link struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	conns  map[net.Conn]bool
	cut    bool
	silent bool
	limit  int    // chunks that still go to the server; negative: all
	broken func() // called when the limit is reached, which cuts the link

	wait sync.WaitGroup
}

func newLink(t testing.TB, target string) *link {
	t.Helper()
	return newBrittleLink(t, target, -1, nil)
}

// newBrittleLink returns a link that is cut for ever when it is to carry one chunk more to
// the server than its limit.
func newBrittleLink(t testing.TB, target string, limit int, broken func()) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, target: target, conns: make(map[net.Conn]bool), limit: limit, broken: broken}
	l.wait.Go(l.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		l.setCut(true)
		l.wait.Wait()
	})
	return l
}

func (l *link) address() string { return l.listener.Addr().String() }

// setCut ends all connections and lets no other through, or lets them through again.
func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		l.end()
	}
}

// setSilent loses all that is sent in both directions, or no longer. Connections that may
// have lost something end then.
func (l *link) setSilent(silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = silent
	if !silent {
		l.end()
	}
}

// end closes all connections. l.mu is held.
func (l *link) end() {
	for conn := range l.conns {
		_ = conn.Close()
	}
	clear(l.conns)
}

// isCut reports whether the link was cut, by hand or by its limit.
func (l *link) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

func (l *link) accept() {
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
func (l *link) keep(conns ...net.Conn) bool {
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

func (l *link) pump(from, to net.Conn, toServer bool) {
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
func (l *link) carries(toServer bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cut || l.silent:
		return false
	case !toServer || l.limit < 0:
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
