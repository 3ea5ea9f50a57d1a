package vault_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A fake answers as Transit does, as far as the service calls it, and in ways that a
// server cannot be made to answer. What it says is held against a server by
// TestContract; the service itself is tested with a server in the module integration.
type fake struct {
	*httptest.Server

	mu       sync.Mutex
	keys     map[string]*fakeKey // by mount/keys/name
	tokens   map[string]*fakeToken
	requests []fakeRequest
	fault    *fault

	kv map[string]*fakeSecret // by mount/path; see fakeEngines

	// isVault makes datakey ignore associated_data, as it does in HashiCorp Vault.
	isVault bool
}

type fakeKey struct {
	versions [][]byte
	min      int // min_decryption_version
	derived  bool
	deleted  bool // softly
	kind     string
	flags    map[string]any
}

type fakeToken struct {
	allowed []string // prefixes of paths; nil for all
	data    map[string]any
}

type fakeRequest struct {
	method, path, token, namespace string
	wrapTTL                        string // the answer is to be wrapped
	body                           map[string]string
}

// A fault stands in for an answer.
type fault struct {
	status int
	errors []string // of a JSON body
	raw    string   // the body, if it is not empty
	header http.Header
	hang   bool
	calls  int                                    // how many more; negative for all
	only   string                                 // a path that has it in it; "" for any
	handle func(http.ResponseWriter, fakeRequest) // does it all, if it is not nil
}

const rootToken = "fake-root-token"

func newFake() *fake {
	f := &fake{
		keys:   map[string]*fakeKey{},
		kv:     map[string]*fakeSecret{},
		tokens: map[string]*fakeToken{rootToken: {data: map[string]any{"expire_time": nil, "policies": []string{"operator"}}}},
	}
	f.Server = httptest.NewServer(f)
	return f
}

func newFakeKey() *fakeKey { return (&fakeKey{min: 1, kind: "aes256-gcm96"}).rotate() }

func (k *fakeKey) rotate() *fakeKey {
	version := make([]byte, 32)
	_, _ = rand.Read(version)
	k.versions = append(k.versions, version)
	return k
}

// locked runs do while no request is served.
func (f *fake) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fake) fail(to *fault) { f.locked(func() { f.fault = to }) }

func (f *fake) seen() []fakeRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	request := fakeRequest{
		method: r.Method, path: strings.TrimPrefix(r.URL.Path, "/v1/"),
		token: r.Header.Get("X-Vault-Token"), namespace: r.Header.Get("X-Vault-Namespace"),
		wrapTTL: r.Header.Get("X-Vault-Wrap-TTL"),
	}
	isKV := isKVPath(request.path)
	var err error
	if !isKV {
		err = json.Unmarshal(raw, &request.body)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, request)
	if to := f.fault; to != nil && to.calls != 0 && strings.Contains(request.path, to.only) {
		to.calls--
		f.mu.Unlock()
		defer f.mu.Lock()
		to.answer(w, r, request)
		return
	}
	token := f.tokens[request.token]
	switch {
	case err != nil && r.Method != http.MethodGet:
		refuse(w, http.StatusBadRequest, "failed to decode JSON input: "+err.Error())
	case token == nil:
		refuse(w, http.StatusForbidden, "permission denied")
	case request.path == "auth/token/lookup-self":
		reply(w, token.data)
	case token.allowed != nil && !slices.ContainsFunc(token.allowed, func(p string) bool { return strings.HasPrefix(request.path, p) }):
		refuse(w, http.StatusForbidden, "1 error occurred:\n\t* permission denied\n\n")
	case isKV:
		f.serveKV(w, request, raw)
	default:
		f.serve(w, request)
	}
}

func (to *fault) answer(w http.ResponseWriter, r *http.Request, request fakeRequest) {
	switch {
	case to.handle != nil:
		to.handle(w, request)
	case to.hang:
		<-r.Context().Done()
	default:
		for name, values := range to.header {
			w.Header()[name] = values
		}
		if to.raw != "" {
			w.WriteHeader(to.status)
			_, _ = io.WriteString(w, to.raw)
			return
		}
		refuse(w, to.status, to.errors...)
	}
}

