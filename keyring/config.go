package keyring

import (
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

// A Config says what a ring follows and how.
type Config struct {
	// Name is the name of the keyset. A document with another name is refused, and no
	// wrapped key of another keyset opens. Required.
	Name string

	// Source is where the document is read. The ring does not close it. Required.
	Source keyset.Source

	// Services are the key services that may unwrap, and no others are ever called. The
	// ring does not close them. At least one is required.
	Services keyset.Services

	// MinRevision is the lowest revision to start with, so that an old copy of the
	// document is refused. 0 means that any will do.
	MinRevision int64

	// Wait makes Open wait for a document that is not there yet, up to StartTimeout. By
	// default that is an error at once.
	Wait bool

	// StartTimeout bounds Open. 0 means 30 seconds.
	StartTimeout time.Duration

	// Every is the interval at which the document is read and, with a Registry, a report
	// is published; each wait is up to an eighth shorter, by chance. 0 means 15 seconds; at
	// most 24 hours.
	Every time.Duration

	// Registry is where the reports of this instance are published, for instances whose
	// address cannot be listed. The ring does not close it. nil means none.
	Registry fleet.Registry

	// Host names this machine in reports. "" means os.Hostname.
	Host string

	// Now is the clock. nil means time.Now.
	Now func() time.Time

	// Logger is told what changes: a new revision, ready and not, degraded and healed, and
	// that Every is too long for the keyset's max_stale. Each is told once. nil means slog.Default().
	Logger *slog.Logger
}

const (
	defaultEvery        = 15 * time.Second
	maxEvery            = 24 * time.Hour // as in fleet.Report
	defaultStartTimeout = 30 * time.Second
)

// withDefaults checks c and fills in what is not set.
func (c Config) withDefaults() (Config, error) {
	fail := func(format string, args ...any) (Config, error) {
		return c, fmt.Errorf("%w: keyring: %w", codec.ErrConfig, fmt.Errorf(format, args...))
	}
	switch {
	case c.Name == "":
		return fail("Name is missing: the keyset's, which no document may decide")
	case isNil(c.Source):
		return fail("Source is missing: where the document is read")
	case len(c.Services) == 0:
		return fail("Services is empty: nothing could unwrap a key")
	case c.MinRevision < 0:
		return fail("MinRevision is negative")
	case c.StartTimeout < 0:
		return fail("StartTimeout is negative")
	case c.Every < 0 || c.Every > maxEvery:
		return fail("Every is %v, which is not in (0s, %v]", c.Every, maxEvery)
	}
	for i, service := range c.Services {
		if isNil(service) {
			return fail("key service %d is nil", i)
		}
	}
	if c.Registry != nil && isNil(c.Registry) {
		return fail("Registry is a nil pointer")
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = defaultStartTimeout
	}
	if c.Every == 0 {
		c.Every = defaultEvery
	}
	if c.Host == "" {
		c.Host, _ = os.Hostname() // one without a name is known by its id
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

// isNil finds a nil pointer in an interface, too: what a constructor returned with an
// error that nobody looked at.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map:
		return r.IsNil()
	default:
		return false
	}
}

// placeOf names a source for errors.
func placeOf(source keyset.Source) string {
	if s, ok := source.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", source)
}
