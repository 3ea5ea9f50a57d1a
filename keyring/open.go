package keyring

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/internal/within"
	"github.com/echoseal/echoseal/keyset"
)

const (
	parallelCalls = 8               // of key services
	endTimeout    = 5 * time.Second // for what is going on, and for the last report, in Close
)

// Open reads a keyset, checks it, unwraps its keys and follows it from then on. ctx bounds
// the opening only; [Ring.Close] ends what was opened.
//
// It checks, in this order: the document's size, form and version; its name; that its auth
// key is wrapped by a configured key service, which unwraps it, the only call before
// the document is known to be genuine; its tag; MinRevision. With a Registry it then
// publishes its first report and reads the document again. Last it unwraps the data keys,
// several at once. Services that are throttled or do not answer are asked again, as long
// as StartTimeout lasts, for the keys without which there is no start: the auth key and
// the primary. A ring without any other key opens, but is not ready: see [Ring.Err].
//
// The error is [codec.ErrConfig], or one of [keyset.ErrNotExist], [keyset.ErrDocument],
// [ErrForeign], [ErrOlder], [keyset.ErrTag] and [keyset.KeyError], or that of the
// source or the registry. When time has run out it is [context.DeadlineExceeded] too and
// names what was waited for. No key is ever made, whatever is missing.
func Open(ctx context.Context, c Config) (*Ring, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	r := newRing(c)
	startCtx, cancel := context.WithTimeout(ctx, c.StartTimeout)
	defer cancel()
	r.steps.of = startCtx
	if err = within.Call(startCtx, func() error { return r.start(startCtx) }); err == nil {
		r.run() //nolint:contextcheck // what runs ends with the ring; ctx bounds the opening only
		return r, nil
	}
	if late := startCtx.Err(); late != nil {
		err = fmt.Errorf("keyring: keyset %s: the opening was ended (%w) while waiting for %s; last error: %w", c.Name, late, r.steps, err)
	}
	return nil, errors.Join(err, r.Close())
}

func newRing(c Config) *Ring {
	r := &Ring{
		config: c, id: newID(), started: c.Now(), version: version(),
		wakes: make(chan struct{}, 1), settled: make(chan struct{}, 1), reading: make(chan struct{}, 1),
		slots: make(chan struct{}, parallelCalls), steps: new(steps),
	}
	r.life, r.end = context.WithCancel(context.Background())
	r.close = sync.OnceValue(r.shutDown)
	r.uses, r.revoked = make(map[kid]*use), make(map[kid]struct{})
	r.quiet = make(chan struct{})
	close(r.quiet)
	r.authEntry = &entry{name: fleet.AuthKey}
	r.contact.registered = c.Registry != nil
	if c.Registry != nil {
		r.publisher = &fleet.Publisher{Registry: registry{c.Registry, r}, ID: r.id, Every: c.Every, Report: r.sign, Now: c.Now, Logger: c.Logger}
	}
	r.rebuild()
	return r
}

// newID draws the id of an instance. It has to be unique and no secret.
func newID() string {
	var b []byte
	for range 2 {
		b = binary.BigEndian.AppendUint64(b, rand.Uint64()) //nolint:gosec // G404: it is seeded by the system
	}
	return hex.EncodeToString(b)
}

// start does what Open says.
func (r *Ring) start(ctx context.Context) error {
	began := r.config.Now()
	text, err := r.firstText(ctx)
	if err != nil {
		return err
	}
	d, err := r.firstDocument(ctx, text)
	if err != nil {
		return err
	}
	if r.publisher == nil {
		r.commit(ctx, d, text, began, r.epoch, nil)
	} else if err := r.register(ctx, d); err != nil {
		return err
	}
	return r.firstKeys(ctx)
}

