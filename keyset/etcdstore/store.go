package etcdstore

import (
	"context"
	"fmt"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/echoseal/echoseal/keyset"
)

// A Store is a key of etcd that holds a keyset document: a [keyset.Store] and a
// [keyset.Watcher]. It is safe for concurrent use.
type Store struct{ place }

var (
	_ keyset.Store   = (*Store)(nil)
	_ keyset.Watcher = (*Store)(nil)
)

// New returns the store at a key, with a client that stays the caller's: it is not closed
// here. A client that watches should have a DialKeepAliveTime, 10 seconds say; else it
// waits for ever on a connection that died in silence. What is put in the place of its
// KV, Watcher and Lease, as by the vendor's package namespace, is used.
//
// The error is [keyset.ErrConfig]: the key is 1 to 512 bytes of printable UTF-8 and does
// not end in a slash.
func New(client *clientv3.Client, key string) (*Store, error) {
	p, err := newPlace(client, key)
	if err != nil {
		return nil, storeConfig(err)
	}
	return &Store{p}, nil
}

// Open returns the store that a URI names, with a client of its own, which
// [Store.Close] ends.
//
//	etcd://HOST:PORT[,HOST:PORT]/KEY
//	etcds://HOST:PORT[,HOST:PORT]/KEY
//
// Every HOST:PORT is a member of one cluster. KEY is what follows the slash, without it,
// percent-encoded where a URI wants that; so //KEY names a key that begins with a slash.
// The scheme etcds uses TLS. All else comes from the variables of etcdctl:
//
//   - ETCDCTL_CACERT, a file in PEM: the CAs that are trusted; by default the system's.
//   - ETCDCTL_CERT and ETCDCTL_KEY, files in PEM: the client's certificate. They are
//     read at each connection.
//   - ETCDCTL_USER and ETCDCTL_PASSWORD, or both in ETCDCTL_USER as NAME:PASSWORD.
//   - ETCDCTL_AUTH_JWT_TOKEN: a token instead of those.
//   - ETCDCTL_INSECURE_TRANSPORT=false, or any of the files: TLS for the scheme etcd, too.
//
// The server's certificate is always verified: ETCDCTL_INSECURE_SKIP_TLS_VERIFY is
// refused, and so is a password or a token without TLS, except on this host.
//
// With a password it logs in, so that ctx, which bounds the opening only, needs a
// deadline; otherwise it makes no call. The error is [keyset.ErrConfig] and names the
// setting, or tells why the login failed. An answer of more than 64 MiB is refused later.
func Open(ctx context.Context, uri string) (*Store, error) {
	p, err := dial(ctx, uri)
	if err != nil {
		return nil, storeConfig(err)
	}
	return &Store{p}, nil
}

// Opener returns what [keyset.SourceOpeners] needs to open URIs of the schemes etcd and
// etcds.
func Opener() keyset.SourceOpener { return keyset.NewSourceOpener(Open, scheme, schemeTLS) }

// Close ends the connection of a store that Open made, and with it every call: they
// fail with [net.ErrClosed], as later ones do. It does nothing to the client of New.
func (s *Store) Close() error { return s.place.Close() }

// String returns the store's URI.
func (s *Store) String() string { return s.place.String() }

// Load returns the document and, as its version, the revision of etcd at which it was
// written.
func (s *Store) Load(ctx context.Context) (doc []byte, version string, err error) {
	ctx, end := s.begin(ctx)
	defer end()
	answer, err := s.client.Get(ctx, s.key)
	if err != nil {
		return nil, "", s.fail(ctx, "load", "read on the key", err)
	}
	if len(answer.Kvs) == 0 {
		return nil, "", fmt.Errorf("%s: %w: check the address and the key, or create a keyset", s, keyset.ErrNotExist)
	}
	kv := answer.Kvs[0]
	return kv.Value, strconv.FormatInt(kv.ModRevision, 10), nil
}

// Save implements [keyset.Store]. A document of more than [keyset.MaxBytes] is
// [keyset.ErrConfig], and is not sent. Any other is sent once: if no answer comes, the new
// document may be there. An error that is [keyset.Denied] is the server's, which has
// refused it for good.
func (s *Store) Save(ctx context.Context, doc []byte, version string) (newVersion string, err error) {
	old, err := revision(version)
	if err != nil {
		return "", fmt.Errorf("%s: save: %w: %w", s, keyset.ErrConflict, err)
	}
	if len(doc) > keyset.MaxBytes {
		return "", fmt.Errorf("%w: %s: save: the document is %d bytes long, and at most %d are allowed: it is no keyset", keyset.ErrConfig, s, len(doc), keyset.MaxBytes)
	}
	ctx, end := s.begin(ctx)
	defer end()
	if err := ctx.Err(); err != nil { // nothing was sent
		return "", s.fail(ctx, "save", "", err)
	}
	answer, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(s.key), "=", old)). // 0 if there is none
		Then(clientv3.OpPut(s.key, string(doc))).                    // without a lease, whatever there was
		Commit()
	switch {
	case err != nil && refused(err):
		return "", fmt.Errorf("%w (%w)", s.fail(ctx, "save", "readwrite on the key", err), keyset.Denied)
	case err != nil:
		return "", s.fail(ctx, "save, which may have succeeded nevertheless", "", err)
	case !answer.Succeeded:
		return "", fmt.Errorf("%s: save: %w", s, keyset.ErrConflict)
	}
	return strconv.FormatInt(answer.Header.Revision, 10), nil
}

// revision returns what Load made a version of, and 0 for none.
func revision(version string) (int64, error) {
	if version == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil || n <= 0 || strconv.FormatInt(n, 10) != version {
		return 0, fmt.Errorf("the version %.32q is none of this store", version)
	}
	return n, nil
}

func storeConfig(err error) error { return config(err, keyset.ErrConfig) }
