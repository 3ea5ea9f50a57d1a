package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/vault/api"

	"github.com/echoseal/echoseal/keyset"
)

// storeSchemes are the URI schemes of a store. Printed is the first one.
var storeSchemes = []string{"hashivault-kv", "openbao-kv"}

const (
	defaultKVMount = "secret"

	// field is where the document is in a secret.
	field = "keyset"

	// maxDocumentResponse is more than a document takes in JSON, where a byte can
	// become \u0000, in bytes.
	maxDocumentResponse = 6*keyset.MaxBytes + 64<<10
)

// A Store keeps a keyset in the field keyset of a secret in a KV secrets engine of
// version 2. It is a [keyset.Store], safe for concurrent use. [NewStore] or [OpenStore]
// makes one; there is nothing to close.
type Store struct {
	client      *client
	mount, path string
	settings    []setting // for people
}

var _ keyset.Store = (*Store)(nil)

// NewStore returns the store in the secret with the given path, PATH or PATH?mount=M;
// without a mount it is secret. PATH is as bao kv and vault kv take it, without the
// mount and without data/. It makes no call. What client is used for, and what not, is as
// with [New].
//
// The error is [keyset.ErrConfig] and names the setting.
func NewStore(client *api.Client, path string) (*Store, error) {
	if client == nil {
		return nil, configError("no client")
	}
	s, query, err := parseStore(path)
	if err != nil {
		return nil, err
	}
	for parameter := range query {
		return nil, configError("store %s: the parameter %.100q belongs to OpenStore; NewStore has a client", s.path, parameter)
	}
	s.settings = settingsOf(client)
	if s.client, err = newClient(client, tokenOf(client), maxDocumentResponse); err != nil {
		return nil, err
	}
	return s, nil
}

// OpenStore returns the store that a URI names, with a client of its own. It makes no
// call.
//
//	hashivault-kv:///PATH?mount=M&address=URL&namespace=NS&ca-cert=FILE&token-file=FILE
//
// The scheme openbao-kv means the same. All but PATH is optional; the mount is secret by
// default, and everything else is as for [Open]. The error is [keyset.ErrConfig] and
// names the setting.
func OpenStore(_ context.Context, uri string) (*Store, error) {
	scheme, rest, ok := strings.Cut(uri, "://")
	rest, rooted := strings.CutPrefix(rest, "/")
	if !ok || !rooted || !slices.Contains(storeSchemes, strings.ToLower(scheme)) {
		return nil, configError("a store is named by a URI with three slashes, %s:///PATH?mount=M", storeSchemes[0])
	}
	s, query, err := parseStore(rest)
	if err != nil {
		return nil, err
	}
	if err := checkParameters("store "+s.path, query); err != nil {
		return nil, err
	}
	if s.client, s.settings, err = connect(query, maxDocumentResponse); err != nil {
		return nil, err
	}
	return s, nil
}

// StoreOpener returns what [keyset.SourceOpeners] needs to open URIs of the schemes
// hashivault-kv and openbao-kv.
func StoreOpener() keyset.SourceOpener { return keyset.NewSourceOpener(OpenStore, storeSchemes...) }

// parseStore reads PATH?mount=M&…, and returns the other parameters.
func parseStore(text string) (*Store, url.Values, error) {
	path, rawQuery, _ := strings.Cut(text, "?")
	if !validMount.MatchString(path) {
		return nil, nil, configError("a store is not named as it should be: write PATH?mount=M, where PATH is a path of letters, digits, '_', '-', '.', '~' and '/'")
	}
	mount, query, err := parseQuery("store "+path, rawQuery, defaultKVMount)
	return &Store{path: path, mount: mount}, query, err
}

// String returns hashivault-kv:///PATH?mount=M.
func (s *Store) String() string {
	return storeSchemes[0] + ":///" + s.path + "?mount=" + s.mount
}

// Settings tells where address, namespace, CA and token come from, without the token, one
// line each.
func (s *Store) Settings() []string { return describeSettings(s.settings) }

// dataPath returns the path of the document in the API, which policies name too.
func (s *Store) dataPath() string { return s.mount + "/data/" + s.path }

// Load returns the document and, as its version, NUMBER@CREATED as KV has them, since a
// secret that was removed with its metadata and made anew counts from 1 again.
//
// The error is [keyset.ErrNotExist] where the secret has no version at all. A secret
// whose newest version was deleted or destroyed is another error, which tells how to
// take it back, and so is an engine that is no KV of version 2.
func (s *Store) Load(ctx context.Context) (doc []byte, version string, err error) {
	found, err := s.read(ctx)
	if err != nil {
		return nil, "", err
	}
	if found == nil {
		if err := s.checkEngine(ctx); err != nil {
			return nil, "", err
		}
		return nil, "", fmt.Errorf("%s: %w: check mount, path, address and namespace, or create a keyset", s, keyset.ErrNotExist)
	}
	return []byte(found.doc), found.version(), nil
}