// firstText waits for the document to be there, if that is wished for.
func (r *Ring) firstText(ctx context.Context) (text []byte, err error) {
	defer r.steps.begin("the document from " + placeOf(r.config.Source))()
	err = persist(ctx, func(err error) bool { return r.config.Wait && errors.Is(err, keyset.ErrNotExist) }, func() error {
		text, err = r.load(ctx)
		return err
	})
	return text, err
}

// firstDocument checks a document of which nothing is known yet, and unwraps its auth key.
func (r *Ring) firstDocument(ctx context.Context, text []byte) (*keyset.Document, error) {
	fail := func(err error) (*keyset.Document, error) {
		return nil, fmt.Errorf("keyring: keyset %s: %w", r.config.Name, err)
	}
	d, err := keyset.Parse(text)
	if err != nil {
		return fail(err)
	}
	if d.Name != r.config.Name {
		return fail(fmt.Errorf("%w: the document is that of keyset %s: correct the name or the place", ErrForeign, d.Name))
	}
	if err := r.firstAuth(ctx, d); err != nil {
		return fail(err)
	}
	if err := r.auth.Verify(d); err != nil {
		return fail(err)
	}
	if d.Revision < r.config.MinRevision {
		return fail(fmt.Errorf("%w: the document is revision %d, and at least %d is demanded", ErrOlder, d.Revision, r.config.MinRevision))
	}
	return d, nil
}

// firstAuth unwraps the auth key.
func (r *Ring) firstAuth(ctx context.Context, d *keyset.Document) error {
	k := keyset.Key{ID: d.Auth.ID}
	e := r.authEntry
	e.takeOver(k, r.config.Services, d.Auth.Wrapped)
	if len(e.wraps) == 0 {
		_, err := r.config.Services.OpenAuth(ctx, d) // calls none, and says what would have to be configured
		return err
	}
	return persist(ctx, temporary, func() error {
		var failed []error
		for i, w := range e.wraps {
			err := r.firstTry(ctx, k, w, len(e.wraps)-i)
			if err == nil {
				return nil
			}
			failed = append(failed, err)
		}
		return errors.Join(failed...)
	})
}

func (r *Ring) firstTry(ctx context.Context, k keyset.Key, w *wrapping, left int) error {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	secret, err := r.unwrap(ctx, fleet.AuthKey, k, w.WrappedKey)
	defer clear(secret)
	if w.opened, w.err = err == nil, err; err != nil {
		w.retry.failed(time.Now(), mostWait)
		return err
	}
	if r.auth, err = keyset.NewAuthKey(k.ID, secret); err != nil {
		return err
	}
	r.reports, err = fleet.NewKey(secret)
	return err
}

// register delivers the first report, and only then reads the document that counts.
func (r *Ring) register(ctx context.Context, d *keyset.Document) error {
	r.mu.Lock()
	r.doc = d // a report names it, and says that it is not loaded
	r.rebuild()
	r.mu.Unlock()
	done := r.steps.begin("the registry " + r.config.Registry.String())
	err := persist(ctx, func(error) bool { return true }, func() error { return r.publisher.Publish(ctx) })
	if err != nil {
		return fmt.Errorf("keyring: keyset %s: %w", r.config.Name, err)
	}
	done()
	defer r.steps.begin("the document from " + placeOf(r.config.Source))()
	return r.reload(ctx)
}

// firstKeys unwraps the data keys. It returns when each was tried, or when there is no
// primary for good.
func (r *Ring) firstKeys(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error // of the primary
	var wait sync.WaitGroup
	for _, e := range r.entries { // which nothing changes before run
		if !e.needed() {
			continue
		}
		again := func(err error) bool { return e.key.State == keyset.Primary && temporary(err) }
		wait.Go(func() {
			err := persist(ctx, again, func() error { return r.open(ctx, e) })
			if err != nil && e.key.State == keyset.Primary {
				failed = err
				cancel() // the others do not matter
			}
		})
	}
	wait.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sealing != nil {
		return nil
	}
	primary := r.entries[slices.IndexFunc(r.entries, func(e *entry) bool { return e.key.State == keyset.Primary })]
	if primary.out.kind != "" {
		failed = fmt.Errorf("%w: %s", codec.ErrConfig, primary.out.text)
	}
	return fmt.Errorf("keyring: keyset %s: the primary, key %s, is not unwrapped, and without it nothing can be sealed: %w", r.config.Name, primary.name, failed)
}

