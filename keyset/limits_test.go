package keyset_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/internal/memkek"
	"github.com/echoseal/echoseal/keyset"
)

// A list that somebody has stored cannot make a server call without end.
func TestUnwrapTriesAreBounded(t *testing.T) {
	s := &tally{KeyService: memkek.New("a")}
	w, err := s.Wrap(t.Context(), make([]byte, 32), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Ciphertext = []byte("damaged")
	for n, calls := range map[int]int{16: 16, 17: 0, 10_000: 0} {
		s.calls = 0
		var list []keyset.WrappedKey
		for range n {
			list = append(list, w)
		}
		_, err := keyset.Services{s}.Unwrap(t.Context(), list, nil)
		if err == nil || s.calls != calls || errors.Is(err, keyset.ErrConfig) != (calls == 0) {
			t.Errorf("%d wrappings: %d calls, %v", n, s.calls, err)
		}
	}
}

type tally struct {
	keyset.KeyService
	calls int
}

func (c *tally) Unwrap(ctx context.Context, w keyset.WrappedKey, encryptionContext map[string]string) ([]byte, error) {
	c.calls++
	return c.KeyService.Unwrap(ctx, w, encryptionContext)
}

// closing is a key service with a connection.
type closing struct {
	keyset.KeyService
	closed *int
	err    error
}

func (c closing) Close() error {
	*c.closed++
	return c.err
}

var _ io.Closer = closing{}

func TestServicesClose(t *testing.T) {
	closed, stuck := 0, errors.New("stuck")
	s := keyset.Services{closing{memkek.New("a"), &closed, nil}, memkek.New("b"), closing{memkek.New("c"), &closed, stuck}}
	if err := s.Close(); !errors.Is(err, stuck) || closed != 2 {
		t.Errorf("%d closed, %v", closed, err)
	}
}

// What was opened before an error is closed again.
func TestOpenersCloseWhatTheyOpened(t *testing.T) {
	closed := 0
	openers := keyset.Openers{
		keyset.NewOpener(func(context.Context, ...string) (closing, error) {
			return closing{memkek.New("a"), &closed, nil}, nil
		}, "good"),
		keyset.NewOpener(func(context.Context, ...string) (*memkek.Service, error) { return nil, keyset.Denied }, "bad"),
	}
	s, err := openers.Open(t.Context(), "good://a", "bad://b")
	if s != nil || !errors.Is(err, keyset.Denied) || closed != 1 {
		t.Errorf("%v, %v, %d closed", s, err, closed)
	}
}

// What a service says is printed on terminals.
func TestKeyErrorIsOneLineOfText(t *testing.T) {
	err := &keyset.KeyError{Kind: keyset.Denied, Key: "a", Operation: "b", Remedy: "c", Err: errors.New("\x1b[2Jx\r\n\a\u202ey\u2028z\u0085")}
	if text := err.Error(); strings.ContainsAny(text, "\x1b\r\n\a\u202e\u2028\u0085") || !strings.Contains(text, "[2Jx") {
		t.Errorf("%q", text)
	}
}
