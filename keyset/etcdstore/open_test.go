package etcdstore

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

func TestURI(t *testing.T) {
	environment(t, nil)
	for uri, want := range map[string]struct {
		key    string
		string string // "": the URI as it is
	}{
		"etcd://127.0.0.1:2379/billing":                  {key: "billing"},
		"etcds://etcd-1:2379,etcd-2:2379/a/b/c":          {key: "a/b/c"},
		"etcd://[::1]:2379/billing":                      {key: "billing"},
		"ETCDS://etcd_1.example.:1//registry/x":          {key: "/registry/x", string: "etcds://etcd_1.example.:1//registry/x"},
		"etcd://localhost:65535/a%20b%3Fc%23d/e%2Ff%25g": {key: "a b?c#d/e/f%g", string: "etcd://localhost:65535/a%20b%3Fc%23d/e/f%25g"},
		"etcd://localhost:1/ключ@x:y":                    {key: "ключ@x:y", string: "etcd://localhost:1/%D0%BA%D0%BB%D1%8E%D1%87@x:y"},
	} {
		store, err := Open(within(t), uri)
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		if want.string == "" {
			want.string = uri
		}
		if store.key != want.key || store.String() != want.string {
			t.Errorf("%s: key %q, String %s", uri, store.key, store)
		}
		again, err := parseURI(store.String())
		if err != nil || again.key != want.key {
			t.Errorf("%s: as a string it is another key, %q, %v", uri, again.key, err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("%s: %v", uri, err)
		}
	}
}

// What is refused is refused before any call, with the remedy and without what may be a
// secret.
func TestURIRefused(t *testing.T) {
	environment(t, nil)
	for uri, says := range map[string]string{
		"":                                                       "etcd://HOST:PORT",
		"secret":                                                 "etcd://HOST:PORT",
		"http://secret:2379/key":                                 "etcd://HOST:PORT",
		"etcd:secret:2379/key":                                   "etcd://HOST:PORT",
		"etcd://":                                                "names no server",
		"etcd:///key":                                            "names no server",
		"etcd://localhost:2379":                                  "no key",
		"etcd://localhost:2379/":                                 "no key",
		"etcd://localhost:2379/key/":                             "slash",
		"etcd://localhost/key":                                   "server 1 of the URI is not HOST:PORT",
		"etcd://localhost:2379,/key":                             "server 2 of the URI is not HOST:PORT",
		"etcd://localhost:2379,a:b:c/key":                        "server 2 of the URI is not HOST:PORT",
		"etcd://localhost:0/key":                                 "HOST:PORT",
		"etcd://localhost:65536/key":                             "HOST:PORT",
		"etcd://localhost:+1/key":                                "HOST:PORT",
		"etcd://:2379/key":                                       "HOST:PORT",
		"etcd://local host:2379/key":                             "HOST:PORT",
		"etcd://unix:%2Fsecret:1/key":                            "HOST:PORT",
		"etcd://user:secret/part@localhost:1/key":                "HOST:PORT",
		"etcd://user:secret@localhost:2379/key":                  "ETCDCTL_PASSWORD",
		"etcd://a:1,user:secret@localhost:2/key":                 "ETCDCTL_PASSWORD",
		"etcd://localhost:2379/key?password=secret":              "no parameters",
		"etcd://localhost:2379/key#secret":                       "no parameters",
		"etcd://localhost:2379/secret%zz":                        "%25",
		"etcd://localhost:2379/secret%00":                        "printable",
		"etcd://localhost:2379/secret%0a":                        "printable",
		"etcd://localhost:2379/secret%FF":                        "printable",
		"etcd://localhost:2379/secret%E2%80%AE":                  "printable",
		"etcd://localhost:2379/" + strings.Repeat("secret", 100): "600 bytes",
	} {
		_, err := Open(within(t), uri)
		if !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", uri, err)
		}
		_, err = OpenRegistry(within(t), uri)
		if !errors.Is(err, fleet.ErrConfig) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s, registry: %v", uri, err)
		}
	}
	for name, err := range map[string]error{
		"New without a client":         second(New(nil, "key")),
		"NewRegistry without a client": second(NewRegistry(nil, "key")),
	} {
		if !errors.Is(err, keyset.ErrConfig) && !errors.Is(err, fleet.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk.pem")
	if err := os.WriteFile(junk, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	for _, test := range []struct {
		name      string
		uri       string
		variables map[string]string
		says      string
	}{
		{"user without a password", "", map[string]string{"USER": "billing"}, "set ETCDCTL_PASSWORD"},
		{"password without a user", "", map[string]string{"PASSWORD": "secret"}, "set ETCDCTL_USER"},
		{"token and user", "", map[string]string{"USER": "billing:secret", "AUTH_JWT_TOKEN": "secret"}, "unset one"},
		{"password to the network", "etcd://127.0.0.1:1,etcd.example:2379/key", map[string]string{"USER": "billing:secret"}, "etcds://"},
		{"token to the network", "etcd://192.0.2.1:2379/key", map[string]string{"AUTH_JWT_TOKEN": "secret"}, "etcds://"},
		{"not to be verified", "etcds://localhost:1/key", map[string]string{"INSECURE_SKIP_TLS_VERIFY": "true"}, "ETCDCTL_CACERT"},
		{"not to be verified, perhaps", "", map[string]string{"INSECURE_SKIP_TLS_VERIFY": "secret"}, "ETCDCTL_INSECURE_SKIP_TLS_VERIFY is neither"},
		{"insecure, perhaps", "", map[string]string{"INSECURE_TRANSPORT": "secret"}, "ETCDCTL_INSECURE_TRANSPORT is neither"},
		{"no CA", "", map[string]string{"CACERT": missing}, "ETCDCTL_CACERT"},
		{"a CA that is none", "", map[string]string{"CACERT": junk}, "no certificate in PEM in " + junk},
		{"certificate without its key", "", map[string]string{"CERT": junk}, "ETCDCTL_KEY"},
		{"key without its certificate", "", map[string]string{"KEY": junk}, "ETCDCTL_CERT"},
		{"certificate that is none", "", map[string]string{"CERT": junk, "KEY": junk}, "ETCDCTL_CERT with ETCDCTL_KEY"},
	} {
		t.Run(test.name, func(t *testing.T) {
			environment(t, test.variables)
			if test.uri == "" {
				test.uri = "etcd://localhost:1/key"
			}
			_, err := Open(within(t), test.uri)
			if !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	type expected struct {
		tls                   bool
		user, password, token string
	}
	for _, test := range []struct {
		name      string
		uri       string
		variables map[string]string
		want      expected
	}{
		{"nothing", "etcd://etcd:1/k", nil, expected{}},
		{"TLS", "etcds://etcd:1/k", nil, expected{tls: true}},
		{"TLS after all", "etcd://etcd:1/k", map[string]string{"INSECURE_TRANSPORT": "false"}, expected{tls: true}},
		{"TLS nevertheless", "etcds://etcd:1/k", map[string]string{"INSECURE_TRANSPORT": "true", "INSECURE_SKIP_TLS_VERIFY": "false"}, expected{tls: true}},
		{"user and password", "etcds://etcd:1/k", map[string]string{"USER": "a", "PASSWORD": "b:c"}, expected{true, "a", "b:c", ""}},
		{"both in one", "etcd://[::1]:1/k", map[string]string{"USER": "a:b:c"}, expected{false, "a", "b:c", ""}},
		{"a user with a colon", "etcd://127.0.0.1:1/k", map[string]string{"USER": "a:b", "PASSWORD": "c"}, expected{false, "a:b", "c", ""}},
		{"token", "etcd://localhost:1/k", map[string]string{"AUTH_JWT_TOKEN": "x"}, expected{false, "", "", "x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			environment(t, test.variables)
			target, err := parseURI(test.uri)
			if err != nil {
				t.Fatal(err)
			}
			config, err := target.config()
			if err != nil {
				t.Fatal(err)
			}
			prefix := "http://"
			if test.want.tls {
				prefix = "https://"
			}
			got := expected{config.TLS != nil, config.Username, config.Password, config.Token}
			if got != test.want || !slices.Equal(config.Endpoints, []string{prefix + target.endpoints[0]}) {
				t.Errorf("%+v, endpoints %q", got, config.Endpoints)
			}
			if config.TLS != nil && (config.TLS.InsecureSkipVerify || config.TLS.MinVersion < tls.VersionTLS12) {
				t.Error("TLS that does not verify, or is too old")
			}
		})
	}
}
