package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/echoseal/echoseal/fleet"
)

// A Registry holds the reports of the instances that use a keyset: a [fleet.Registry]. It
// is safe for concurrent use.
type Registry struct{ place }

var _ fleet.Registry = (*Registry)(nil)

// NewRegistry returns the registry of the keyset at a key, that of [New]. The client
// stays the caller's: it is not closed here.
//
// The error is [fleet.ErrConfig], for a key as New refuses it.
func NewRegistry(client *clientv3.Client, key string) (*Registry, error) {
	p, err := newPlace(client, key)
	if err != nil {
		return nil, registryConfig(err)
	}
	return &Registry{p}, nil
}

// OpenRegistry returns the registry of the keyset that a URI names, with a client of its
// own, which [Registry.Close] ends. All of it is as with [Open], but that the error is
// [fleet.ErrConfig].
func OpenRegistry(ctx context.Context, uri string) (*Registry, error) {
	p, err := dial(ctx, uri)
	if err != nil {
		return nil, registryConfig(err)
	}
	return &Registry{p}, nil
}

// FleetOpener returns what [fleet.Openers] needs to open URIs of the schemes etcd and
// etcds.
func FleetOpener() fleet.Opener { return fleet.NewOpener(OpenRegistry, scheme, schemeTLS) }

// Close ends the connection of a registry that OpenRegistry made, and every call with it,
// as [Store.Close] does. It does nothing to the client of NewRegistry.
func (r *Registry) Close() error { return r.place.Close() }

// String returns the URI of the keyset.
func (r *Registry) String() string { return r.place.String() }

// releaseTimeout is how long giving back a lease may take. It would expire by itself.
const releaseTimeout = time.Second

// Publish implements [fleet.Registry]. The time to keep the report counts from a moment
// after it was called; etcd counts in seconds, from 2 on, so that it is up to two
// seconds longer, and begins anew when the cluster gets another leader.
//
// An id is 32 lower-case hexadecimal digits. The report is refused if it is larger than
// [fleet.MaxBytes].
func (r *Registry) Publish(ctx context.Context, id string, signed []byte, keep time.Duration) error {
	const operation, need = "publish", "readwrite on the prefix of the instances"
	switch {
	case !isID(id):
		return r.refuse(operation, "the id of the instance is not 32 lower-case hexadecimal digits")
	case len(signed) > fleet.MaxBytes:
		return r.refuse(operation, fmt.Sprintf("the report is %d bytes long, and at most %d are allowed", len(signed), fleet.MaxBytes))
	case keep < 0 || keep/time.Second >= clientv3.MaxLeaseTTL:
		return r.refuse(operation, fmt.Sprintf("a report cannot be kept for %v", keep))
	}
	ctx, end := r.begin(ctx)
	defer end()
	lease := clientv3.NoLease
	if keep > 0 {
		granted, err := r.client.Grant(ctx, int64(keep/time.Second)+1)
		if err != nil {
			return r.fail(ctx, operation, need, err)
		}
		lease = granted.ID
	}
	answer, err := r.client.Put(ctx, r.instances()+id, string(signed), clientv3.WithLease(lease), clientv3.WithPrevKV())
	if err != nil {
		if refused(err) { // else the report may be there, and would go with its lease
			r.release(ctx, lease)
		}
		return r.fail(ctx, operation, need, err)
	}
	if answer.PrevKv != nil {
		r.release(ctx, clientv3.LeaseID(answer.PrevKv.Lease)) // the report no longer hangs on it
	}
	return nil
}

// release gives back a lease, as far as that works: unused ones expire.
func (r *Registry) release(ctx context.Context, lease clientv3.LeaseID) {
	if lease == clientv3.NoLease {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	_, _ = r.client.Revoke(ctx, lease)
}

// Forget implements [fleet.Registry].
func (r *Registry) Forget(ctx context.Context, id string) error {
	if !isID(id) {
		return r.refuse("forget", "the id of the instance is not 32 lower-case hexadecimal digits")
	}
	ctx, end := r.begin(ctx)
	defer end()
	if _, err := r.client.Delete(ctx, r.instances()+id); err != nil {
		return r.fail(ctx, "forget", "readwrite on the prefix of the instances", err)
	}
	return nil
}

// What Collect reads at most.
const (
	pageSize     = 32 // entries, which are 8 MiB at most unless somebody writes other things there
	maxInstances = 10_000
	maxTotal     = 256 << 20 // bytes
)

// Collect implements [fleet.Source]: whatever is there all the time that it takes is in
// the answers, in the order of the ids. What is no report of [fleet.MaxBytes] under an id
// is answered with [fleet.ErrMalformed]. More than 10,000 instances or 256 MiB are an
// error.
func (r *Registry) Collect(ctx context.Context) ([]fleet.Answer, error) {
	const operation, need = "collect", "read on the prefix of the instances"
	ctx, finish := r.begin(ctx)
	defer finish()
	var answers []fleet.Answer
	total := 0
	for from, end := r.instances(), clientv3.GetPrefixRangeEnd(r.instances()); ; {
		page, err := r.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize))
		if err != nil {
			return answers, r.fail(ctx, operation, need, err)
		}
		for _, kv := range page.Kvs {
			total += len(kv.Value)
			if len(answers) == maxInstances || total > maxTotal {
				return answers, r.refuse(operation, fmt.Sprintf("there is more than %d instances or %d MiB: delete below %s what is no report", maxInstances, maxTotal>>20, r.instances()))
			}
			answers = append(answers, r.answer(kv))
			from = string(kv.Key) + "\x00" // the next key that there can be
		}
		if !page.More {
			return answers, nil
		}
	}
}

func (r *Registry) answer(kv *mvccpb.KeyValue) fleet.Answer {
	id := strings.TrimPrefix(string(kv.Key), r.instances())
	answer := fleet.Answer{Address: id, Registered: true}
	switch {
	case !isID(id):
		answer.Address = strconv.QuoteToASCII(fmt.Sprintf("%.64s", id))
		answer.Err = fmt.Errorf("%w: the key is no id of an instance: delete it", fleet.ErrMalformed)
	case len(kv.Value) > fleet.MaxBytes:
		answer.Err = fmt.Errorf("%w: it is %d bytes long, and at most %d are allowed", fleet.ErrMalformed, len(kv.Value), fleet.MaxBytes)
	default:
		answer.Signed = kv.Value
	}
	return answer
}

// instances returns what the keys of the reports begin with.
func (r *Registry) instances() string { return r.key + "/instances/" }

func (r *Registry) refuse(operation, why string) error {
	return fmt.Errorf("%s: %s: %w", r, operation, errors.New(why))
}

func isID(id string) bool {
	return len(id) == 32 && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'f')
	})
}

func registryConfig(err error) error { return config(err, fleet.ErrConfig) }
