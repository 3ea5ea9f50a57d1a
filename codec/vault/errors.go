package vault

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/vault/api"

	"github.com/echoseal/echoseal/keyset"
)

// A failure is what an error means. In a remedy {engine}, {key}, {mount}, {op}, {token}
// and {context} stand for what they say.
type failure struct {
	kind   keyset.Kind
	remedy string
	final  bool // not to be tried again, though the kind is temporary
}

var (
	failedContext    = failure{kind: keyset.ContextMismatch, remedy: "{context}"} // see contextRemedy
	failedTooOld     = failure{kind: keyset.VersionTooOld, remedy: "lower min_decryption_version of {mount}/keys/{key}, wrap the data key anew, and raise it again; a version that was trimmed is gone"}
	failedTooNew     = failure{kind: keyset.WrongKey, remedy: "the key has no such version yet: it is another key of that name, or came back from an old backup"}
	failedType       = failure{kind: keyset.WrongKey, remedy: "the key's type cannot bind a context: create one of the type aes256-gcm96, it cannot be changed"}
	failedDeleted    = failure{kind: keyset.Disabled, remedy: "the key is soft-deleted: restore it with bao write -f {mount}/keys/{key}/soft-delete-restore"}
	failedCiphertext = failure{kind: keyset.Corrupt, remedy: "the ciphertext is damaged: take back the entry as it was written"}
	failedKey        = failure{kind: keyset.NotFound, remedy: "there is no Transit key {key} at the mount {mount}: check both, the address and the namespace"}
	failedMount      = failure{kind: keyset.NotFound, remedy: "there is no {engine} engine at {mount}: check mount, address and namespace"}
	failedNamespace  = failure{kind: keyset.NotFound, remedy: "there is no such namespace: check it and the address"}
	failedSealed     = failure{kind: keyset.Sealed, remedy: "the server is sealed: unseal it (bao operator unseal, vault operator unseal), and look why its auto-unseal did not"}

	failedPolicy     = failure{kind: keyset.Denied, remedy: "the token is valid ({token}), but no policy of it allows to {op}"}
	failedToken      = failure{kind: keyset.Denied, remedy: "the token ({token}) is expired, revoked, or of another server or namespace: look after what renews it, or issue a new one"}
	failedPermission = failure{kind: keyset.Denied, remedy: "the token ({token}) is not accepted, or no policy of it allows to {op}"}
	failedNoToken    = failure{kind: keyset.Denied, remedy: "no token can be read ({token}): look after what writes it"}

	failedThrottled = failure{kind: keyset.Throttled, remedy: "a rate limit or quota of the server: spread the starts, or raise it"}
	failedState     = failure{kind: keyset.Unavailable, remedy: "this node has not caught up with the cluster: try again later"}
	failedUpgrade   = failure{kind: keyset.Unavailable, remedy: "the KV engine is being made one of version 2, or was just mounted: try again in a moment"}
	failedDR        = failure{kind: keyset.Unavailable, remedy: "this is a disaster recovery secondary, which serves nobody: set the address of the primary"}
	failedStandby   = failure{kind: keyset.Unavailable, remedy: "this is a standby that does not pass requests on: set the address of the cluster"}
	failedRedirect  = failure{kind: keyset.Unavailable, remedy: "the server redirects in a circle: set the address of the cluster"}
	failedServer    = failure{kind: keyset.Unavailable, remedy: "a fault of the server, or what it reports as one: look at its log"}
	failedNetwork   = failure{kind: keyset.Unavailable, remedy: "no answer: check the address, DNS, the route and proxies"}
	failedTLS       = failure{kind: keyset.Unavailable, remedy: "the server's certificate is not accepted: name its CA in ca-cert=, BAO_CACERT or VAULT_CACERT, and check the host in the address", final: true}
	failedPlain     = failure{kind: keyset.Unavailable, remedy: "the server speaks http and the address says https: enable TLS there", final: true}
	failedAnswer    = failure{kind: keyset.Unavailable, remedy: "what answered is not {engine}, or is damaged on the way: check the address and mount, and for a proxy"}

	failedSwapped = failure{kind: keyset.WrongKey, remedy: "it was exchanged for another, or edited: take back the entry as it was written, and look for what stands between here and the server"}
	failedUnbound = failure{kind: keyset.ContextMismatch, remedy: "this server ignores associated_data, so that no context is bound: Vault 1.13 or OpenBao is needed"}
	failedInput   = failure{kind: keyset.Corrupt, remedy: "the server refuses the form of the request: look for what changes it on the way"}
	failedSize    = failure{kind: keyset.Denied, remedy: "the server's storage takes no more: raise its max_entry_size (of raft 1 MiB by default, of what is in JSON and encrypted), or make the document smaller"}
	failedOther   = failure{kind: keyset.Denied, remedy: "the server refuses the request for the reason that it tells"}
)

