package keyset

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// dataKeySize is the size of a new data key, in bytes.
const dataKeySize = 32

// Services are the key services that a process is configured with. The first one
// wraps, every one unwraps what it answers true to [KeyService.Opens] for, and nothing
// else is ever called. It is safe for concurrent use as long as it is not changed.
type Services []KeyService

// Opens reports whether one of the services has the key that a [WrappedKey.Service]
// names. It makes no call.
func (s Services) Opens(service string) bool {
	return slices.ContainsFunc(s, func(k KeyService) bool { return k.Opens(service) })
}

// Close closes the services that hold connections: those that are an [io.Closer]. It
// returns all of their errors.
func (s Services) Close() error {
	var all []error
	for _, service := range s {
		if c, ok := service.(io.Closer); ok {
			all = append(all, c.Close())
		}
	}
	return errors.Join(all...)
}

// Unwrap returns the data key of which each element of wrapped is a wrapping. They are
// tried in the order of wrapped, each with every service that opens it, until one
// gives the data key. Each try but the last gets an equal share of the time that ctx
// has left, so that one service without an answer does not keep the others from
// giving theirs; without a deadline a silent one keeps them from it. At most 16 are
// tried. The caller zeroes the data key after use.
//
// The error holds that of every try: errors.Is finds each of their kinds, errors.As
// the first [*KeyError]. It is [ErrConfig], without any call, if no service opens any
// of them; it names what they are wrapped under, and the services that have a String
// method.
func (s Services) Unwrap(ctx context.Context, wrapped []WrappedKey, encryptionContext map[string]string) ([]byte, error) {
	dataKey, _, err := s.unwrap(ctx, wrapped, encryptionContext)
	return dataKey, err
}

// maxTries bounds what a list that somebody has stored can make a server do.
const maxTries = 16

// A try is a wrapped key, and which of the services may open it.
type try struct {
	service int
	wrapped WrappedKey
}

