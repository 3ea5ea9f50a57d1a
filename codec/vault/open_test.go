package vault_test

import (
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/codec/vault"
	"github.com/echoseal/echoseal/keyset"
)

func TestOpenChoosesSettings(t *testing.T) {
	f := startFake(t)
	other := "http://127.0.0.1:1"
	file := filepath.Join(t.TempDir(), "token")
	writeToken(t, file, rootToken)
	for what, c := range map[string]struct {
		query     string
		env       map[string]string
		says      []string
		namespace string
	}{
		"the URI wins": {
			"?address=" + f.URL + "&namespace=a/b&token-file=" + file,
			map[string]string{"BAO_ADDR": other, "VAULT_ADDR": other, "BAO_NAMESPACE": "x", "BAO_TOKEN": "x", "VAULT_TOKEN": "x"},
			[]string{"address " + f.URL + " from the URI", "namespace a/b from the URI", "token from the file " + file + " from the URI"}, "a/b",
		},
		"BAO before VAULT": {
			"", map[string]string{"BAO_ADDR": f.URL, "VAULT_ADDR": other, "BAO_NAMESPACE": "a", "VAULT_NAMESPACE": "x", "BAO_TOKEN": rootToken, "VAULT_TOKEN": "x"},
			[]string{"from BAO_ADDR", "namespace a from BAO_NAMESPACE", "token from BAO_TOKEN"}, "a",
		},
		"VAULT": {
			"", map[string]string{"VAULT_ADDR": f.URL, "VAULT_NAMESPACE": "a", "VAULT_TOKEN": rootToken},
			[]string{"from VAULT_ADDR", "from VAULT_NAMESPACE", "token from VAULT_TOKEN"}, "a",
		},
		"files": {
			"", map[string]string{"VAULT_ADDR": f.URL, "BAO_TOKEN_FILE": file, "VAULT_TOKEN": "x"},
			[]string{"no namespace", file + " from BAO_TOKEN_FILE"}, "",
		},
		"an agent": {
			"", map[string]string{"BAO_AGENT_ADDR": f.URL, "BAO_ADDR": other, "VAULT_TOKEN_FILE": file},
			[]string{"from BAO_AGENT_ADDR", file + " from VAULT_TOKEN_FILE"}, "",
		},
	} {
		t.Run(what, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			s := openService(t, "openbao://orders"+c.query)
			for _, text := range c.says {
				if !strings.Contains(s.String(), text) {
					t.Errorf("%q does not say %q", s, text)
				}
			}
			if strings.Contains(s.String(), rootToken) {
				t.Errorf("%q shows the token", s)
			}
			told, err := s.Describe(t.Context())
			if settings := strings.Join(told[0].Settings, ", "); err != nil || settings == "" || !strings.HasSuffix(s.String(), settings) {
				t.Errorf("Describe tells %q, %v", settings, err)
			}
			opens(t, s, wrap(t, s))
			if seen := f.seen(); seen[len(seen)-1].namespace != c.namespace {
				t.Errorf("the namespace is %q", seen[len(seen)-1].namespace)
			}
			if what == "BAO before VAULT" {
				described, err := s.Describe(t.Context())
				if text := strings.Join(described[0].Warnings, "\n"); err != nil || !strings.Contains(text, "VAULT_ADDR, which says something else, is not used") {
					t.Errorf("%q, %v does not warn of VAULT_ADDR", text, err)
				}
			}
		})
	}
}

// What the CLIs keep after a login.
func TestOpenTakesLoginToken(t *testing.T) {
	f := startFake(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("BAO_ADDR", f.URL)
	if _, err := vault.Open(t.Context(), "hashivault://orders"); !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), "no token") {
		t.Errorf("without a token: %v", err)
	}
	writeToken(t, filepath.Join(home, ".vault-token"), rootToken)
	s := openService(t, "hashivault://orders")
	opens(t, s, wrap(t, s))
	if err := os.Chmod(filepath.Join(home, ".vault-token"), 0o644); err != nil {
		t.Fatal(err)
	}
	described, err := s.Describe(t.Context())
	if text := strings.Join(described[0].Warnings, "\n"); err != nil || !strings.Contains(text, "mode 0644") {
		t.Errorf("%q, %v does not warn of the file's mode", text, err)
	}
}

