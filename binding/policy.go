package binding

import (
	"fmt"
	"reflect"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/internal/canon"
)

const (
	defaultTTL           = 10 * time.Minute
	defaultMaxTokenChars = 256 << 10
)

// Options configure a [Policy].
type Options struct {
	// Audience names the service. State sealed by another service that shares the
	// keys is refused. It is required unless NoAudience is set; the empty string is
	// not an audience. A Python server uses its server name unless told otherwise.
	Audience string

	// NoAudience leaves the audience out: for a codec whose key never leaves this
	// process, so that no other service can have it. Audience must then be empty.
	NoAudience bool

	// TTL is how long a token lives. 0 means the codec's ceiling where it has one
	// (see [codec.Expirer]), else 10 minutes. Every round is sealed afresh, so it
	// bounds the time that one round may take. A TTL above the codec's ceiling is
	// cut to it, at each seal anew.
	TTL time.Duration

	// MaxTokenChars is the length of the longest token, in characters: a longer one
	// is refused before it is decoded, and sealing one is an error. 0 means
	// 262,144.
	MaxTokenChars int

	// Now is the clock. nil means time.Now. It is for tests in which two services
	// have two clocks; package testing/synctest does the rest.
	Now func() time.Time
}

// A Policy seals and unseals states for one service. It is immutable and safe for
// concurrent use. The zero value is not usable; [New] makes one.
type Policy struct {
	codec          codec.Codec
	expirer        codec.Expirer  // nil if the codec is none
	appender       codec.Appender // nil if the codec is none
	audience       string         // "" for none
	audienceMember string         // the audience as it stands in a payload, "" for none
	ttl            time.Duration  // 0 for the ceiling
	maxChars       int
	now            func() time.Time
}

// New makes a policy that seals with c. The error is [codec.ErrConfig] and names
// the option: no codec (a nil pointer is none), neither or both of Audience and NoAudience, a negative TTL
// or MaxTokenChars, an audience that is not text.
func New(c codec.Codec, o Options) (*Policy, error) {
	switch {
	case isNil(c):
		return nil, configError("the codec is nil; check the error of its constructor")
	case o.Audience == "" && !o.NoAudience:
		return nil, configError("Audience is empty: name the service, so that another one with the same keys cannot pass its state off here; or set NoAudience for a key that never leaves this process")
	case o.Audience != "" && o.NoAudience:
		return nil, configError("both Audience and NoAudience are set")
	case !canon.IsText(o.Audience):
		return nil, configError("Audience is not valid UTF-8")
	case o.TTL < 0:
		return nil, configError(fmt.Sprintf("TTL is %v: it must be positive, or 0 for the default", o.TTL))
	case o.MaxTokenChars < 0:
		return nil, configError(fmt.Sprintf("MaxTokenChars is %d: it must be positive, or 0 for the default", o.MaxTokenChars))
	}
	p := &Policy{codec: c, audience: o.Audience, ttl: o.TTL, maxChars: o.MaxTokenChars, now: o.Now}
	p.expirer, _ = c.(codec.Expirer)
	p.appender, _ = c.(codec.Appender)
	if o.Audience != "" {
		text, _ := canon.AppendString(nil, o.Audience) // it is text
		p.audienceMember = `,"aud":` + string(text)
	}
	if p.maxChars == 0 {
		p.maxChars = defaultMaxTokenChars
	}
	if p.now == nil {
		p.now = time.Now
	}
	return p, nil
}

// isNil finds a nil pointer in the interface, too: what a constructor returns with an
// error that nobody looked at.
func isNil(c codec.Codec) bool {
	if c == nil {
		return true
	}
	v := reflect.ValueOf(c)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

func configError(text string) error { return fmt.Errorf("%w: binding: %s", codec.ErrConfig, text) }

// lifetime returns how long a token sealed now lives.
func (p *Policy) lifetime() (ttl time.Duration, err error) {
	defer recoverCodec(&err)
	var ceiling time.Duration
	if p.expirer != nil {
		ceiling = p.expirer.MaxTTL()
	}
	switch {
	case ceiling > 0 && (p.ttl == 0 || p.ttl > ceiling):
		return ceiling, nil
	case p.ttl == 0:
		return defaultTTL, nil
	}
	return p.ttl, nil
}

// seal appends the token for payload to dst, by the best way that the codec has. A
// codec that panics has failed, no more: the request is refused and the server goes
// on.
func (p *Policy) seal(dst, payload []byte, expires time.Time) (out []byte, err error) {
	defer recoverCodec(&err)
	if p.appender != nil {
		return p.appender.AppendSeal(dst, payload, expires)
	}
	var token string
	if p.expirer != nil {
		token, err = p.expirer.SealUntil(payload, expires)
	} else {
		token, err = p.codec.Seal(payload)
	}
	return append(dst, token...), err
}

// unseal appends the payload of token to dst.
func (p *Policy) unseal(dst []byte, token string) (out []byte, err error) {
	defer recoverCodec(&err)
	if p.appender != nil {
		return p.appender.AppendUnseal(dst, token)
	}
	payload, err := p.codec.Unseal(token)
	out = append(dst, payload...)
	clear(payload)
	return out, err
}

func recoverCodec(err *error) {
	if v := recover(); v != nil {
		// The value may hold what the codec was working on.
		*err = fmt.Errorf("the codec panicked with a %T", v)
	}
}

// kid returns the key id that token names, "" if it or the codec names none.
func (p *Policy) kid(token string) (kid string) {
	var err error // a refusal is reported with or without a key id
	defer recoverCodec(&err)
	if id, ok := p.codec.(codec.Identifier); ok {
		return id.KID(token)
	}
	return ""
}
