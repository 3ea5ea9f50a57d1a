package vault

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/vault/api"

	"github.com/echoseal/echoseal/keyset"
)

// Sizes of data keys, in bytes.
const (
	dataKeySize = 32 // of one that Transit makes
	maxDataKey  = 4096
)

// A Service wraps and unwraps data keys with keys of a Transit secrets engine. It is a
// [keyset.KeyService], a [keyset.Generator] and a [keyset.Describer], safe for
// concurrent use. [New] or [Open] makes one; there is nothing to close.
//
// It is no [keyset.Rewrapper]: Transit's rewrap refuses what was wrapped with a context,
// so a data key is unwrapped and wrapped to get under a new version, which
// [keyset.Services.Rewrap] does.
type Service struct {
	client   *client
	keys     []*key    // at least one; the first wraps
	settings []setting // for people
}

var _ interface {
	keyset.KeyService
	keyset.Generator
	keyset.Describer
} = (*Service)(nil)

// A key is a Transit key that the service was given.
type key struct {
	reference

	derived atomic.Bool  // it wants the context as a parameter of its own, as far as known
	oldest  atomic.Int64 // the oldest version that was opened; 0 for none
}

// New returns a service for the Transit keys with the given names, each in the form
// KEY or KEY?mount=M; without a mount it is transit. The first one wraps, every one
// unwraps. It makes no call.
//
// Address, namespace, TLS, headers and the number and pace of retries are those that
// client has now; the token is the one that client has at each call. Request callbacks
// and MFA credentials are not taken over. To log in and to renew the token is left to
// whoever has the client.
//
// The error is [keyset.ErrConfig] and names the key or setting: no client, no key,
// what is no key's name, or a client that does not verify the server's certificate.
func New(client *api.Client, keys ...string) (*Service, error) {
	if client == nil {
		return nil, configError("no client")
	}
	s := &Service{settings: settingsOf(client)}
	for _, text := range keys {
		r, query, err := parseReference(text)
		if err != nil {
			return nil, err
		}
		for parameter := range query {
			return nil, configError("key %s: the parameter %.100q belongs to Open; New has a client", r.name, parameter)
		}
		s.add(r)
	}
	if len(s.keys) == 0 {
		return nil, configError("no key")
	}
	var err error
	s.client, err = newClient(client, tokenOf(client), maxResponse)
	return s, err
}

// add appends a key, unless it is there already.
func (s *Service) add(r reference) {
	if s.find(r.service()) == nil {
		s.keys = append(s.keys, &key{reference: r})
	}
}

// find returns the key with a stored name, nil if it is not listed.
func (s *Service) find(service string) *key {
	i := slices.IndexFunc(s.keys, func(k *key) bool { return k.service() == service })
	if i < 0 {
		return nil
	}
	return s.keys[i]
}

// Opens reports whether service is hashivault://KEY?mount=M of a listed key.
func (s *Service) Opens(service string) bool { return s.find(service) != nil }

// An operation is an endpoint of a key, with the capability that a policy has to give
// on its path.
type operation struct{ capability, endpoint string }

var (
	opDecrypt  = operation{"update", "decrypt"}
	opEncrypt  = operation{"update", "encrypt"}
	opGenerate = operation{"update", "datakey/plaintext"}
	opRead     = operation{"read", "keys"}
)

// permission returns the operation on a key as a policy names it.
func (o operation) permission(r reference) string { return o.capability + " " + r.path(o.endpoint) }

