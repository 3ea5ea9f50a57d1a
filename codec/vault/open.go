package vault

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/echoseal/echoseal/keyset"
)

// What a client of Open has unless the environment says otherwise. A call that never
// succeeds gives up after about 8 seconds, without an answer in between.
const (
	attemptTimeout = 10 * time.Second
	maxRetries     = 5
	minRetryWait   = 250 * time.Millisecond // the waits grow by this to maxRetryWait, drawn at random
	maxRetryWait   = 750 * time.Millisecond
)

// Open returns a service for the keys that the URIs name, with a client of its own. The
// first key wraps, every one unwraps. It makes no call.
//
//	hashivault://KEY?mount=M&address=URL&namespace=NS&ca-cert=FILE&token-file=FILE
//
// The scheme openbao means the same. All but KEY is optional; the URIs of one service
// must not contradict each other. For each setting the URI counts, else the first of
// these variables that is set:
//
//   - mount: the Transit engine's path, by default transit.
//   - address: BAO_AGENT_ADDR, BAO_ADDR, VAULT_AGENT_ADDR, VAULT_ADDR; by default
//     https://127.0.0.1:8200. Plain http is for this host only; unix:// is a socket.
//   - namespace: BAO_NAMESPACE, VAULT_NAMESPACE; by default none.
//   - ca-cert, a file in PEM: BAO_CACERT, BAO_CACERT_BYTES, BAO_CAPATH, and the same
//     with VAULT_; by default the CAs of the system.
//   - token-file: see below.
//   - no parameter: _TLS_SERVER_NAME, _CLIENT_CERT with _CLIENT_KEY, _MAX_RETRIES
//     (5), _CLIENT_TIMEOUT of an attempt (10s), _PROXY_ADDR, each with BAO or VAULT.
//
// The server's certificate is always verified: BAO_SKIP_VERIFY and VAULT_SKIP_VERIFY
// are refused. The token is that of token-file, BAO_TOKEN, BAO_TOKEN_FILE, VAULT_TOKEN,
// VAULT_TOKEN_FILE or ~/.vault-token, in this order; with the address of an agent it may
// be missing, since the agent has one. A file is read at each call. It need not be there
// yet when it is named.
//
// The client keeps no connection between calls. The error is [keyset.ErrConfig] and
// names the setting.
func Open(_ context.Context, uris ...string) (*Service, error) {
	s := &Service{}
	given := make(url.Values)
	for _, uri := range uris {
		r, query, err := parseURI(uri)
		if err != nil {
			return nil, err
		}
		for name := range query {
			if given.Has(name) && given.Get(name) != query.Get(name) {
				return nil, configError("key %s: the parameter %s contradicts that of another key: open them as two services", r.name, name)
			}
			given.Set(name, query.Get(name))
		}
		s.add(r)
	}
	if len(s.keys) == 0 {
		return nil, configError("no key: write %s://KEY", schemes[0])
	}
	var err error
	s.client, s.settings, err = connect(given, maxResponse)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// connect returns a client with the parameters of a URI, which takes responses of less
// than limit bytes, and where its settings come from.
func connect(given url.Values, limit int64) (*client, []setting, error) {
	address, err := chooseAddress(given.Get("address"))
	if err != nil {
		return nil, nil, err
	}
	token, err := chooseToken(given.Get("token-file"), strings.HasSuffix(address.source, "_AGENT_ADDR"))
	if err != nil {
		return nil, nil, err
	}
	namespace := choose("namespace", given.Get("namespace"), "", "NAMESPACE")
	ca := chooseCA(given.Get("ca-cert"))
	vendor, err := dial(address, namespace, ca)
	if err != nil {
		return nil, nil, err
	}
	c, err := newClient(vendor, token, limit)
	return c, []setting{address, namespace, ca.setting, {name: "token", source: token.name}}, err
}

// Opener returns what [keyset.Openers] needs to open URIs of the schemes hashivault
// and openbao.
func Opener() keyset.Opener { return keyset.NewOpener(Open, schemes...) }

// parameters are those of a URI beside mount.
var parameters = []string{"address", "namespace", "ca-cert", "token-file"}

func parseURI(uri string) (reference, url.Values, error) {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || !slices.Contains(schemes, strings.ToLower(scheme)) {
		return reference{}, nil, configError("a key is named by a URI of the form %s://KEY?mount=M", schemes[0])
	}
	r, query, err := parseReference(rest)
	if err != nil {
		return reference{}, nil, err
	}
	return r, query, checkParameters("key "+r.name, query)
}

func chooseAddress(explicit string) (setting, error) {
	s := choose("address", explicit, api.DefaultAddress, "AGENT_ADDR", "ADDR")
	if strings.HasPrefix(s.value, "unix://") {
		return s, nil
	}
	u, err := url.Parse(s.value)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return setting{}, configError("the address from %s is not https://HOST:PORT", s.source)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return setting{}, configError("the address from %s has a user, a query or a fragment: write https://HOST:PORT", s.source)
	case u.Scheme == "http" && !isThisHost(u.Hostname()):
		return setting{}, configError("the address %s from %s would show token and data keys to the network: write https://", s.value, s.source)
	}
	return s, nil
}

