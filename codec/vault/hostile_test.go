//go:build unix

package vault

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe would wait for who writes into it, whatever the caller's deadline.
func TestTokenFileIsARegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir, "/dev/zero"} {
		if token, err := readToken(path); token != "" || err == nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// recorder answers nothing and notes who was called.
type recorder struct{ hosts []string }

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.hosts = append(r.hosts, request.URL.Host)
	return nil, errors.New("nobody is here")
}

// A redirect must not take token and data key over plain http to anywhere.
func TestRedirectToPlainHTTPIsRefused(t *testing.T) {
	for url, called := range map[string]bool{
		"https://other.example:8200/v1/x": true,
		"http://127.0.0.1:1/v1/x":         true,
		"http://[::1]:1/v1/x":             true,
		"http://localhost:1/v1/x":         true,
		"http://bao.example:8200/v1/x":    true, // as the client was given it
		"http://bao.example:80/v1/x":      false,
		"http://other.example/v1/x":       false,
		"http://localhost.example/v1/x":   false,
	} {
		base := &recorder{}
		request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport{base, "bao.example:8200", maxResponse}.RoundTrip(request)
		if response != nil {
			_ = response.Body.Close()
		}
		if err == nil || (len(base.hosts) == 1) != called || strings.Contains(err.Error(), "redirect") == called {
			t.Errorf("%s: called %q, %v", url, base.hosts, err)
		}
	}
}