// unwrap returns the try that succeeded, too.
func (s Services) unwrap(ctx context.Context, wrapped []WrappedKey, encryptionContext map[string]string) ([]byte, try, error) {
	var tries []try
	for _, w := range wrapped {
		for i, service := range s {
			if service.Opens(w.Service) {
				tries = append(tries, try{i, w})
			}
		}
	}
	if len(tries) == 0 {
		return nil, try{}, s.noneOpens(wrapped)
	}
	if len(tries) > maxTries {
		return nil, try{}, fmt.Errorf("%w: the data key is wrapped %d times under configured keys, and at most %d are tried: take out those that are not needed", ErrConfig, len(tries), maxTries)
	}
	var failed failures
	for i, t := range tries {
		dataKey, err := s.try(ctx, t, len(tries)-i, encryptionContext)
		if err == nil {
			return dataKey, t, nil
		}
		clear(dataKey)
		failed = append(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(failed) == 1 {
		return nil, try{}, failed[0]
	}
	return nil, try{}, failed
}

// try makes one try, of which there are left, this one included.
func (s Services) try(ctx context.Context, t try, left int, encryptionContext map[string]string) ([]byte, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	return s[t.service].Unwrap(ctx, t.wrapped, encryptionContext)
}

// Generate makes a data key of 32 bytes, wrapped by the first service: with its own
// random source if it is a [Generator], else with crypto/rand. The caller zeroes the
// data key after use, and unwraps the wrapped key once as a server would before it is
// stored.
//
// The error is that of the service, or [ErrConfig] if there is no service.
func (s Services) Generate(ctx context.Context, encryptionContext map[string]string) (dataKey []byte, w WrappedKey, err error) {
	if len(s) == 0 {
		return nil, WrappedKey{}, errNoService
	}
	if g, ok := s[0].(Generator); ok {
		dataKey, w, err = g.Generate(ctx, encryptionContext)
	} else {
		dataKey = make([]byte, dataKeySize)
		_, _ = rand.Read(dataKey) // never fails: it ends the process instead
		w, err = s[0].Wrap(ctx, dataKey, encryptionContext)
	}
	if err == nil && len(dataKey) != dataKeySize {
		err = &KeyError{
			Kind: Corrupt, Key: w.Service, Operation: "generate",
			Remedy: "it was not used; look for what stands between here and the key service",
			Err:    fmt.Errorf("a data key of %d bytes, where %d are needed", len(dataKey), dataKeySize),
		}
	}
	if err != nil {
		clear(dataKey)
		return nil, WrappedKey{}, err
	}
	return dataKey, w, nil
}

// Rewrap wraps anew, by the first service, the data key of which each element of
// wrapped is a wrapping. The first service does it alone if it is a [Rewrapper] and
// opens what is wrapped.
//
// The data key is unwrapped before, and from the result afterwards; if the two differ
// the error is [Corrupt], and there is no result. Other errors are those of
// [Services.Unwrap] and of the first service.
func (s Services) Rewrap(ctx context.Context, wrapped []WrappedKey, encryptionContext map[string]string) (WrappedKey, error) {
	before, t, err := s.unwrap(ctx, wrapped, encryptionContext)
	if err != nil {
		return WrappedKey{}, err
	}
	defer clear(before)
	var w WrappedKey
	if r, ok := s[0].(Rewrapper); ok && t.service == 0 {
		w, err = r.Rewrap(ctx, t.wrapped, encryptionContext)
	} else {
		w, err = s[0].Wrap(ctx, before, encryptionContext)
	}
	if err != nil {
		return WrappedKey{}, err
	}
	after, err := s[0].Unwrap(ctx, w, encryptionContext)
	defer clear(after)
	if err != nil {
		return WrappedKey{}, fmt.Errorf("unwrapping what was wrapped anew: %w", err)
	}
	if subtle.ConstantTimeCompare(before, after) != 1 {
		return WrappedKey{}, &KeyError{
			Kind: Corrupt, Key: w.Service, Operation: "rewrap",
			Remedy: "keep the old wrapping; nothing has been lost",
			Err:    errors.New("what was wrapped anew unwraps to another data key"),
		}
	}
	return w, nil
}

var errNoService = fmt.Errorf("%w: no key service is configured", ErrConfig)

// maxNames bounds how much of what is stored an error repeats: nobody has checked it.
const maxNames = 4

// noneOpens returns the error that no service opens any of wrapped.
func (s Services) noneOpens(wrapped []WrappedKey) error {
	if len(s) == 0 {
		return errNoService
	}
	if len(wrapped) == 0 {
		return fmt.Errorf("%w: there is no wrapped key to unwrap", ErrConfig)
	}
	var names []string
	for _, w := range wrapped {
		name := fmt.Sprintf("%.256q", w.Service)
		switch {
		case slices.Contains(names, name):
		case len(names) < maxNames:
			names = append(names, name)
		case len(names) == maxNames:
			names = append(names, "others")
		}
	}
	var named []string
	for _, service := range s {
		if service, ok := service.(fmt.Stringer); ok {
			named = append(named, service.String())
		}
	}
	configured := fmt.Sprintf("%d configured key services", len(s))
	if len(named) > 0 {
		configured += " (" + strings.Join(named, ", ") + ")"
	}
	return fmt.Errorf("%w: the data key is wrapped under %s, and none of the %s opens that: add its URI to the configuration if it may be used; where a passphrase makes the key, look whether it is the right one",
		ErrConfig, strings.Join(names, " and under "), configured)
}

// failures are the errors of several tries, in one line.
type failures []error

func (f failures) Error() string {
	texts := make([]string, len(f))
	for i, err := range f {
		texts[i] = fmt.Sprintf("(%d) %v", i+1, err)
	}
	return fmt.Sprintf("%d tries failed: %s", len(f), strings.Join(texts, "; "))
}

func (f failures) Unwrap() []error { return f }