// Save writes the document as the next version, by check-and-set (cas). The engine is
// known to be a KV of version 2 before anything is written.
//
// What was deleted is not written over: the error is that of Load, and [keyset.Denied]. It
// is sent once, and again only if the server has surely not carried it out; after no
// answer at all the new document may be there. Nothing is sent of a document that is too
// large, or of one that fields of the secret would be lost for: that is
// [keyset.ErrConfig].
func (s *Store) Save(ctx context.Context, doc []byte, version string) (newVersion string, err error) {
	if len(doc) > keyset.MaxBytes || !utf8.Valid(doc) {
		return "", fmt.Errorf("%w: %s: a document of %d bytes is too large, or no UTF-8: it is no keyset", keyset.ErrConfig, s, len(doc))
	}
	found, err := s.read(ctx)
	if err != nil {
		return "", refused(err)
	}
	if version != found.version() {
		return "", s.conflict()
	}
	if found == nil {
		if err := s.checkEngine(ctx); err != nil {
			return "", err
		}
	} else if found.others > 0 {
		return "", fmt.Errorf("%w: %s: the secret has %d fields beside %s, which would be lost: move them to another path", keyset.ErrConfig, s, found.others, field)
	}
	return s.write(ctx, doc, found)
}

// A refusal is the error of a save in the place of what is no document: it was not carried
// out, and never will be.
type refusal struct{ error }

func (r refusal) Unwrap() []error { return []error{r.error, keyset.Denied} }

// refused makes an error of read that of a save, where it is about what is there; that of a
// call tells its kind.
func refused(err error) error {
	if failed := (storeError{}); errors.As(err, &failed) {
		return err
	}
	return refusal{err}
}

func (s *Store) conflict() error { return fmt.Errorf("%s: %w", s, keyset.ErrConflict) }

// A secretVersion is one version of a secret.
type secretVersion struct {
	number  int64
	created string
	doc     string
	others  int // fields beside the document
}

// version returns the version as the interface has it, "" for none.
func (v *secretVersion) version() string {
	if v == nil {
		return ""
	}
	return strconv.FormatInt(v.number, 10) + "@" + v.created
}

// A secretAnswer is that of reading a secret.
type secretAnswer struct {
	Data struct {
		Data     map[string]json.RawMessage `json:"data"`
		Metadata *metadata                  `json:"metadata"`
	} `json:"data"`
}

// A metadata is what is told of a version.
type metadata struct {
	Version   int64  `json:"version"`
	Created   string `json:"created_time"`
	Deletion  string `json:"deletion_time"`
	Destroyed bool   `json:"destroyed"`
}

// read returns the newest version, nil if there is none.
func (s *Store) read(ctx context.Context) (*secretVersion, error) {
	answer, err := s.client.do(ctx, request{path: s.dataPath()})
	var response *responseError
	if errors.As(err, &response) && response.status == http.StatusNotFound {
		if response.text != "" { // no engine, no namespace
			return nil, s.fail("read "+s.dataPath(), err)
		}
		answer, err = response.body, nil
	}
	var secret secretAnswer
	if err == nil {
		err = decode(answer, &secret)
	}
	if err != nil {
		return nil, s.fail("read "+s.dataPath(), err)
	}
	meta := secret.Data.Metadata
	switch {
	case response != nil && meta == nil:
		return nil, nil
	case meta == nil || meta.Version <= 0:
		return nil, s.fail("read "+s.dataPath(), unusable(s.noVersions(), "the secret has no versions"))
	case secret.Data.Data == nil:
		return nil, s.gone(meta)
	}
	raw, ok := secret.Data.Data[field]
	found := &secretVersion{number: meta.Version, created: meta.Created, others: len(secret.Data.Data) - 1}
	if !ok || raw[0] != '"' || json.Unmarshal(raw, &found.doc) != nil {
		return nil, fmt.Errorf("%s: version %d of the secret has no text in the field %s: it is another secret, or was written by hand: put the document there as a text, with %s kv put -mount=%s %s %[3]s=@FILE",
			s, meta.Version, field, tool, s.mount, s.path)
	}
	return found, nil
}

// tool is the command that remedies name. That of Vault has the same subcommands.
const tool = "bao"

