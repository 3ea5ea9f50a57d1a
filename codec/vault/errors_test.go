package vault_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/echoseal/echoseal/codec/vault"
	"github.com/echoseal/echoseal/keyset"
)

// attempts is how often a temporary failure is tried: the client's default.
const attempts = 3

// Every kind that Transit can cause, and how often the server was asked.
func TestErrors(t *testing.T) {
	f := startFake(t)
	s := newService(t, f, "orders")
	w := wrap(t, s)
	retryAfter := http.Header{"Retry-After": {"0"}}
	for what, c := range map[string]struct {
		fault fault
		kind  keyset.Kind
		says  string
		calls int
	}{
		"no such key":        {fault{status: 400, errors: []string{"encryption key not found"}}, keyset.NotFound, "no Transit key orders at the mount transit", 1},
		"no such key, old":   {fault{status: 400, errors: []string{"policy not found"}}, keyset.NotFound, "no Transit key", 1},
		"no such mount":      {fault{status: 404, errors: []string{`no handler for route "transit/decrypt/orders". route entry not found.`}}, keyset.NotFound, "no Transit engine at transit", 1},
		"no such namespace":  {fault{status: 404, errors: []string{"namespace not found"}}, keyset.NotFound, "no such namespace", 1},
		"another engine":     {fault{status: 405, errors: []string{"1 error occurred:\n\t* unsupported operation\n\n"}}, keyset.NotFound, "no Transit engine", 1},
		"KV version 2":       {fault{status: 404, raw: `{"errors":[],"warnings":["Invalid path"]}`}, keyset.NotFound, "check both", 1},
		"soft-deleted":       {fault{status: 400, errors: []string{"refusing to use soft-deleted key"}}, keyset.Disabled, "soft-delete-restore", 1},
		"denied":             {fault{status: 403, errors: []string{"permission denied"}}, keyset.Denied, "expired, revoked", 2},
		"unauthorised":       {fault{status: 401, errors: []string{"no"}}, keyset.Denied, "the client's", 2},
		"throttled":          {fault{status: 429, errors: []string{"rate limit quota exceeded"}, header: retryAfter}, keyset.Throttled, "quota", attempts},
		"behind":             {fault{status: 412, errors: []string{"required index state not present"}}, keyset.Unavailable, "not caught up", attempts},
		"a secondary":        {fault{status: 472, errors: []string{"DR secondary"}}, keyset.Unavailable, "primary", attempts},
		"a standby":          {fault{status: 473, errors: []string{"performance standby"}}, keyset.Unavailable, "cluster", attempts},
		"sealed":             {fault{status: 503, errors: []string{"Vault is sealed"}}, keyset.Sealed, "sealed", 1},
		"sealed, as 500":     {fault{status: 500, errors: []string{"1 error occurred:\n\t* OpenBao is sealed\n\n"}}, keyset.Sealed, "unseal", 1},
		"no leader":          {fault{status: 503, errors: []string{"local node not active but active cluster node not found"}}, keyset.Unavailable, "look at its log", attempts},
		"a fault":            {fault{status: 500, errors: []string{"internal error"}}, keyset.Unavailable, "look at its log", attempts},
		"permanent, as 500":  {fault{status: 500, errors: []string{"1 error occurred:\n\t* cipher: message authentication failed\n\n"}}, keyset.ContextMismatch, "echoseal:key, echoseal:keyset, echoseal:purpose", 1},
		"no key, as 500":     {fault{status: 500, errors: []string{"encryption key not found"}}, keyset.NotFound, "no Transit key", 1},
		"a proxy":            {fault{status: 502, raw: "<html>canary: " + rootToken + "</html>"}, keyset.Unavailable, "neither of Vault nor of OpenBao", attempts},
		"not Transit":        {fault{status: 200, raw: "<html>welcome</html>"}, keyset.Unavailable, "what answered is not Transit", 1},
		"too much":           {fault{status: 200, raw: strings.Repeat(" ", 300<<10)}, keyset.Unavailable, "bytes or more", attempts},
		"nothing":            {fault{status: 204, raw: " "}, keyset.NotFound, "no Transit engine", 1},
		"another context":    {fault{status: 400, errors: []string{"cipher: message authentication failed"}}, keyset.ContextMismatch, "cannot tell apart", 1},
		"too new":            {fault{status: 400, errors: []string{"invalid ciphertext: version is too new"}}, keyset.WrongKey, "no such version yet", 1},
		"too old":            {fault{status: 400, errors: []string{"ciphertext or signature version is disallowed by policy (too old)"}}, keyset.VersionTooOld, "min_decryption_version of transit/keys/orders", 1},
		"a damaged one":      {fault{status: 400, errors: []string{"invalid ciphertext: could not decode base64"}}, keyset.Corrupt, "damaged", 1},
		"a type that cannot": {fault{status: 400, errors: []string{"'[0].associated_data' provided for non-AEAD cipher suite rsa-2048"}}, keyset.WrongKey, "aes256-gcm96", 1},
		"another form":       {fault{status: 400, errors: []string{"failed to decode JSON input"}}, keyset.Corrupt, "the form of the request", 1},
		"anything else":      {fault{status: 418, errors: []string{"short and stout"}}, keyset.Denied, "short and stout", 1},
		"many words":         {fault{status: 418, errors: []string{strings.Repeat("word ", 500)}}, keyset.Denied, "word", 1},
	} {
		t.Run(what, func(t *testing.T) {
			c.fault.calls = -1
			f.fail(&c.fault)
			before := len(f.seen())
			got, err := s.Unwrap(t.Context(), w, testContext)
			if got != nil {
				t.Error("a data key came back")
			}
			fails(t, err, c.kind, c.says, "update transit/decrypt/orders", "hashivault://orders?mount=transit")
			if n := len(f.seen()) - before; n != c.calls {
				t.Errorf("%d calls, want %d", n, c.calls)
			}
			if len(err.Error()) > 900 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if strings.Contains(err.Error(), rootToken) {
				t.Errorf("%v shows the token", err)
			}
		})
	}
}