// Wrap wraps a data key of 1 to 4096 bytes with Transit's encrypt, under the newest
// version of the first key. The key is read before, since a token that may create keys
// makes a missing one by encrypting, and since an engine that is not Transit could
// store what it is sent.
func (s *Service) Wrap(ctx context.Context, dataKey []byte, encryptionContext map[string]string) (keyset.WrappedKey, error) {
	k := s.keys[0]
	if len(dataKey) == 0 || len(dataKey) > maxDataKey {
		err := unusable(failedInput, "a data key of %d bytes, where 1 to %d can be wrapped", len(dataKey), maxDataKey)
		return keyset.WrappedKey{}, s.fail(opEncrypt, k, encryptionContext, err)
	}
	if _, err := s.read(ctx, k); err != nil {
		return keyset.WrappedKey{}, s.fail(opRead, k, encryptionContext, err)
	}
	var answer wrapAnswer
	err := s.call(ctx, k, opEncrypt, encryptionContext, []parameter{{"plaintext", dataKey, true}}, &answer)
	if err == nil && answer.unbound() {
		err = unusable(failedUnbound, "associated_data is ignored")
	}
	var w keyset.WrappedKey
	if err == nil {
		w, err = k.wrapped(&answer)
	}
	if err != nil {
		return keyset.WrappedKey{}, s.fail(opEncrypt, k, encryptionContext, err)
	}
	return w, nil
}

// Generate makes a data key with Transit's datakey/plaintext, wrapped under the newest
// version of the first key. The caller zeroes it.
//
// OpenBao binds the context to it. Vault's datakey cannot; there the data key is
// wrapped by [Service.Wrap], and the ciphertext of datakey is dropped.
func (s *Service) Generate(ctx context.Context, encryptionContext map[string]string) ([]byte, keyset.WrappedKey, error) {
	k := s.keys[0]
	var answer wrapAnswer
	err := s.call(ctx, k, opGenerate, encryptionContext, nil, &answer)
	dataKey := answer.Data.Plaintext
	if err == nil && len(dataKey) != dataKeySize {
		err = unusable(failedAnswer, "a data key of %d bytes, where %d were asked for", len(dataKey), dataKeySize)
	}
	var w keyset.WrappedKey
	switch {
	case err != nil:
		err = s.fail(opGenerate, k, encryptionContext, err)
	case answer.unbound():
		w, err = s.Wrap(ctx, dataKey, encryptionContext)
	default:
		if w, err = k.wrapped(&answer); err != nil {
			err = s.fail(opGenerate, k, encryptionContext, err)
		}
	}
	if err != nil {
		clear(dataKey)
		return nil, keyset.WrappedKey{}, err
	}
	return dataKey, w, nil
}

// Unwrap returns a data key with Transit's decrypt. The ciphertext is looked at before:
// its form, and that its version is that of w.
func (s *Service) Unwrap(ctx context.Context, w keyset.WrappedKey, encryptionContext map[string]string) ([]byte, error) {
	k := s.find(w.Service)
	if k == nil {
		return nil, &keyset.KeyError{
			Kind: keyset.WrongKey, Key: fmt.Sprintf("%.256q", w.Service), Operation: opDecrypt.capability + " " + opDecrypt.endpoint,
			Remedy: "it is not one of the keys that this service was given: list it if it may be used",
		}
	}
	version, err := versionOf(string(w.Ciphertext))
	switch {
	case err != nil:
		err = &judgedError{failedCiphertext, err}
	case version != w.Version:
		err = unusable(failedSwapped, "the ciphertext is of version %s, and stored as of version %.32q", version, w.Version)
	}
	if err != nil {
		return nil, s.fail(opDecrypt, k, encryptionContext, err)
	}
	var answer unwrapAnswer
	err = s.call(ctx, k, opDecrypt, encryptionContext, []parameter{{"ciphertext", w.Ciphertext, false}}, &answer)
	dataKey := answer.Data.Plaintext
	switch {
	case err != nil:
	case answer.unbound():
		err = unusable(failedUnbound, "associated_data is ignored")
	case len(dataKey) == 0:
		err = unusable(failedAnswer, "the response holds no data key")
	}
	if err != nil {
		clear(dataKey)
		return nil, s.fail(opDecrypt, k, encryptionContext, err)
	}
	k.opened(version)
	return dataKey, nil
}

// opened notes that a version of the key is in use.
func (k *key) opened(version string) {
	n, err := strconv.ParseInt(version, 10, 64)
	for err == nil {
		oldest := k.oldest.Load()
		if oldest != 0 && oldest <= n || k.oldest.CompareAndSwap(oldest, n) {
			return
		}
	}
}

// warnings are what a server says beside its answer.
type warnings struct {
	Warnings []string `json:"warnings"`
}