// An agent adds a token of its own.
func TestOpenWithAgentTakesNoToken(t *testing.T) {
	f := startFake(t)
	t.Setenv("VAULT_AGENT_ADDR", f.URL)
	f.locked(func() { f.tokens[""] = f.tokens[rootToken] })
	s := openService(t, "hashivault://orders")
	opens(t, s, wrap(t, s))
	if !strings.Contains(s.String(), "token from the agent") {
		t.Error(s)
	}
}

func TestOpenRefuses(t *testing.T) {
	startFake(t)
	t.Setenv("BAO_TOKEN", rootToken)
	for what, c := range map[string]struct {
		uris []string
		env  map[string]string
		says string
	}{
		"nothing":              {nil, nil, "no key"},
		"another scheme":       {[]string{"awskms:///orders"}, nil, "hashivault://KEY"},
		"no key":               {[]string{"hashivault://?mount=transit"}, nil, "write KEY"},
		"a path":               {[]string{"hashivault://transit/orders"}, nil, "write KEY"},
		"a token":              {[]string{"hashivault://orders?token=canary"}, nil, "a token never stands in a URI"},
		"two addresses":        {[]string{"hashivault://a?address=https://a", "hashivault://b?address=https://b"}, nil, "contradicts"},
		"no URL":               {[]string{"hashivault://orders?address=vault:8200"}, nil, "the address from the URI"},
		"plain http":           {[]string{"hashivault://orders"}, map[string]string{"BAO_ADDR": "http://vault.example:8200"}, "BAO_ADDR"},
		"a user in it":         {[]string{"hashivault://orders"}, map[string]string{"VAULT_ADDR": "https://me:canary@vault.example"}, "VAULT_ADDR has a user"},
		"no verification":      {[]string{"hashivault://orders"}, map[string]string{"BAO_SKIP_VERIFY": "true"}, "BAO_SKIP_VERIFY is set"},
		"none, Vault's":        {[]string{"hashivault://orders"}, map[string]string{"VAULT_SKIP_VERIFY": "1"}, "VAULT_SKIP_VERIFY is set"},
		"none, in doubt":       {[]string{"hashivault://orders"}, map[string]string{"VAULT_SKIP_VERIFY": "perhaps"}, "VAULT_SKIP_VERIFY is set"},
		"no such CA":           {[]string{"hashivault://orders?ca-cert=/no/such/file"}, nil, "/no/such/file from the URI"},
		"no such CA, VAULT":    {[]string{"hashivault://orders"}, map[string]string{"VAULT_CACERT": "/no/such/file"}, "VAULT_"},
		"half a certificate":   {[]string{"hashivault://orders"}, map[string]string{"BAO_CLIENT_CERT": "/no/such/file"}, "client key"},
		"two tokens":           {[]string{"hashivault://orders"}, map[string]string{"BAO_TOKEN_FILE": "/run/token"}, "both BAO_TOKEN and BAO_TOKEN_FILE"},
		"a token of two":       {[]string{"hashivault://orders"}, map[string]string{"BAO_TOKEN": "canary canary"}, "BAO_TOKEN"},
		"retries":              {[]string{"hashivault://orders"}, map[string]string{"BAO_MAX_RETRIES": "many"}, "BAO_MAX_RETRIES"},
		"a timeout":            {[]string{"hashivault://orders"}, map[string]string{"BAO_CLIENT_TIMEOUT": "-1s"}, "BAO_CLIENT_TIMEOUT"},
		"a timeout, VAULT":     {[]string{"hashivault://orders"}, map[string]string{"VAULT_CLIENT_TIMEOUT": "soon"}, "VAULT_CLIENT_TIMEOUT"},
		"a proxy":              {[]string{"hashivault://orders"}, map[string]string{"BAO_PROXY_ADDR": "proxy"}, "BAO_PROXY_ADDR"},
		"headers of Vault's":   {[]string{"hashivault://orders"}, map[string]string{"VAULT_HEADERS": "{"}, "headers"},
		"a socket not spelled": {[]string{"hashivault://orders?address=unix:/run/agent.sock"}, nil, "the address from the URI"},
	} {
		t.Run(what, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			_, err := vault.Open(t.Context(), c.uris...)
			if !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v is no configuration error that says %q", err, c.says)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("%v shows a secret", err)
			}
			if s, openerErr := vault.Opener().Open(t.Context(), c.uris...); s != nil || openerErr == nil {
				t.Errorf("the opener gives %v, %v", s, openerErr)
			}
		})
	}
	t.Setenv("VAULT_SKIP_VERIFY", "false")
	openService(t, "hashivault://orders")
}