// A missing policy and a bad token are both 403.
func TestDeniedSaysWhy(t *testing.T) {
	f := startFake(t)
	w := wrap(t, newService(t, f, "orders"))
	f.tokens["weak"] = &fakeToken{allowed: []string{"other/"}}
	for token, says := range map[string]string{
		"weak":    "no policy of it allows to update transit/decrypt/orders",
		"unknown": "expired, revoked",
		"":        "expired, revoked",
		"a\nb":    "no token can be read",
	} {
		client := newClient(t, f)
		client.SetToken(token)
		s, err := vault.New(client, "orders")
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Unwrap(t.Context(), w, testContext)
		fails(t, err, keyset.Denied, says, "the client's")
	}
	// That the token cannot be looked up for another reason leaves it open.
	client := newClient(t, f)
	client.SetToken("weak")
	s, err := vault.New(client, "orders")
	if err != nil {
		t.Fatal(err)
	}
	f.fail(&fault{status: 503, calls: -1, only: "lookup-self", errors: []string{"busy"}})
	_, err = s.Unwrap(t.Context(), w, testContext)
	fails(t, err, keyset.Denied, "is not accepted, or no policy")
}

func TestNetworkFailures(t *testing.T) {
	f := startFake(t)
	w := wrap(t, newService(t, f, "orders"))
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	secure := newTLSServer(t, f)
	for what, c := range map[string]struct{ address, says string }{
		"nobody there":      {"http://" + closed, "no answer"},
		"no name":           {"http://no-such-host.invalid", "no answer"},
		"unknown CA":        {secure.URL, "name its CA in ca-cert=, BAO_CACERT or VAULT_CACERT"},
		"http for https":    {strings.Replace(f.URL, "http:", "https:", 1), "the server speaks http"},
		"https for http":    {strings.Replace(secure.URL, "https:", "http:", 1), "form of the request"},
		"a path of its own": {f.URL + "/elsewhere", "no Transit engine"},
	} {
		t.Run(what, func(t *testing.T) {
			client := newClient(t, f)
			if err := client.SetAddress(c.address); err != nil {
				t.Fatal(err)
			}
			s, err := vault.New(client, "orders")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err = s.Unwrap(ctx, w, testContext)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v does not say %q", err, c.says)
			}
			var authority x509.UnknownAuthorityError
			if what == "unknown CA" && !errors.As(err, &authority) {
				t.Errorf("%v does not hold the cause", err)
			}
		})
	}
}