// texts tells what the words of the server mean, whatever the status: some of what is
// permanent comes as 500. The first that is found counts.
var texts = []struct {
	text string
	failure
}{
	{"is sealed", failedSealed},
	{"message authentication failed", failedContext},
	{"version is too new", failedTooNew},
	{"disallowed by policy (too old)", failedTooOld},
	{"soft-deleted", failedDeleted},
	{"for non-aead", failedType},
	{"not supported for key type", failedType},
	{"does not support encryption", failedType},
	{"does not support decryption", failedType},
	{"invalid ciphertext", failedCiphertext},
	{"encryption key not found", failedKey},
	{"policy not found", failedKey},
	{"no handler for route", failedMount},
	{"unsupported path", failedMount},
	{"invalid path for a versioned k/v", failedMount},
	{"namespace not found", failedNamespace},
	{"non-versioned to versioned data", failedUpgrade},
	{"value being too large", failedSize},
}

var statuses = map[int]failure{
	http.StatusNoContent:          failedMount, // some other engine has taken what was written
	http.StatusBadRequest:         failedInput,
	http.StatusUnauthorized:       failedPermission,
	http.StatusForbidden:          failedPermission,
	http.StatusNotFound:           failedKey,
	http.StatusMethodNotAllowed:   failedMount,
	http.StatusPreconditionFailed: failedState,
	http.StatusTooManyRequests:    failedThrottled,
	472:                           failedDR,
	473:                           failedStandby,
}

// A responseError is an answer that is no success.
type responseError struct {
	status int
	header http.Header
	text   string // of the server, in one line
	body   []byte // with 404, of an engine that says more; not for people
}

func (e *responseError) Error() string {
	if e.text == "" {
		return fmt.Sprintf("status %d", e.status)
	}
	return fmt.Sprintf("status %d: %s", e.status, e.text)
}

// needsContext reports whether the server misses the context of a derived key.
func needsContext(err error) bool {
	var e *responseError
	return errors.As(err, &e) && strings.Contains(e.text, "missing 'context'")
}

func (e *responseError) classify() failure {
	text := strings.ToLower(e.text)
	for _, t := range texts {
		if strings.Contains(text, t.text) {
			return t.failure
		}
	}
	f, ok := statuses[e.status]
	switch {
	case ok:
		return f
	case e.status < 300: // as of a proxy that has the request still: it refuses nothing
		return failedAnswer
	case e.status >= 500:
		return failedServer
	case e.status >= 300 && e.status < 400:
		return failedRedirect
	}
	return failedOther
}

// A judgedError is an error together with what it means.
type judgedError struct {
	failure
	err error
}

func (e *judgedError) Error() string { return e.err.Error() }
func (e *judgedError) Unwrap() error { return e.err }

// unusable returns the error that an answer is not what was asked for.
func unusable(f failure, format string, args ...any) error {
	return &judgedError{f, fmt.Errorf(format, args...)}
}

// classify tells what an error of an attempt means.
func classify(err error) failure {
	var judged *judgedError
	var response *responseError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &judged):
		return judged.failure
	case errors.As(err, &response):
		return response.classify()
	case errors.As(err, &certificate):
		return failedTLS
	case errors.Is(err, http.ErrSchemeMismatch):
		return failedPlain
	}
	return failedNetwork
}

// clientError returns what an error of the vendor's client says: of an answer that is
// no success the status and the words of the server, of a failure to get one what is not
// said elsewhere.
func clientError(err error, response *api.Response, secrets ...[]byte) error {
	var answer *api.ResponseError
	if errors.As(err, &answer) {
		e := &responseError{status: answer.StatusCode, text: words(answer, secrets)}
		if response != nil {
			e.header = response.Header
			if e.status == http.StatusNotFound {
				e.body, _ = io.ReadAll(response.Body) // is in memory by now
			}
		}
		return e
	}
	if outer := (*url.Error)(nil); errors.As(err, &outer) {
		return outer.Err
	}
	return err
}

// words returns the text of an answer in one line, if it is of the server itself: a
// proxy may show the whole request. It also leaves out what repeats a secret.
func words(answer *api.ResponseError, secrets [][]byte) string {
	const maxWords = 300
	if answer.RawError {
		return "the body is neither of Vault nor of OpenBao"
	}
	text := strings.Join(strings.Fields(strings.Join(answer.Errors, "; ")), " ")
	for _, secret := range secrets {
		if len(secret) > 0 && bytes.Contains([]byte(text), secret) {
			return "the text is not shown, since it repeats what is secret"
		}
	}
	return fmt.Sprintf("%.*s", maxWords, strings.ToValidUTF8(text, "\uFFFD"))
}

// contextRemedy tells what Transit cannot tell apart, and the names in the context.
func contextRemedy(encryptionContext map[string]string) string {
	return "another context, another key or a damaged ciphertext, which the server cannot tell apart: check the keyset's name, and that the entry was neither moved nor edited (the context has " +
		strings.Join(slices.Sorted(maps.Keys(encryptionContext)), ", ") + ")"
}