func isThisHost(name string) bool {
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && ip.IsLoopback()
}

// chooseToken returns where the token comes from. With an agent, which adds its own, it
// may be missing.
func chooseToken(file string, agent bool) (tokenSource, error) {
	if file != "" {
		return tokenFile("the file "+file+" from the URI", file), nil
	}
	for _, prefix := range environments {
		token, path := os.Getenv(prefix+"TOKEN"), os.Getenv(prefix+"TOKEN_FILE")
		switch {
		case token != "" && path != "":
			return tokenSource{}, configError("both %sTOKEN and %sTOKEN_FILE are set: unset one", prefix, prefix)
		case token != "":
			if err := checkToken(token); err != nil {
				return tokenSource{}, configError("%sTOKEN: %v", prefix, err)
			}
			return fixedToken(prefix+"TOKEN", token), nil
		case path != "":
			return tokenFile("the file "+path+" from "+prefix+"TOKEN_FILE", path), nil
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		path := filepath.Join(home, ".vault-token")
		if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return tokenFile("the file "+path, path), nil
		}
	}
	if agent {
		return fixedToken("the agent", ""), nil
	}
	return tokenSource{}, configError("no token: name a file in token-file=, BAO_TOKEN_FILE or VAULT_TOKEN_FILE, set BAO_TOKEN or VAULT_TOKEN, or log in with bao login or vault login")
}

// A caSetting is which CAs are trusted.
type caSetting struct {
	setting

	tls api.TLSConfig
}

// chooseCA takes the CAs of one source: the URI, BAO_* or VAULT_*.
func chooseCA(file string) caSetting {
	if file != "" {
		return caSetting{setting{name: "CA", value: file, source: "the URI"}, api.TLSConfig{CACert: file}}
	}
	for _, prefix := range environments {
		for _, variable := range []string{"CACERT", "CACERT_BYTES", "CAPATH"} {
			value := os.Getenv(prefix + variable)
			if value == "" {
				continue
			}
			s := caSetting{setting: setting{name: "CA", value: value, source: prefix + variable}}
			switch variable {
			case "CACERT":
				s.tls.CACert = value
			case "CACERT_BYTES":
				s.value, s.tls.CACertBytes = "in PEM", []byte(value)
			case "CAPATH":
				s.tls.CAPath = value
			}
			return s
		}
	}
	return caSetting{setting: setting{name: "CA", value: "of the system", source: "the default"}}
}

// dial returns a client of the vendor.
func dial(address, namespace setting, ca caSetting) (*api.Client, error) {
	for _, prefix := range environments {
		variable := prefix + "SKIP_VERIFY"
		if text := os.Getenv(variable); text != "" {
			if skip, err := strconv.ParseBool(text); skip || err != nil {
				return nil, configError("%s is set, and the server's certificate is always verified here: unset it, and name a private CA in ca-cert=, BAO_CACERT or VAULT_CACERT", variable)
			}
		}
	}
	config := api.DefaultConfig() // with VAULT_*, of which the rest overrides what BAO_* may say too
	if config.Error != nil {
		cause := config.Error
		if malformed := (*url.Error)(nil); errors.As(cause, &malformed) {
			cause = malformed.Err // the URL may hold a password
		}
		return nil, configError("VAULT_* in the environment: %v", cause)
	}
	transport, ok := config.HttpClient.Transport.(*http.Transport)
	if !ok {
		return nil, configError("the transport of the vendor's client is a %T", config.HttpClient.Transport)
	}
	transport.DisableKeepAlives = true // a kept connection has goroutines, which would outlive the call
	config.Address, config.AgentAddress = address.value, ""
	config.MinRetryWait, config.MaxRetryWait = minRetryWait, maxRetryWait
	var err error
	if config.MaxRetries, err = choose("number of retries", "", "", "MAX_RETRIES").number(maxRetries); err != nil {
		return nil, err
	}
	if config.Timeout, err = choose("timeout", "", "", "CLIENT_TIMEOUT").duration(attemptTimeout); err != nil {
		return nil, err
	}
	if proxy := choose("proxy", "", "", "PROXY_ADDR", "HTTP_PROXY"); proxy.value != "" {
		u, err := url.Parse(proxy.value)
		if err != nil || u.Host == "" {
			return nil, configError("the proxy from %s is no URL", proxy.source)
		}
		transport.Proxy = http.ProxyURL(u)
	}
	trust := ca.tls
	trust.TLSServerName = choose("server name", "", "", "TLS_SERVER_NAME").value
	trust.ClientCert = choose("client certificate", "", "", "CLIENT_CERT").value
	trust.ClientKey = choose("client key", "", "", "CLIENT_KEY").value
	if err := config.ConfigureTLS(&trust); err != nil {
		return nil, configError("TLS with the CA %s from %s: %v", ca.value, ca.source, err)
	}
	client, err := api.NewClient(config)
	if err != nil {
		return nil, configError("the client for %s from %s: %v", address.value, address.source, err)
	}
	client.SetNamespace(namespace.value) // NewClient has taken VAULT_NAMESPACE
	return client, nil
}
