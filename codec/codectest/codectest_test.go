package codectest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/codec/local"
)

// broken are codecs with one fault each, and a subtest that must find it.
var broken = map[string]struct {
	fresh func() codec.Codec
	finds string
}{
	"loses the last byte": {func() codec.Codec { return wrap{open: func(p []byte) []byte { return p[:max(0, len(p)-1)] }} }, "every_payload_round-trips"},
	"seals alike":         {func() codec.Codec { return alike{new(sync.Map), local.Ephemeral()} }, "two_seals_differ"},
	"skips line ends": {func() codec.Codec {
		return wrap{read: func(s string) string { return strings.ReplaceAll(s, "\n", "") }}
	}, "every_other_spelling"},
	"trims space": {func() codec.Codec { return wrap{read: strings.TrimSpace} }, "every_other_spelling"},
	"adds a bare line end": {func() codec.Codec {
		return wrap{write: func(s string) string { return s + "\n" }, read: strings.TrimSpace}
	}, "printable_ASCII"},
	"ignores what follows": {func() codec.Codec {
		return wrap{read: func(s string) string { return strings.SplitN(s, ".A", 2)[0] }, write: func(s string) string { return s + ".AAAA" }}
	}, "single-bit_flip"},
	"shares its key":           {func() codec.Codec { return shared }, "another_key's_token"},
	"reports a plain error":    {func() codec.Codec { return wrap{fail: func(error) error { return errors.New("no") }} }, "single-bit_flip"},
	"keeps the caller's bytes": {func() codec.Codec { return new(keeper) }, "payload_is_the_caller"},
	"shows the payload": {func() codec.Codec {
		return wrap{fail: func(err error) error { return fmt.Errorf("%s: %w", canary, err) }}
	}, "single-bit_flip"},
	"opens once":                 {func() codec.Codec { return once{wrap{}, new(sync.Map)} }, "opened_again"},
	"does not encrypt nor sign":  {func() codec.Codec { return plainText{} }, "single-bit_flip"},
	"ceiling not kept":           {func() codec.Codec { return lax{local.Ephemeral()} }, "Expirer"},
	"names no key":               {func() codec.Codec { return nameless{local.Ephemeral()} }, "Identifier"},
	"appends beyond the ceiling": {func() codec.Codec { return strict{local.Ephemeral()} }, "Appender"},
	"appends for no time":        {func() codec.Codec { return timeless{local.Ephemeral()} }, "Appender"},
	"a token for a key id":       {func() codec.Codec { return talkative{local.Ephemeral()} }, "single-bit_flip"},
	"drops what dst held":        {func() codec.Codec { return dropper{local.Ephemeral()} }, "Appender"},
}

// A suite that passes everything is none: each fault must be found, in a process of
// its own since the suite fails its test.
func TestSuiteFindsFaults(t *testing.T) {
	if name := os.Getenv("CODECTEST_BROKEN"); name != "" {
		Run(t, func(testing.TB) codec.Codec { return broken[name].fresh() })
		return
	}
	for name, c := range broken {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestSuiteFindsFaults$")
			cmd.Env = append(os.Environ(), "CODECTEST_BROKEN="+name)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatal("the suite passes it")
			}
			found := false
			for line := range strings.Lines(string(out)) {
				found = found || strings.Contains(line, "--- FAIL") && strings.Contains(line, c.finds)
			}
			if !found {
				t.Errorf("no subtest %q failed:\n%.2000s", c.finds, out)
			}
		})
	}
}

var shared = local.Ephemeral()

// wrap is a good codec with changes on the way in and out.
type wrap struct {
	write, read func(string) string
	open        func([]byte) []byte
	fail        func(error) error
}

var inner = local.Ephemeral()

func (w wrap) Seal(p []byte) (string, error) {
	token, err := inner.Seal(p)
	if w.write != nil {
		token = w.write(token)
	}
	return token, err
}

func (w wrap) Unseal(token string) ([]byte, error) {
	if w.read != nil {
		token = w.read(token)
	}
	p, err := inner.Unseal(token)
	if err != nil && w.fail != nil {
		err = w.fail(err)
	}
	if err == nil && w.open != nil {
		p = w.open(p)
	}
	return p, err
}

type alike struct {
	made *sync.Map
	codec.Codec
}

func (a alike) Seal(p []byte) (string, error) {
	token, err := a.Codec.Seal(p)
	first, _ := a.made.LoadOrStore(string(p), token)
	return first.(string), err
}

type keeper struct{ made sync.Map }

func (k *keeper) Seal(p []byte) (string, error) {
	token, err := inner.Seal(p)
	k.made.Store(token, p)
	return token, err
}

func (k *keeper) Unseal(token string) ([]byte, error) {
	if p, ok := k.made.Load(token); ok {
		return p.([]byte), nil
	}
	return inner.Unseal(token)
}

type once struct {
	wrap
	seen *sync.Map
}

func (o once) Unseal(token string) ([]byte, error) {
	if _, seen := o.seen.LoadOrStore(token, true); seen {
		return nil, &codec.InvalidError{Reason: codec.BadSeal}
	}
	return o.wrap.Unseal(token)
}

type plainText struct{}

func (plainText) Seal(p []byte) (string, error) { return base64.RawURLEncoding.EncodeToString(p), nil }

func (plainText) Unseal(token string) ([]byte, error) {
	p, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return nil, &codec.InvalidError{Reason: codec.Malformed}
	}
	return p, nil
}

type lax struct{ *local.Ring }

func (lax) MaxTTL() time.Duration { return time.Minute }

// strict keeps a ceiling in SealUntil alone.
type strict struct{ *local.Ring }

func (strict) MaxTTL() time.Duration { return time.Minute }

func (s strict) SealUntil(p []byte, expires time.Time) (string, error) {
	if time.Until(expires) > time.Minute {
		return "", errors.New("beyond the ceiling")
	}
	return s.Seal(p)
}

type timeless struct{ *local.Ring }

func (s timeless) AppendSeal(dst, p []byte, expires time.Time) ([]byte, error) {
	if !expires.IsZero() {
		return dst, errors.New("no time, please")
	}
	return s.Ring.AppendSeal(dst, p, expires)
}

type talkative struct{ *local.Ring }

func (s talkative) Unseal(token string) ([]byte, error) {
	p, err := s.Ring.Unseal(token)
	var invalid *codec.InvalidError
	if errors.As(err, &invalid) {
		invalid.KID = token
	}
	return p, err
}

type nameless struct{ *local.Ring }

func (nameless) KID(string) string { return "no key id" }

type dropper struct{ *local.Ring }

func (d dropper) AppendSeal(_, payload []byte, expires time.Time) ([]byte, error) {
	return d.Ring.AppendSeal(nil, payload, expires)
}
