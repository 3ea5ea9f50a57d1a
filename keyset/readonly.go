package keyset

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
)

// Bytes returns a [Source] of a document that never changes. It keeps a copy. Without
// any bytes there is no document: [ErrNotExist].
func Bytes(doc []byte) Source { return constant(bytes.Clone(doc)) }

type constant []byte

// String says what it is.
func (c constant) String() string { return "bytes in the program" }

// Load returns a copy.
func (c constant) Load(ctx context.Context) (doc []byte, version string, err error) {
	return loadBytes(ctx, c, c.String(), "empty")
}

// Env returns a [Source] of the document that an environment variable of this process
// holds, for functions and containers whose platform puts it there: it does not change
// while the process runs. One that is not set or empty is [ErrNotExist]. The URI is
// env://NAME. Linux lets one variable have less than 128 KiB.
func Env(name string) Source { return variable(name) }

type variable string

const envScheme = "env"

// String returns the URI.
func (v variable) String() string { return envScheme + "://" + string(v) }

// Load reads the variable.
func (v variable) Load(ctx context.Context) (doc []byte, version string, err error) {
	return loadBytes(ctx, []byte(os.Getenv(string(v))), v.String(), "not set, or empty")
}

func loadBytes(ctx context.Context, doc []byte, place, missing string) ([]byte, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", place, err)
	}
	if len(doc) == 0 {
		return nil, "", fmt.Errorf("%w: %s: %s", ErrNotExist, place, missing)
	}
	return bytes.Clone(doc), contentVersion(doc), nil
}

// openEnv opens the variable that a URI names.
func openEnv(_ context.Context, uri string) (Source, error) {
	_, name, _ := strings.Cut(uri, "://")
	if name == "" || strings.ContainsAny(name, "=/?#\x00") {
		return nil, fmt.Errorf("%w: an environment variable is named by a URI of the form %s://NAME", ErrConfig, envScheme)
	}
	return Env(name), nil
}
