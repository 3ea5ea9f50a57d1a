// Package bao starts OpenBao in development mode for a test: in memory, unsealed, on a
// free port of the loopback interface. Without the peers that make test installs the
// test skips.
package bao

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/echoseal/echoseal/integration/internal/loopback"
	"github.com/echoseal/echoseal/integration/peers"
)

// A Server is an OpenBao that ends with its test.
type Server struct {
	Address   string // http://127.0.0.1:PORT, or https://
	Token     string // of root
	CACert    string // the file with the CA of its certificate; "" without TLS
	Namespace string // of the calls; "" for the root

	client *http.Client
}

// Start starts a server. With TLS it has a certificate of a CA of its own.
func Start(tb testing.TB, withTLS bool) *Server {
	tb.Helper()
	program := peers.Program(tb, "bao")
	for range 5 { // a port that is free now may not be so in a moment
		s, err := start(tb, program, withTLS)
		if err == nil {
			return s
		}
		if !errors.Is(err, errPortTaken) {
			tb.Fatal(err)
		}
	}
	tb.Fatal("OpenBao finds no free port")
	return nil
}

var errPortTaken = errors.New("the port is taken")

func start(tb testing.TB, program string, withTLS bool) (*Server, error) {
	tb.Helper()
	port := loopback.Free(tb)
	folder := tb.TempDir()
	s := &Server{Address: "http://" + port, Token: "root-" + rand.Text(), client: &http.Client{
		Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
	}}
	args := []string{"server", "-dev", "-dev-no-store-token", "-dev-listen-address=" + port}
	if withTLS {
		s.Address, s.CACert = "https://"+port, filepath.Join(folder, "vault-ca.pem")
		args = append(args, "-dev-tls", "-dev-tls-cert-dir="+folder)
	}
	cmd := exec.CommandContext(context.WithoutCancel(tb.Context()), program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "BAO_DEV_ROOT_TOKEN_ID=" + s.Token}
	cmd.WaitDelay = 5 * time.Second
	log := &buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed, and says so
	}()
	tb.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
		if tb.Failed() {
			tb.Logf("log of OpenBao:\n%s", strings.ReplaceAll(log.String(), s.Token, "ROOT"))
		}
	})
	deadline := time.After(60 * time.Second)
	for {
		if s.isUp(tb) {
			return s, nil
		}
		select {
		case <-ended:
			if strings.Contains(log.String(), "address already in use") {
				return nil, errPortTaken
			}
			return nil, errors.New("OpenBao ended at once: " + log.String())
		case <-deadline:
			return nil, errors.New("OpenBao does not answer")
		case <-time.After(25 * time.Millisecond): // between two attempts
		}
	}
}

// isUp reports whether the server has finished its start: it then knows its root token.
func (s *Server) isUp(tb testing.TB) bool {
	tb.Helper()
	if s.CACert != "" {
		text, err := os.ReadFile(s.CACert)
		pool := x509.NewCertPool()
		if err != nil || !pool.AppendCertsFromPEM(text) {
			return false
		}
		s.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	status, _, err := s.Call(tb.Context(), http.MethodGet, "auth/token/lookup-self", nil)
	return err == nil && status == http.StatusOK
}

// In returns the server for calls in a namespace, which it creates.
func (s *Server) In(tb testing.TB, namespace string) *Server {
	tb.Helper()
	s.Do(tb, http.MethodPost, "sys/namespaces/"+namespace, nil)
	inner := *s
	inner.Namespace = namespace
	return &inner
}

// As returns the server for calls with another token.
func (s *Server) As(token string) *Server {
	other := *s
	other.Token = token
	return &other
}

// Do makes a call and returns the data of the answer. One that fails ends the test.
func (s *Server) Do(tb testing.TB, method, path string, parameters map[string]any) map[string]any {
	tb.Helper()
	status, answer, err := s.Call(tb.Context(), method, path, parameters)
	if err != nil || status >= 300 {
		tb.Fatalf("%s %s: status %d, %v, %v", method, path, status, answer["errors"], err)
	}
	data, _ := answer["data"].(map[string]any)
	return data
}

// Call makes a call and returns the status and the answer.
func (s *Server) Call(ctx context.Context, method, path string, parameters map[string]any) (int, map[string]any, error) {
	body, err := json.Marshal(parameters)
	if err != nil {
		return 0, nil, err
	}
	if parameters == nil {
		body = nil
	}
	r, err := http.NewRequestWithContext(ctx, method, s.Address+"/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("X-Vault-Token", s.Token)
	if s.Namespace != "" {
		r.Header.Set("X-Vault-Namespace", s.Namespace)
	}
	response, err := s.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || len(text) == 0 {
		return response.StatusCode, nil, err
	}
	var answer map[string]any
	err = json.Unmarshal(text, &answer)
	return response.StatusCode, answer, err
}

// NewToken returns a token with a policy of its own, in HCL, beside the policy default.
// The parameters are those of auth/token/create, such as ttl and type.
func (s *Server) NewToken(tb testing.TB, policy string, parameters map[string]any) string {
	tb.Helper()
	name := strings.ToLower(rand.Text())
	s.Do(tb, http.MethodPut, "sys/policies/acl/"+name, map[string]any{"policy": policy})
	all := map[string]any{"policies": []string{"default", name}}
	for parameter, value := range parameters {
		all[parameter] = value
	}
	status, answer, err := s.Call(tb.Context(), http.MethodPost, "auth/token/create", all)
	auth, _ := answer["auth"].(map[string]any)
	token, _ := auth["client_token"].(string)
	if err != nil || status != http.StatusOK || token == "" {
		tb.Fatalf("creating a token: status %d, %v, %v", status, answer["errors"], err)
	}
	return token
}

// A buffer keeps what the server writes.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the buffer.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what was written so far.
func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