// unbound reports whether the server did not know associated_data. It answers all the
// same, and says so.
func (w warnings) unbound() bool {
	return slices.ContainsFunc(w.Warnings, func(text string) bool {
		return strings.Contains(text, "ignored") && strings.Contains(text, "associated_data")
	})
}

// A wrapAnswer is that of encrypt and datakey.
type wrapAnswer struct {
	warnings

	Data struct {
		Ciphertext string `json:"ciphertext"`
		Version    int64  `json:"key_version"`
		Plaintext  []byte `json:"plaintext"` // of datakey
	} `json:"data"`
}

// An unwrapAnswer is that of decrypt.
type unwrapAnswer struct {
	warnings

	Data struct {
		Plaintext []byte `json:"plaintext"`
	} `json:"data"`
}

// wrapped returns the wrapped key in an answer.
func (k *key) wrapped(answer *wrapAnswer) (keyset.WrappedKey, error) {
	version, err := versionOf(answer.Data.Ciphertext)
	if err != nil {
		return keyset.WrappedKey{}, &judgedError{failedAnswer, err}
	}
	if named := strconv.FormatInt(answer.Data.Version, 10); named != version {
		return keyset.WrappedKey{}, unusable(failedSwapped, "the ciphertext is of version %s, and the server says %s", version, named)
	}
	return keyset.WrappedKey{Service: k.service(), Version: version, Ciphertext: []byte(answer.Data.Ciphertext)}, nil
}

// A parameter is one of a request.
type parameter struct {
	name   string
	value  []byte
	base64 bool // it is sent as base64; else it stands in a JSON string as it is
}

// call calls an endpoint of k and reads the answer into dst.
//
// The context goes into associated_data, and for a derived key into context, too.
// Whether the key is derived is told by the server itself when it misses that: a policy
// that only unwraps need not allow to read the key.
func (s *Service) call(ctx context.Context, k *key, op operation, encryptionContext map[string]string, more []parameter, dst any) error {
	derived := k.derived.Load()
	answer, err := s.send(ctx, k, op, encryptionContext, derived, more)
	if err != nil && !derived && needsContext(err) {
		k.derived.Store(true)
		answer, err = s.send(ctx, k, op, encryptionContext, true, more)
	}
	if err != nil {
		return err
	}
	return decode(answer, dst)
}

func (s *Service) send(ctx context.Context, k *key, op operation, encryptionContext map[string]string, derived bool, more []parameter) ([]byte, error) {
	bound := keyset.ContextBytes(encryptionContext)
	parameters := append([]parameter{{"associated_data", bound, true}}, more...)
	if derived {
		parameters = append(parameters, parameter{"context", bound, true})
	}
	r := request{path: k.path(op.endpoint)}
	r.body, r.hidden = encode(parameters)
	return s.client.do(ctx, r)
}

// encode returns a JSON object, and the parts of it that are the values. It is one buffer
// of the right size: the encoder of the standard library would leave a data key in
// a buffer that it uses again.
func encode(parameters []parameter) (body []byte, values [][]byte) {
	size := len(`{}`)
	for _, p := range parameters {
		size += len(p.name) + base64.StdEncoding.EncodedLen(len(p.value)) + len(`"":"",`)
	}
	body = append(make([]byte, 0, size), '{')
	for i, p := range parameters {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(append(body, '"'), p.name...)
		body = append(body, `":"`...)
		start := len(body)
		if p.base64 {
			body = base64.StdEncoding.AppendEncode(body, p.value)
		} else {
			body = append(body, p.value...)
		}
		values = append(values, body[start:])
		body = append(body, '"')
	}
	return append(body, '}'), values
}

// fail returns the error of an operation with k.
func (s *Service) fail(op operation, k *key, encryptionContext map[string]string, err error) error {
	f := classify(err)
	return &keyset.KeyError{
		Kind: f.kind, Key: k.service(), Operation: op.permission(k.reference), Err: err,
		Remedy: strings.NewReplacer(
			"{engine}", "Transit", "{key}", k.name, "{mount}", k.mount, "{op}", op.permission(k.reference),
			"{token}", s.client.token.name, "{context}", contextRemedy(encryptionContext),
		).Replace(f.remedy),
	}
}