// A counter counts requests.
type counter struct {
	http.RoundTripper

	requests atomic.Int32
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// The certificate will not be another one at the next attempt.
func TestCertificatesAreNotTriedAgain(t *testing.T) {
	f := startFake(t)
	w := wrap(t, newService(t, f, "orders"))
	config := api.DefaultConfig()
	config.Address = newTLSServer(t, f).URL
	requests := &counter{RoundTripper: config.HttpClient.Transport}
	config.HttpClient.Transport = requests
	client, err := api.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	s, err := vault.New(client, "orders")
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Unwrap(t.Context(), w, testContext)
	fails(t, err, keyset.Unavailable, "certificate")
	if n := requests.requests.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// If there is no time to wait as long as it would have to, it does not wait at all, and
// tells what the server said.
func TestRetriesKeepToTheDeadline(t *testing.T) {
	f := startFake(t)
	s := newService(t, f, "orders")
	w := wrap(t, s)
	for what, c := range map[string]struct {
		retryAfter string
		time       time.Duration // 0 for no deadline
	}{
		"no time left":      {"20", 10 * time.Second},
		"told to come late": {"3600", 0},
	} {
		t.Run(what, func(t *testing.T) {
			f.fail(&fault{status: http.StatusTooManyRequests, calls: -1, header: http.Header{"Retry-After": {c.retryAfter}}})
			ctx := t.Context()
			if c.time > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.time)
				defer cancel()
			}
			before, start := len(f.seen()), time.Now()
			_, err := s.Unwrap(ctx, w, testContext)
			fails(t, err, keyset.Throttled, "status 429")
			if n := len(f.seen()) - before; n != 1 || time.Since(start) > 5*time.Second {
				t.Errorf("%d calls in %v", n, time.Since(start))
			}
		})
	}
}

func TestCancelledWhileItWaits(t *testing.T) {
	f := startFake(t)
	client := newClient(t, f)
	client.SetMinRetryWait(20 * time.Second)
	client.SetMaxRetryWait(21 * time.Second)
	s, err := vault.New(client, "orders")
	if err != nil {
		t.Fatal(err)
	}
	w := wrap(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	f.fail(&fault{calls: -1, handle: func(w http.ResponseWriter, _ fakeRequest) {
		refuse(w, http.StatusTooManyRequests)
		time.AfterFunc(50*time.Millisecond, cancel)
	}})
	start := time.Now()
	_, err = s.Unwrap(ctx, w, testContext)
	fails(t, err, keyset.Throttled, "status 429")
	if !errors.Is(err, context.Canceled) || time.Since(start) > 10*time.Second {
		t.Errorf("%v after %v does not tell of the cancelling", err, time.Since(start))
	}
}

// The client's own timeout is that of an attempt.
func TestAttemptTimeout(t *testing.T) {
	f := startFake(t)
	client := newClient(t, f)
	client.SetClientTimeout(100 * time.Millisecond)
	s, err := vault.New(client, "orders")
	if err != nil {
		t.Fatal(err)
	}
	w := wrap(t, s)
	f.fail(&fault{hang: true, calls: 1})
	opens(t, s, w)
	f.fail(&fault{hang: true, calls: -1})
	before := len(f.seen())
	_, err = s.Unwrap(t.Context(), w, testContext)
	fails(t, err, keyset.Unavailable)
	if n := len(f.seen()) - before; n != attempts {
		t.Errorf("%d calls, want %d", n, attempts)
	}
}

// The client is copied: what becomes of it later does not change the service, but for
// the token.
func TestClientIsCopied(t *testing.T) {
	f := startFake(t)
	client := newClient(t, f)
	s, err := vault.New(client, "orders")
	if err != nil {
		t.Fatal(err)
	}
	w := wrap(t, s)
	if err := client.SetAddress("http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	client.SetNamespace("later")
	client.SetWrappingLookupFunc(func(string, string) string { return "5m" })
	opens(t, s, w)
	client.SetToken("another")
	_, err = s.Unwrap(t.Context(), w, testContext)
	fails(t, err, keyset.Denied)
	f.locked(func() { f.tokens["another"] = f.tokens[rootToken] })
	opens(t, s, w)
	if client.MaxRetries() != api.DefaultConfig().MaxRetries || client.ClientTimeout() != api.DefaultConfig().Timeout {
		t.Error("the client itself was changed")
	}
}