func TestOpenPrivateCA(t *testing.T) {
	f := startFake(t)
	secure := newTLSServer(t, f)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BAO_TOKEN", rootToken)
	t.Setenv("BAO_ADDR", secure.URL)
	t.Setenv("BAO_MAX_RETRIES", "0")
	for what, c := range map[string]struct {
		query string
		env   map[string]string
		says  string
	}{
		"URI":        {"?ca-cert=" + url.QueryEscape(file), nil, "CA " + file + " from the URI"},
		"file":       {"", map[string]string{"BAO_CACERT": file}, "CA " + file + " from BAO_CACERT"},
		"text":       {"", map[string]string{"BAO_CACERT_BYTES": string(ca)}, "CA in PEM from BAO_CACERT_BYTES"},
		"folder":     {"", map[string]string{"BAO_CAPATH": filepath.Dir(file)}, "from BAO_CAPATH"},
		"Vault file": {"", map[string]string{"VAULT_CACERT": file}, "CA " + file + " from VAULT_CACERT"},
	} {
		t.Run(what, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			s := openService(t, "hashivault://orders"+c.query)
			if !strings.Contains(s.String(), c.says) {
				t.Errorf("%q does not say %q", s, c.says)
			}
			opens(t, s, wrap(t, s))
		})
	}
	t.Run("none", func(t *testing.T) {
		_, err := openService(t, "hashivault://orders").Wrap(t.Context(), testKey, testContext)
		fails(t, err, keyset.Unavailable, "certificate is not accepted", "BAO_CACERT")
	})
	t.Run("another name", func(t *testing.T) {
		t.Setenv("BAO_CACERT", file)
		t.Setenv("BAO_TLS_SERVER_NAME", "vault.example")
		_, err := openService(t, "hashivault://orders").Wrap(t.Context(), testKey, testContext)
		fails(t, err, keyset.Unavailable, "check the host")
	})
}

func TestOpenUnixSocket(t *testing.T) {
	f := startFake(t)
	path := filepath.Join(t.TempDir(), "agent.sock")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: f}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	t.Setenv("BAO_TOKEN", rootToken)
	s := openService(t, "hashivault://orders?address=unix://"+path)
	opens(t, s, wrap(t, s))
}

func TestOpener(t *testing.T) {
	f := startFake(t)
	t.Setenv("BAO_TOKEN", rootToken)
	t.Setenv("BAO_ADDR", f.URL)
	services, err := keyset.Openers{vault.Opener()}.Open(t.Context(), "OpenBao://orders", "hashivault://billing?mount=transit")
	if err != nil || len(services) != 1 {
		t.Fatalf("%d services, %v", len(services), err)
	}
	dataKey, w, err := services.Generate(t.Context(), testContext)
	if err != nil || w.Service != "hashivault://orders?mount=transit" || len(dataKey) != 32 {
		t.Errorf("%s, %v", w.Service, err)
	}
	if !services.Opens("hashivault://billing?mount=transit") {
		t.Error("the second URI was lost")
	}
}
