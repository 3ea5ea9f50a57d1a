package gcpkms_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/codec/gcpkms"
	"github.com/echoseal/echoseal/codec/gcpkms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
)

const someKey = "projects/p/locations/l/keyRings/r/cryptoKeys/k"

func TestURIErrors(t *testing.T) {
	isolate(t)
	good := "gcpkms://" + someKey
	for uri, want := range map[string]string{
		"":                                "gcpkms://projects/P",
		"gcpkms:":                         "not the resource name",
		"gcpkms://":                       "not the resource name",
		"gcpkms:///" + someKey:            "not the resource name",
		"gcpkms:" + someKey:               "gcpkms://projects/P",
		"awskms://" + someKey:             "gcpkms://projects/P",
		"gcpkms://u:canary@" + someKey:    "gcpkms://projects/P",
		good + "#x":                       "gcpkms://projects/P",
		good + "/":                        "not the resource name",
		good + "/cryptoKeyVersions/x":     "not the resource name",
		good + "%2fcryptoKeyVersions%2fx": "not the resource name",
		"gcpkms://%zz":                    "gcpkms://projects/P",
		"gcpkms://projects:80/p/locations/l/keyRings/r/cryptoKeys/k": "not the resource name",
		good + "?Endpoint=x":                           `"Endpoint" is unknown`,
		good + "?endpoint=x&endpoint=x":                "there twice",
		good + "?endpoint=x;y":                         "the query is malformed",
		good + "?endpoint=":                            "is not HOST or HOST:PORT",
		good + "?endpoint=:443":                        "is not HOST or HOST:PORT",
		good + "?endpoint=x:":                          "is not HOST or HOST:PORT",
		good + "?endpoint=https://x":                   "is not HOST or HOST:PORT",
		good + "?endpoint=x/path":                      "is not HOST or HOST:PORT",
		good + "?endpoint=dns:///x":                    "is not HOST or HOST:PORT",
		good + "?endpoint=https://u:canary@x":          "is not HOST or HOST:PORT",
		good + "?credentials=canary":                   `"credentials" is unknown`,
		good + "?endpoint=u@x":                         "is not HOST or HOST:PORT",
		good + "?endpoint=x&credentials=/tmp/key.json": `"credentials" is unknown`,
	} {
		s, err := gcpkms.Open(t.Context(), uri)
		if s != nil || !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", uri, err, want)
		} else if strings.Contains(err.Error(), "canary") {
			t.Errorf("%q shows a password", err)
		}
		opened, err := gcpkms.Opener().Open(t.Context(), good, uri)
		if opened != nil || !errors.Is(err, keyset.ErrConfig) {
			t.Errorf("Opener, %q: %v, %v", uri, opened, err)
		}
	}
	if s, err := gcpkms.Open(t.Context()); s != nil || !errors.Is(err, keyset.ErrConfig) {
		t.Errorf("no URI: %v", err)
	}
}

// isolate keeps the configuration of whoever runs the tests out, and returns the
// directory in which a test can have its own. Nothing answers as metadata server.
func isolate(t *testing.T) string {
	t.Helper()
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "GOOGLE_") || strings.HasPrefix(name, "CLOUDSDK_") || strings.HasPrefix(name, "GCE_") {
			t.Setenv(name, "")
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("CLOUDSDK_CONFIG", dir)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	t.Setenv("GCE_METADATA_HOST", listener.Addr().String())
	return dir
}

// logIn leaves Application Default Credentials of a person, which take a call to
// become a token.
func logIn(t *testing.T) {
	t.Helper()
	file := filepath.Join(isolate(t), "application_default_credentials.json")
	text := `{"type":"authorized_user","client_id":"id","client_secret":"canary","refresh_token":"canary"}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpen(t *testing.T) {
	logIn(t)
	for _, endpoint := range []string{"", "?endpoint=cloudkms.europe-west3.rep.googleapis.com", "?endpoint=127.0.0.1:1", "?endpoint=[::1]:1", "?endpoint=[::1]", "?endpoint=::1"} {
		s, err := gcpkms.Open(t.Context(), "gcpkms://"+someKey+endpoint, "gcpkms://"+someKey+"2/cryptoKeyVersions/3?endpoint=127.0.0.1:2")
		if err != nil {
			t.Errorf("%s: %v", endpoint, err)
			continue
		}
		if !s.Opens("gcpkms://"+someKey) || !s.Opens("gcpkms://"+someKey+"2") || s.Opens("gcpkms://"+someKey+endpoint+"x") {
			t.Errorf("%s: it opens something else than was listed", endpoint)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	services, err := keyset.Openers{gcpkms.Opener()}.Open(t.Context(), "gcpkms://"+someKey)
	if err != nil || !services.Opens("gcpkms://"+someKey) {
		t.Errorf("%v, %v", services, err)
	}
	for _, s := range services {
		_ = s.(*gcpkms.Service).Close()
	}
}

func TestBadCredentialsFile(t *testing.T) {
	file := filepath.Join(isolate(t), "key.json")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	for what, text := range map[string]string{
		"absent":   "",
		"no JSON":  "canary",
		"no type":  `{"private_key":"canary"}`,
		"no key":   `{"type":"service_account","client_email":"a@example.com","private_key":"canary"}`,
		"half key": `{"type":"service_account","client_email":"a@example.com","private_key":"-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n"}`,
	} {
		if text != "" {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := gcpkms.Open(t.Context(), "gcpkms://"+someKey)
		if s != nil || !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), "finding credentials") || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The metadata server does not answer: each call ends in time, and says what it was
// waiting for.
func TestMetadataServerHangs(t *testing.T) {
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-done:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() { close(done); server.Close() })
	ca, certificate := newCA(t)
	fake := kmsfake.Start(t, certificate)
	key := fake.AddKey()
	out := runChild(t, "hang", ca, fake, key, login{environment: []string{"GCE_METADATA_HOST=" + strings.TrimPrefix(server.URL, "http://")}})
	if !strings.Contains(out, "child: all is well") || len(fake.Seen()) > 0 {
		t.Errorf("%d calls; the child says:\n%s", len(fake.Seen()), out)
	}
}

// The whole way that a server goes, in a process of its own: Application Default
// Credentials from a metadata server or a service account's key, TLS with a private CA
// that the system knows, and a hand-over to the right endpoint.
func TestOpenAndUse(t *testing.T) {
	for name, login := range logins(t) {
		t.Run(name, func(t *testing.T) {
			ca, certificate := newCA(t)
			fake := kmsfake.Start(t, certificate)
			key := fake.AddKey()
			out := runChild(t, "service", ca, fake, key, login)
			if !strings.Contains(out, "child: all is well") {
				t.Fatalf("the child says:\n%s", out)
			}
			tokens := fake.Tokens()
			if len(tokens) != 1 || !strings.HasPrefix(tokens[0], "Bearer "+login.token) {
				t.Errorf("the tokens are %q, want %q", tokens, login.token)
			}
			if methods := []int{fake.Calls("Encrypt"), fake.Calls("Decrypt"), fake.Calls("GetCryptoKey")}; slices.Contains(methods, 0) {
				t.Errorf("calls %d", methods)
			}
		})
	}
}
