package etcdstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// How the client of Open connects. What the vendor does by default finds a server that
// came back up to two minutes late, and a connection that died in silence hours late.
const (
	pingAfter      = 10 * time.Second // of silence, while a call waits or a watch is open
	pingTimeout    = 5 * time.Second
	connectTimeout = 5 * time.Second // of an attempt
	connectWait    = 250 * time.Millisecond
	maxConnectWait = 3 * time.Second
)

// maxAnswer is how many bytes one answer may have, where the vendor takes 2 GiB. A page of
// entries, each as large as a cluster takes by default, fits.
const maxAnswer = 64 << 20

// dial returns the place that a URI names, with a client of its own.
func dial(ctx context.Context, uri string) (place, error) {
	t, err := parseURI(uri)
	if err != nil {
		return place{}, err
	}
	config, err := t.config()
	if err != nil {
		return place{}, err
	}
	ctx = withReason(ctx)
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // the client's, which outlives ctx
	stop := context.AfterFunc(ctx, end)
	config.Context = life
	client, err := clientv3.New(config) // logs in, if there is a password
	if !stop() && err == nil {
		err = errors.Join(ctx.Err(), client.Close())
	}
	if err != nil {
		end()
		return place{}, t.failure(ctx, err, config.Password, config.Token)
	}
	return place{client: client, key: t.key, close: func() error {
		defer end()
		if err := client.Close(); !errors.Is(err, context.Canceled) { // which is how it says that it is closed
			return err
		}
		return nil
	}}, nil
}

// A target is what a URI says.
type target struct {
	tls       bool
	endpoints []string // HOST:PORT
	key       string
}

// parseURI shows nothing of a URI that may be a password in the wrong place.
func parseURI(uri string) (target, error) {
	name, rest, ok := strings.Cut(uri, "://")
	name = strings.ToLower(name) // RFC 3986, section 3.1
	if !ok || name != scheme && name != schemeTLS {
		return target{}, errors.New("a place in etcd is named by a URI of the form etcd://HOST:PORT[,HOST:PORT]/KEY, or etcds:// with TLS")
	}
	hosts, path, _ := strings.Cut(rest, "/")
	switch {
	case strings.Contains(hosts, "@"):
		return target{}, errors.New("a user or a password never stands in the URI: set ETCDCTL_USER and ETCDCTL_PASSWORD")
	case strings.ContainsAny(rest, "?#"):
		return target{}, errors.New("the URI has no parameters: TLS and the user come from ETCDCTL_*; in a key write %3F for ? and %23 for #")
	case hosts == "":
		return target{}, errors.New("the URI names no server: write etcd://HOST:PORT/KEY")
	}
	t := target{tls: name == schemeTLS, endpoints: strings.Split(hosts, ",")}
	for i, endpoint := range t.endpoints {
		host, port, err := net.SplitHostPort(endpoint)
		number, portErr := strconv.ParseUint(port, 10, 16)
		if err != nil || portErr != nil || number == 0 || !isHost(host) {
			return target{}, fmt.Errorf("server %d of the URI is not HOST:PORT; the port of etcd is mostly 2379", i+1)
		}
	}
	key, err := url.PathUnescape(path)
	if err != nil {
		return target{}, errors.New("the key of the URI has a % that begins no escape: write %25")
	}
	if err := checkKey(key); err != nil {
		return target{}, err
	}
	t.key = key
	return t, nil
}

func isHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && !strings.ContainsFunc(host, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '.' && r != '_'
	})
}

// config returns how to reach the target: what the URI leaves open is as etcdctl would
// have it.
func (t *target) config() (clientv3.Config, error) {
	security, err := t.security()
	if err != nil {
		return clientv3.Config{}, err
	}
	config := clientv3.Config{
		TLS:                  security,
		MaxCallRecvMsgSize:   maxAnswer,
		DialKeepAliveTime:    pingAfter,
		DialKeepAliveTimeout: pingTimeout,
		Logger:               zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: connectWait, Multiplier: backoff.DefaultConfig.Multiplier, Jitter: backoff.DefaultConfig.Jitter, MaxDelay: maxConnectWait},
				MinConnectTimeout: connectTimeout,
			}),
			grpc.WithChainUnaryInterceptor(noteReason),
		},
	}
	prefix := "http://"
	if security != nil {
		prefix = "https://"
	}
	for _, endpoint := range t.endpoints {
		config.Endpoints = append(config.Endpoints, prefix+endpoint)
	}
	if err := t.login(&config); err != nil {
		return clientv3.Config{}, err
	}
	return config, nil
}

// login takes over who the client is, beside its certificate.
func (t *target) login(config *clientv3.Config) error {
	user, password, token := os.Getenv("ETCDCTL_USER"), os.Getenv("ETCDCTL_PASSWORD"), os.Getenv("ETCDCTL_AUTH_JWT_TOKEN")
	if password == "" {
		user, password, _ = strings.Cut(user, ":")
	}
	switch {
	case user == "" && password == "" && token == "":
		return nil
	case token != "" && (user != "" || password != ""):
		return errors.New("both ETCDCTL_AUTH_JWT_TOKEN and ETCDCTL_USER or ETCDCTL_PASSWORD are set: unset one")
	case token == "" && password == "":
		return errors.New("ETCDCTL_USER has no password: set ETCDCTL_PASSWORD too")
	case token == "" && user == "":
		return errors.New("ETCDCTL_PASSWORD has no user: set ETCDCTL_USER too")
	}
	if config.TLS == nil {
		for _, endpoint := range t.endpoints {
			if !isThisHost(endpoint) {
				return errors.New("the password or token would be shown to the network: write etcds://")
			}
		}
	}
	config.Username, config.Password, config.Token = user, password, token
	return nil
}

func isThisHost(endpoint string) bool {
	host, _, err := net.SplitHostPort(endpoint)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// security returns how to use TLS, nil for not at all.
func (t *target) security() (*tls.Config, error) {
	for _, variable := range []string{"ETCDCTL_INSECURE_SKIP_TLS_VERIFY", "ETCDCTL_INSECURE_TRANSPORT"} {
		text := os.Getenv(variable)
		if text == "" {
			continue
		}
		yes, err := strconv.ParseBool(text)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s is neither true nor false", variable)
		case variable == "ETCDCTL_INSECURE_TRANSPORT":
			t.tls = t.tls || !yes
		case yes:
			return nil, fmt.Errorf("%s is set, and the server's certificate is always verified here: unset it, and name a private CA in ETCDCTL_CACERT", variable)
		}
	}
	ca, cert, key := os.Getenv("ETCDCTL_CACERT"), os.Getenv("ETCDCTL_CERT"), os.Getenv("ETCDCTL_KEY")
	if !t.tls && ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca) //nolint:gosec // the operator's own choice of a file
		if err != nil {
			return nil, fmt.Errorf("ETCDCTL_CACERT: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ETCDCTL_CACERT: there is no certificate in PEM in %s", ca)
		}
	}
	if (cert == "") != (key == "") {
		return nil, errors.New("of ETCDCTL_CERT and ETCDCTL_KEY one is set: set both or none")
	}
	if cert != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				return nil, fmt.Errorf("ETCDCTL_CERT with ETCDCTL_KEY: %w", err)
			}
			return &pair, nil
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		// Read at each handshake, since a server outlives its certificates.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return config, nil
}