// run starts what goes on in the background.
func (r *Ring) run() {
	r.steps.end()
	r.mu.Lock()
	r.opened = true
	r.mu.Unlock()
	r.tell(r.life)
	r.launch(false)
	r.wait.Go(func() { r.follow(r.life) })
	if w, ok := r.config.Source.(keyset.Watcher); ok {
		r.wait.Go(func() { r.watch(r.life, w) })
	}
	if r.publisher != nil {
		r.wait.Go(func() { r.publisher.Run(r.life) })
	}
}

// Close ends everything that the ring has started, and makes it useless: sealing and
// unsealing give [ErrClosed]. With a Registry it publishes a last report, marked stopped.
// Each of the two may take five seconds, and one more if something does not heed its
// context. The error tells what was not done in that time, or that the report was not
// accepted. A second call does nothing and gives the same.
func (r *Ring) Close() error {
	if r == nil || r.close == nil {
		return nil // there is nothing to end
	}
	return r.close()
}

func (r *Ring) shutDown() error {
	r.mu.Lock()
	last := *r.current.Load()
	last.closed, last.keys, last.any, last.sealing = true, nil, nil, nil
	r.current.Store(&last)
	r.closed = true
	r.mu.Unlock()
	r.end()
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	var errs []error
	if err := within.Call(ctx, func() error { r.wait.Wait(); return nil }); err != nil {
		errs = append(errs, fmt.Errorf("keyring: keyset %s: closing: %w", r.config.Name, err))
	}
	if r.pushed.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		if err := within.Call(ctx, func() error { return r.publisher.Stop(ctx) }); err != nil {
			errs = append(errs, fmt.Errorf("keyring: keyset %s: closing: others may wait for this instance: %w", r.config.Name, err))
		}
	}
	return errors.Join(errs...)
}

// temporary reports whether a key service may soon do what it did not do now.
func temporary(err error) bool {
	return errors.Is(err, keyset.Throttled) || errors.Is(err, keyset.Unavailable)
}

// persist calls f until it succeeds, fails in a way that is not to be tried again, or
// ctx ends. Of a try that was cut off by the end of ctx nothing is learned: the error is
// that of the try before. Many instances that start at once come back at different times.
func persist(ctx context.Context, again func(error) bool, f func() error) error {
	var before error
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := f()
		if err != nil && ctx.Err() != nil && before != nil {
			return before
		}
		if err == nil || ctx.Err() != nil || !again(err) {
			return err
		}
		before = err
		timer := time.NewTimer(wait/2 + rand.N(wait)) //nolint:gosec // G404: jitter
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// steps are what Open is waiting for.
type steps struct {
	of    context.Context // of Open; nil before and after it
	mu    sync.Mutex
	names []string
}

// begin notes a step. When it is done the function that is returned is called; what is
// done only because time has run out is still what was waited for.
func (s *steps) begin(name string) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		return func() {}
	}
	s.names = append(s.names, name)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := slices.Index(s.names, name); i >= 0 && s.of.Err() == nil {
			s.names = slices.Delete(s.names, i, i+1)
		}
	}
}

// end forgets all steps, and those to come.
func (s *steps) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of, s.names = nil, nil
}

// String names the steps.
func (s *steps) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Compact(slices.Sorted(slices.Values(s.names)))
	const most = 4
	if len(names) > most {
		names = append(names[:most], "others")
	}
	if len(names) == 0 {
		return "its turn"
	}
	return strings.Join(names, " and ")
}
