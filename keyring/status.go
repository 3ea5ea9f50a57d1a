package keyring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

// A Status tells everything about a ring at one moment. It holds no secret; errors name
// key services and places.
type Status struct {
	Name     string // the keyset's
	Lineage  string
	Revision int64

	// NotReady is why the instance should get no requests, "" if it should.
	NotReady string

	// Degraded is what is wrong although the instance may be ready, "" if nothing is.
	Degraded string

	// Warnings are what will become a problem if nothing is done.
	Warnings []string

	Loaded time.Time     // when the revision became the ring's
	Read   time.Time     // when the last successful read of the document began
	Age    time.Duration // since Read

	// Reported is when the last report that the registry accepted was made. Zero without
	// a registry.
	Reported time.Time

	// LastErr is the last error of reading, unwrapping or reporting, and LastErrAt when it
	// was; it stays when the trouble is over. nil: there was none.
	LastErr   error
	LastErrAt time.Time

	Sealing string        // the key id of the key that seals; "": none does
	Ceiling time.Duration // for the life of a token, see Ring.MaxTTL

	Keys []KeyStatus // in the order of the document

	// Wrappings are those of configured key services: of the auth key, then of the keys.
	Wrappings []WrappingStatus
}

// Ready reports whether the instance should get requests.
func (s *Status) Ready() bool { return s.NotReady == "" }

// A KeyStatus tells about one key of the document.
type KeyStatus struct {
	KID     string
	State   keyset.State
	Held    bool   // tokens under it are unsealed
	LeftOut string // why it is not held, although it is not revoked; "" otherwise

	Seals     uint64    // how many tokens this process has sealed
	Unseals   uint64    // and unsealed
	LiveUntil time.Time // the latest expiry of those that it has sealed; zero: there is none
}

// A WrappingStatus tells whether a wrapping opens.
type WrappingStatus struct {
	KID     string // or fleet.AuthKey
	Service string // as in keyset.WrappedKey
	Version string // likewise
	Opened  bool   // it holds the key that the ring has
	Err     error  // why it did not open the last time it was tried; nil if it was not tried yet
}

// Status returns the status of the ring as it is now. It calls nothing.
func (r *Ring) Status() Status {
	if r == nil || r.config.Now == nil {
		return Status{NotReady: errNotARing.Error()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, s, d := r.config.Now(), r.current.Load(), r.doc
	status := Status{
		Name: d.Name, Lineage: d.Lineage, Revision: d.Revision,
		NotReady: s.notReady(now), Degraded: r.degraded(), Warnings: r.warnings(),
		Loaded: r.loaded, Read: r.contact.read, Age: elapsed(r.contact.read, now), Reported: r.contact.accepted,
		LastErr: r.lastErr, LastErrAt: r.lastErrAt, Ceiling: s.ceiling,
	}
	if s.sealing != nil {
		status.Sealing = s.sealing.kid.String()
	}
	for _, k := range d.Keys {
		status.Keys = append(status.Keys, r.keyStatus(k))
	}
	for e := range r.wrapped {
		for _, w := range e.wraps {
			status.Wrappings = append(status.Wrappings, WrappingStatus{KID: e.name, Service: w.Service, Version: w.Version, Opened: w.opened, Err: w.err})
		}
	}
	return status
}

func (r *Ring) keyStatus(k keyset.Key) KeyStatus {
	status := KeyStatus{KID: k.KID, State: k.State}
	for _, e := range r.entries {
		if e.name != k.KID {
			continue
		}
		if status.Held = e.held != nil && !r.closed; e.held == nil {
			status.LeftOut = e.why()
		}
	}
	if u := r.uses[parseKID(k.KID)]; u != nil {
		status.Seals, status.Unseals, status.LiveUntil = u.sealed(), u.unseals.Load(), u.until()
	}
	return status
}

// A trouble is one thing that is wrong.
type trouble struct {
	what string // the same for as long as the same thing is wrong, whatever the error says
	why  string
}

func (r *Ring) troubles() (all []trouble) {
	add := func(what, why string) { all = append(all, trouble{what, why}) }
	if err := r.readErr; err != nil {
		what := "read"
		for _, refusal := range []error{keyset.ErrDocument, keyset.ErrTag, ErrForeign, ErrOlder, ErrFork} {
			if errors.Is(err, refusal) {
				what = refusal.Error()
			}
		}
		add(what, err.Error())
	}
	if err := r.pushErr; err != nil {
		add("report", err.Error())
	}
	for e := range r.wrapped {
		if e.out.kind != "" {
			add("out "+e.name, fmt.Sprintf("key %s: %s", e.name, e.out.text))
		}
		for _, w := range e.wraps {
			if w.err != nil {
				add("wrapping "+e.name+" "+w.Service+" "+w.Version, w.err.Error())
			}
		}
	}
	return all
}

func (r *Ring) degraded() string {
	var why []string
	for _, t := range r.troubles() {
		why = append(why, t.why)
	}
	return strings.Join(why, "; ")
}

func (r *Ring) warnings() (all []string) {
	if size := r.doc.Size(); size > keyset.LargeBytes {
		all = append(all, fmt.Sprintf("the document has %d bytes; from %d on some places cannot hold it", size, keyset.LargeBytes))
	}
	if stale := r.tooShort(); stale != 0 {
		all = append(all, fmt.Sprintf("it reads the keyset every %v by itself, and after %v, the keyset's max_stale, it is not ready: read more often", r.config.Every, stale))
	}
	for _, e := range r.entries {
		if e.held != nil && e.held.use.sealed() >= nearMaxSeals {
			all = append(all, fmt.Sprintf("key %s has made %d of 2^32 seals in this process alone: rotate now", e.name, e.held.use.sealed()))
		}
	}
	return all
}

// tooShort returns the keyset's max_stale if the ring reads too rarely for it, else 0.
func (r *Ring) tooShort() time.Duration {
	if stale := r.doc.Policy.MaxStale; r.config.Every >= stale {
		return stale
	}
	return 0
}

// Err returns nil if the instance should get requests, and else why not: an error that is
// [ErrNotReady], or [ErrClosed]. It reads the clock, calls nothing, and is cheap.
func (r *Ring) Err() error {
	if r == nil || r.config.Now == nil {
		return errNotARing
	}
	now := r.config.Now()
	s := r.current.Load()
	if s.closed {
		return ErrClosed
	}
	if why := s.notReady(now); why != "" {
		return fmt.Errorf("%w: keyset %s: %s", ErrNotReady, s.name, why)
	}
	return nil
}

// Readiness returns a handler for the probes of a load balancer: 200 if [Ring.Err] is nil,
// else 503, with a line of JSON that holds no secret and no name of a key service:
//
//	{"ready":false,"keyset":"billing","reason":"it last read the keyset 1h0m2s ago, and may go on for 1h0m0s"}
func (r *Ring) Readiness() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		answer := struct {
			Ready  bool   `json:"ready"`
			Keyset string `json:"keyset"`
			Reason string `json:"reason,omitempty"`
		}{}
		code := http.StatusServiceUnavailable
		if r == nil || r.config.Now == nil {
			answer.Reason = errNotARing.Error()
		} else {
			now := r.config.Now()
			answer.Keyset, answer.Reason = r.config.Name, r.current.Load().notReady(now)
		}
		if answer.Reason == "" {
			answer.Ready, code = true, http.StatusOK
		}
		text, err := json.Marshal(answer)
		if err != nil {
			code = http.StatusInternalServerError
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(code)
		_, _ = w.Write(append(text, '\n')) // whoever asked has left
	})
}