func (f *fake) serve(w http.ResponseWriter, r fakeRequest) {
	i := strings.LastIndexByte(r.path, '/')
	at, name := r.path[:i], r.path[i+1:]
	mount, endpoint, _ := strings.Cut(at, "/")
	if mount != "transit" && mount != "other" {
		refuse(w, http.StatusNotFound, fmt.Sprintf("no handler for route %q. route entry not found.", r.path))
		return
	}
	k := f.keys[mount+"/keys/"+name]
	if r.method == http.MethodGet && endpoint == "keys" {
		if k == nil {
			refuse(w, http.StatusNotFound)
			return
		}
		data := map[string]any{
			"name": name, "latest_version": len(k.versions), "min_decryption_version": k.min,
			"derived": k.derived, "soft_deleted": k.deleted, "type": k.kind,
		}
		for flag, value := range k.flags {
			data[flag] = value
		}
		reply(w, data)
		return
	}
	if k == nil && endpoint == "encrypt" { // what makes a typing error a key
		k = newFakeKey()
		f.keys[mount+"/keys/"+name] = k
	}
	ad, _ := base64.StdEncoding.DecodeString(r.body["associated_data"])
	derivation, _ := base64.StdEncoding.DecodeString(r.body["context"])
	switch {
	case k == nil:
		refuse(w, http.StatusBadRequest, "encryption key not found")
	case k.deleted:
		refuse(w, http.StatusBadRequest, "refusing to use soft-deleted key")
	case k.kind != "aes256-gcm96":
		refuse(w, http.StatusBadRequest, "'[0].associated_data' provided for non-AEAD cipher suite "+k.kind)
	case k.derived && len(derivation) == 0:
		refuse(w, http.StatusBadRequest, "missing 'context' for key derivation; the key was created using a derived key, which means additional, per-request information must be included in order to perform operations with the key")
	case endpoint == "encrypt":
		plaintext, err := base64.StdEncoding.DecodeString(r.body["plaintext"])
		if err != nil {
			refuse(w, http.StatusBadRequest, "failed to base64-decode plaintext")
			return
		}
		reply(w, map[string]any{"ciphertext": k.seal(plaintext, ad, derivation), "key_version": len(k.versions)})
	case endpoint == "datakey/plaintext":
		plaintext := make([]byte, 32)
		_, _ = rand.Read(plaintext)
		var warnings []string
		if f.isVault {
			ad, warnings = nil, []string{"Endpoint ignored these unrecognized parameters: [associated_data]"}
		}
		reply(w, map[string]any{"ciphertext": k.seal(plaintext, ad, derivation), "key_version": len(k.versions), "plaintext": plaintext}, warnings...)
	case endpoint == "decrypt":
		plaintext, text := k.open(r.body["ciphertext"], ad, derivation)
		if text != "" {
			refuse(w, http.StatusBadRequest, text)
			return
		}
		reply(w, map[string]any{"plaintext": plaintext})
	default:
		refuse(w, http.StatusNotFound, "1 error occurred:\n\t* unsupported path\n\n")
	}
}

func (k *fakeKey) aead(version int, derivation []byte) cipher.AEAD {
	key := k.versions[version-1]
	if k.derived {
		mac := hmac.New(sha256.New, key)
		mac.Write(derivation)
		key = mac.Sum(nil)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return aead
}

func (k *fakeKey) seal(plaintext, ad, derivation []byte) string {
	version := len(k.versions)
	sealed := k.aead(version, derivation).Seal(nil, nil, plaintext, ad)
	return fmt.Sprintf("vault:v%d:%s", version, base64.StdEncoding.EncodeToString(sealed))
}

func (k *fakeKey) open(ciphertext string, ad, derivation []byte) (plaintext []byte, refusal string) {
	rest, ok := strings.CutPrefix(ciphertext, "vault:v")
	number, sealed, found := strings.Cut(rest, ":")
	version, err := strconv.Atoi(number)
	raw, rawErr := base64.StdEncoding.DecodeString(sealed)
	switch {
	case !ok || !found:
		return nil, "invalid ciphertext: no prefix"
	case err != nil:
		return nil, "invalid ciphertext: version number could not be decoded"
	case version > len(k.versions):
		return nil, "invalid ciphertext: version is too new"
	case version < k.min:
		return nil, "ciphertext or signature version is disallowed by policy (too old)"
	case rawErr != nil:
		return nil, "invalid ciphertext: could not decode base64"
	case len(raw) < 28:
		return nil, "invalid ciphertext length"
	}
	plaintext, err = k.aead(version, derivation).Open(nil, nil, raw, ad)
	if err != nil {
		return nil, "cipher: message authentication failed"
	}
	return plaintext, ""
}

func reply(w http.ResponseWriter, data map[string]any, warnings ...string) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"request_id": "5c2b6d2e-0000-4000-8000-000000000000", "data": data, "warnings": warnings,
	})
}

// replyMissing replies with data and the status of nothing, as KV does for what was deleted.
func replyMissing(w http.ResponseWriter, data map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_ = json.NewEncoder(w).Encode(map[string]any{"request_id": "5c2b6d2e-0000-4000-8000-000000000001", "data": data, "warnings": nil})
}

func refuse(w http.ResponseWriter, status int, errors ...string) {
	if errors == nil {
		errors = []string{}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": errors})
}

// expiring returns what looking up a token tells that expires.
func expiring(left, whole time.Duration) map[string]any {
	return map[string]any{
		"expire_time": time.Now().Add(left).UTC().Format(time.RFC3339Nano),
		"ttl":         int(left.Seconds()), "creation_ttl": int(whole.Seconds()), "policies": []string{"server"},
	}
}
