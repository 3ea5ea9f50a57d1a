package vault_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec/vault"
	"github.com/echoseal/echoseal/keyset"
)

// A recorder is the vendor's logger at its most talkative.
type recorder struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *recorder) log(level, message string, values []any) {
	fmt.Fprintln(r, append([]any{level, message}, values...)...)
}

func (r *recorder) Error(message string, values ...any) { r.log("error", message, values) }
func (r *recorder) Info(message string, values ...any)  { r.log("info", message, values) }
func (r *recorder) Debug(message string, values ...any) { r.log("debug", message, values) }
func (r *recorder) Warn(message string, values ...any)  { r.log("warn", message, values) }

// Nothing that is secret is in a log, an error or a print, whatever the server answers.
func TestSecretsAreNotShown(t *testing.T) {
	f := startFake(t)
	t.Setenv("VAULT_LOG_LEVEL", "trace")
	const token = "canary-token-0f1e2d3c"
	f.locked(func() { f.tokens[token] = f.tokens[rootToken] })
	log := &recorder{}
	previous := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug - 8})))
	t.Cleanup(func() { slog.SetDefault(previous) })
	client := newClient(t, f)
	client.SetToken(token)
	client.SetLogger(log)
	s, err := vault.New(client, "orders")
	if err != nil {
		t.Fatal(err)
	}
	var generated []byte
	note := func(values ...any) { fmt.Fprintln(log, values...) }
	calls := func() {
		w, err := s.Wrap(t.Context(), testKey, testContext)
		note(w.Service, w.Version, err)
		if err == nil {
			_, err = s.Unwrap(t.Context(), w, testContext)
			note(err)
			_, err = s.Unwrap(t.Context(), w, keyset.EncryptionContext("canary-other", "canary-entry", keyset.Auth))
			note(err)
		}
		dataKey, _, err := s.Generate(t.Context(), testContext)
		note(err)
		if err == nil {
			generated = dataKey
		}
		described, err := s.Describe(t.Context())
		note(fmt.Sprintf("%+v", described), err)
		note(s, fmt.Sprintf("%v %+v %#v %s", s, s, s, s))
	}
	calls()
	for what, to := range map[string]*fault{
		"refused":   {status: 403, errors: []string{"permission denied"}},
		"throttled": {status: 429, errors: []string{"quota"}},
		"sealed":    {status: 503, errors: []string{"Vault is sealed"}},
		"a proxy":   {status: 502, raw: "canary-proxy"},
		"an echo": {handle: func(w http.ResponseWriter, r fakeRequest) {
			refuse(w, http.StatusInternalServerError, "cannot serve "+r.token+" with "+fmt.Sprint(r.body))
		}},
		"an echo, no JSON": {handle: func(w http.ResponseWriter, r fakeRequest) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, r.token, r.body)
		}},
		"a redirect": {handle: func(w http.ResponseWriter, r fakeRequest) {
			w.Header().Set("Location", f.URL+"/v1/"+r.path)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}},
	} {
		to.calls = -1
		note("== " + what)
		f.fail(to)
		calls()
	}
	f.fail(&fault{hang: true, calls: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = s.Wrap(ctx, testKey, testContext)
	note(err)

	text := log.text.String()
	if !strings.Contains(text, "performing request") || !strings.Contains(text, "permission denied") || len(generated) != 32 {
		t.Fatalf("the log is not what it should be:\n%s", text)
	}
	canaries := []string{token, "canary-fleet", "canary-other", "canary-entry", "canary-proxy"}
	for _, dataKey := range [][]byte{testKey, generated} {
		canaries = append(canaries, string(dataKey), hex.EncodeToString(dataKey),
			base64.StdEncoding.EncodeToString(dataKey), base64.RawURLEncoding.EncodeToString(dataKey), fmt.Sprint(dataKey))
	}
	for _, canary := range canaries {
		if i := strings.Index(text, canary); i >= 0 {
			t.Errorf("%.20q is shown: …%s…", canary, text[max(0, i-100):min(len(text), i+100)])
		}
	}
}
