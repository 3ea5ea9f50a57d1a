// Package testfleet has instances of a server that hold a keyset and report, and that can
// be made to do so badly. It is for the tests of keytool.
package testfleet

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// A Fleet is what its instances have in common.
type Fleet struct {
	Source keyset.Source // the store that they follow
	Now    func() time.Time

	mu       sync.Mutex
	services keyset.Services
}

// Configure gives the instances their key services; those that run get them, too.
func (f *Fleet) Configure(services keyset.Services) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.services = services
}

// Services are the key services of the instances.
func (f *Fleet) Services() keyset.Services {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.services
}

// An Instance follows the store at each report, unless it is told otherwise.
type Instance struct {
	fleet *Fleet
	name  string
	began time.Time

	mu     sync.Mutex
	ways   Ways
	loaded loaded
	uses   map[string]fleet.KeyUse
}

// A loaded is what an instance holds.
type loaded struct {
	doc *keyset.Document
	at  time.Time
}

// Ways are how an instance behaves. The zero value is a good one.
type Ways struct {
	Down     bool          // it does not answer
	Pinned   bool          // it goes on with what it holds
	Garbage  bool          // it answers with something else
	Status   int           // it answers with that status alone, as another server does
	Forged   bool          // it signs with a key of its own
	Stopped  bool          // its last report says that it has ended
	NotReady string        // why it is not ready
	Degraded string        // what is wrong, though it is ready
	Clock    time.Duration // how far its clock is ahead
	Age      time.Duration // how old its report is
	ID       string        // in the place of its own, as if it had started later
	Fails    string        // the key id that it cannot unwrap
	Kind     string        // why, a keyset.Kind
	Lineage  string        // in the place of the keyset's
	Host     string        // in the place of its name
}

// Every is the interval of the instances.
const Every = 15 * time.Second

// Start returns a new instance.
func (f *Fleet) Start(name string) *Instance {
	return &Instance{fleet: f, name: name, began: f.Now(), uses: make(map[string]fleet.KeyUse)}
}

// Set changes how the instance behaves.
func (i *Instance) Set(change func(*Ways)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(&i.ways)
}

// Seal notes that the instance has sealed tokens under a key, the last of which lives
// until a time.
func (i *Instance) Seal(kid string, tokens int64, until time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	u, ok := i.uses[kid]
	if !ok {
		u = fleet.KeyUse{KID: kid, Since: i.began}
	}
	u.Seals += tokens
	if until.After(u.LiveUntil) {
		u.LiveUntil = until
	}
	i.uses[kid] = u
}

// ID is the id of the instance's reports.
func (i *Instance) ID() string {
	sum := sha256.Sum256([]byte(i.name))
	return hex.EncodeToString(sum[:16])
}

var errDown = errors.New("down")

// Signed returns the instance's signed report.
func (i *Instance) Signed(ctx context.Context) ([]byte, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.ways.Down:
		return nil, errDown
	case i.ways.Garbage:
		return []byte("<html>It works!</html>"), nil
	}
	if !i.ways.Pinned || i.loaded.doc == nil {
		if err := i.follow(ctx); err != nil {
			return nil, err
		}
	}
	secret, err := i.fleet.Services().OpenAuth(ctx, i.loaded.doc)
	if err != nil {
		return nil, err
	}
	if i.ways.Forged {
		_, _ = rand.Read(secret) // never fails
	}
	key, err := fleet.NewKey(secret)
	if err != nil {
		return nil, err
	}
	return key.Sign(i.report())
}

func (i *Instance) follow(ctx context.Context) error {
	text, _, err := i.fleet.Source.Load(ctx)
	if err != nil {
		return err
	}
	doc, err := keyset.Parse(text)
	if err != nil {
		return err
	}
	if i.loaded.doc == nil || !bytes.Equal(i.loaded.doc.Tag, doc.Tag) {
		i.loaded = loaded{doc, i.fleet.Now()}
	}
	return nil
}

func (i *Instance) report() fleet.Report {
	d, w := i.loaded.doc, i.ways
	r := fleet.Report{
		ID: i.ID(), Host: cmp.Or(w.Host, i.name), Started: i.began, Now: i.fleet.Now().Add(w.Clock - w.Age), Every: Every, Stopped: w.Stopped,
		Keyset: d.Name, Lineage: d.Lineage, Revision: d.Revision, Tag: base64.StdEncoding.EncodeToString(d.Tag), Loaded: i.loaded.at,
		TTL: d.TTL, Ready: w.NotReady == "", Reason: cmp.Or(w.NotReady, w.Degraded), Software: "test",
	}
	if w.ID != "" {
		r.ID, r.Started = w.ID, r.Started.Add(time.Second)
	}
	if w.Lineage != "" {
		r.Lineage = w.Lineage
	}
	i.hold(&r, fleet.AuthKey, d.Auth.Wrapped)
	for _, k := range d.Keys {
		if !k.Unseals() || !i.hold(&r, k.KID, k.Wrapped) {
			continue
		}
		r.Verifies = append(r.Verifies, k.KID)
		if k.State == keyset.Primary {
			r.Primary = k.KID
		}
	}
	for _, u := range i.uses {
		r.Keys = append(r.Keys, u)
	}
	slices.SortFunc(r.Keys, func(a, b fleet.KeyUse) int { return cmp.Compare(a.KID, b.KID) })
	return r
}

// hold reports whether the instance can open a key, with every service that it has.
func (i *Instance) hold(r *fleet.Report, kid string, wrapped []keyset.WrappedKey) bool {
	held := false
	for _, w := range wrapped {
		switch {
		case i.ways.Fails == kid:
			r.Failed = append(r.Failed, fleet.Failure{KID: kid, Service: w.Service, Kind: i.ways.Kind, Operation: "unwrap"})
		case i.fleet.Services().Opens(w.Service):
			held = true
			r.Opened = append(r.Opened, fleet.Opened{KID: kid, Service: w.Service, Version: w.Version})
			if !slices.Contains(r.Services, w.Service) {
				r.Services = append(r.Services, w.Service)
			}
		}
	}
	return held
}

// Handler serves the instance's reports under /report, and breaks the connection if it is
// down.
func (i *Instance) Handler() http.Handler {
	serve := http.NewServeMux()
	serve.Handle("/report", fleet.Handler(i.Signed))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		down, status := i.ways.Down, i.ways.Status
		i.mu.Unlock()
		if down {
			panic(http.ErrAbortHandler)
		}
		if status != 0 {
			w.WriteHeader(status)
			return
		}
		serve.ServeHTTP(w, r)
	})
}
