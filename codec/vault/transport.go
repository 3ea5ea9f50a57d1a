package vault

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// maxResponse bounds what is read of a response of Transit, in bytes.
const maxResponse = 256 << 10

// A transport is somebody's round tripper. It leaves no copy of a request's body
// behind, which may hold a data key, bounds the response, and follows no redirect that
// would show token and data key to the network.
type transport struct {
	base http.RoundTripper
	host string // HOST:PORT of the address that the client was given

	limit int64 // of a response, in bytes
}

// RoundTrip sends r with a body of its own. The base may go on reading it after it has
// returned, so it is zeroed when it is closed; the one of r can be zeroed at once.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && r.URL.Host != t.host && !isThisHost(r.URL.Hostname()) {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper must
		}
		return nil, errors.New("a redirect leads to plain http on another host, which would show token and data key to the network")
	}
	if r.Body != nil && r.Body != http.NoBody {
		whole := make([]byte, r.ContentLength)
		defer clear(whole)
		_, err := io.ReadFull(r.Body, whole)
		if closeErr := r.Body.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return nil, err
		}
		r = r.WithContext(r.Context()) // a copy
		r.Body = newBody(whole)
		r.GetBody = func() (io.ReadCloser, error) { return newBody(whole), nil }
	}
	response, err := t.base.RoundTrip(r)
	if err == nil {
		response.Body = limited{io.LimitReader(response.Body, t.limit), response.Body}
	}
	return response, err
}

type limited struct {
	io.Reader
	io.Closer
}

// A body is a request's body that zeroes itself when it is closed. A transport may
// close it while another goroutine still reads.
type body struct {
	mu   sync.Mutex
	buf  []byte
	left []byte // the part of buf that has not been read
}

// newBody returns a body with a copy of whole.
func newBody(whole []byte) *body {
	buf := append(make([]byte, 0, len(whole)), whole...)
	return &body{buf: buf, left: buf}
}

// Read reads what is left of the body.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}

// Close zeroes the body.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.buf)
	b.left = nil
	return nil
}

// isUnverified reports whether a round tripper accepts any certificate, as far as one
// can see. One that checks certificates by functions of its own does not.
func isUnverified(rt http.RoundTripper) bool {
	t, ok := rt.(*http.Transport)
	if !ok || t.TLSClientConfig == nil {
		return false
	}
	c := t.TLSClientConfig
	return c.InsecureSkipVerify && c.VerifyConnection == nil && c.VerifyPeerCertificate == nil
}