// Refresh does at once what the ring does in the background, and waits for it: with a
// Registry it publishes a report, then it reads the document and tries every key that is
// not held. Many at once share a read that began after each was called. The error is what
// went wrong, or [Ring.Err].
//
// A server that runs all the time needs no Refresh.
func (r *Ring) Refresh(ctx context.Context) error {
	if r == nil || r.config.Now == nil {
		return errNotARing
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.life, cancel)() //nolint:contextcheck // closing the ring ends it, too
	var pushErr error
	if r.publisher != nil {
		pushErr = r.publisher.Publish(ctx)
	}
	err := r.reload(ctx)
	r.mu.Lock()
	before := r.quiet // attempts that may have asked before what stands in their way was mended
	r.mu.Unlock()
	select {
	case <-before:
	case <-ctx.Done():
	}
	select {
	case <-r.launch(true): //nolint:contextcheck // attempts end with the ring, not with who asked first
	case <-ctx.Done():
	}
	if err = errors.Join(pushErr, err); err != nil && r.life.Err() == nil {
		return err
	}
	return r.Err()
}

// A telling is what the log was told last.
type telling struct {
	revision int64
	ready    bool
	troubles string // what of all troubles
	tooShort time.Duration
}

// tell tells the log what has changed since it was told last.
func (r *Ring) tell(ctx context.Context) {
	r.mu.Lock()
	if r.closed || !r.opened {
		r.mu.Unlock()
		return
	}
	why := r.current.Load().notReady(r.config.Now())
	r.wasReady = r.wasReady || why == ""
	before, troubles := r.told, r.troubles()
	var what, whys []string
	for _, t := range troubles {
		what, whys = append(what, t.what), append(whys, t.why)
	}
	r.told = telling{revision: r.doc.Revision, ready: why == "", troubles: strings.Join(what, "; "), tooShort: r.tooShort()}
	told, primary, silent := r.told, r.doc.Primary().KID, r.busy > 0
	if silent { // keys are on their way: what is wrong now may not be in a moment
		r.told.ready, r.told.troubles = before.ready, before.troubles
	}
	r.mu.Unlock()
	log := func(level slog.Level, text string, attrs ...slog.Attr) {
		r.config.Logger.LogAttrs(ctx, level, text, append(attrs, r.logName())...) //nolint:sloglint // the texts are the constants below
	}
	if told.revision != before.revision {
		log(slog.LevelInfo, "keyset loaded", slog.Int64("revision", told.revision), slog.Int64("before", before.revision), slog.String("primary", primary))
	}
	if told.tooShort != before.tooShort && told.tooShort != 0 {
		log(slog.LevelWarn, "keyset ring reads too rarely: between two reads it will not be ready",
			slog.Duration("every", r.config.Every), slog.Duration("max_stale", told.tooShort), slog.String("fix", "set Every below max_stale, or raise max_stale with keytool policy"))
	}
	if silent {
		return
	}
	switch {
	case told.troubles == before.troubles:
	case told.troubles == "":
		log(slog.LevelInfo, "keyset ring healed")
	default:
		log(slog.LevelWarn, "keyset ring degraded", slog.String("reason", strings.Join(whys, "; ")))
	}
	switch {
	case told.ready == before.ready:
	case told.ready:
		log(slog.LevelInfo, "keyset ring ready", slog.Int64("revision", told.revision))
	default:
		log(slog.LevelWarn, "keyset ring not ready", slog.String("reason", why))
	}
}

func (r *Ring) logName() slog.Attr { return slog.String("keyset", r.config.Name) }