// gone returns the error for a secret of which the newest version is no longer there.
func (s *Store) gone(meta *metadata) error {
	anew := fmt.Sprintf("to begin anew, remove the secret with all versions: %s kv metadata delete -mount=%s %s", tool, s.mount, s.path)
	if meta.Destroyed {
		return fmt.Errorf("%s: version %d was destroyed for good: save an older one again if there is one (%s kv rollback -mount=%s -version=N %s); %s",
			s, meta.Version, tool, s.mount, s.path, anew)
	}
	when := ""
	if at, err := time.Parse(time.RFC3339Nano, meta.Deletion); err == nil {
		when = " at " + at.UTC().Format(time.RFC3339)
	}
	return fmt.Errorf("%s: version %d was deleted%s, by hand or by delete_version_after: take it back with %s kv undelete -mount=%s -versions=%d %s; %s",
		s, meta.Version, when, tool, s.mount, meta.Version, s.path, anew)
}

// checkEngine refuses an engine that is no KV of version 2: one of version 1 takes what
// is written and heeds no cas, and has nothing at a path that was not written, as one of
// version 2 has. The endpoint is that of the vendors' own command kv: it needs no policy
// but for the path itself.
func (s *Store) checkEngine(ctx context.Context) error {
	path := "sys/internal/ui/mounts/" + s.dataPath()
	answer, err := s.client.do(ctx, request{path: path})
	var engine struct {
		Data struct {
			Type    string            `json:"type"`
			Path    string            `json:"path"`
			Options map[string]string `json:"options"`
		} `json:"data"`
	}
	if err == nil {
		err = decode(answer, &engine)
	}
	got := engine.Data
	mount := strings.Trim(got.Path, "/")
	switch {
	case err != nil:
	case got.Type != "kv" && got.Type != "generic":
		err = unusable(s.noVersions(), "%.100q is an engine of the type %.100q", mount, got.Type)
	case got.Options["version"] != "2":
		err = unusable(s.noVersions(), "%.100q is a KV engine of version 1, which heeds no cas", mount)
	case mount != s.mount:
		err = unusable(failure{kind: keyset.NotFound, remedy: "name it in mount=, and the path without it and without data/"}, "the engine is mounted at %.100q", mount)
	}
	if err != nil {
		return s.fail("read "+path, err)
	}
	return nil
}

// noVersions is the failure of an engine that cannot hold a keyset.
func (s *Store) noVersions() failure {
	return failure{kind: keyset.NotFound, remedy: fmt.Sprintf("a KV engine of version 2 is needed: name one in mount=, make one (%[1]s secrets enable -path=PATH kv-v2), or turn this one into one if all who use it know (%[1]s kv enable-versioning %[2]s)", tool, s.mount)}
}

// write writes a document in the place of a version, nil for none.
func (s *Store) write(ctx context.Context, doc []byte, old *secretVersion) (newVersion string, err error) {
	var cas int64
	if old != nil {
		cas = old.number
	}
	body, err := json.Marshal(map[string]any{"data": map[string]string{field: string(doc)}, "options": map[string]int64{"cas": cas}})
	if err != nil {
		return "", fmt.Errorf("%s: %w", s, err)
	}
	operation := "update " + s.dataPath()
	if old == nil {
		operation = "create " + s.dataPath()
	}
	answer, err := s.client.do(ctx, request{path: s.dataPath(), body: body, once: true})
	var written struct {
		Data metadata `json:"data"`
	}
	if err == nil {
		err = decode(answer, &written)
	}
	if err == nil && written.Data.Version <= cas {
		err = unusable(failedAnswer, "version %d is written in the place of %d", written.Data.Version, cas)
	}
	if isConflict(err) {
		// Replaced between reading and writing, by what may have been deleted since.
		var failed storeError // which tells nothing of what is there
		if _, err := s.read(ctx); err != nil && !errors.As(err, &failed) {
			return "", refused(err)
		}
		return "", s.conflict()
	}
	if err != nil {
		return "", s.fail(operation, err)
	}
	return (&secretVersion{number: written.Data.Version, created: written.Data.Created}).version(), nil
}

// isConflict reports whether the server has compared the version, and found another.
func isConflict(err error) bool {
	var response *responseError
	return errors.As(err, &response) && response.status == http.StatusBadRequest && strings.Contains(response.text, "check-and-set parameter did not match")
}

// A storeError is what keyset.KeyError is for keys: it has the kind, what was done and
// the remedy.
type storeError struct{ *keyset.KeyError }

// fail returns the error of a call.
func (s *Store) fail(operation string, err error) error {
	f := classify(err)
	if strings.Contains(f.remedy, "{key}") || strings.Contains(f.remedy, "{context}") { // of Transit
		f = failure{kind: f.kind, remedy: "check mount, path, address and namespace"}
	}
	return storeError{&keyset.KeyError{
		Kind: f.kind, Key: s.String(), Operation: operation, Err: err,
		Remedy: strings.NewReplacer("{engine}", "KV", "{mount}", s.mount, "{op}", operation, "{token}", s.client.token.name).Replace(f.remedy),
	}}
}
