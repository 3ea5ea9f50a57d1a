package vault

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/hashicorp/vault/api"
)

// maxTokenFile bounds what is read of a token file, in bytes.
const maxTokenFile = 64 << 10

// A tokenSource is where the token comes from. It is read at each call, so that a
// token that somebody else has renewed or replaced is picked up without a goroutine.
type tokenSource struct {
	name string // without the token: what people are told
	file string // "" unless it is a file
	read func() (string, error)
}

// fixedToken returns a source for a token that does not change.
func fixedToken(name, token string) tokenSource {
	return tokenSource{name: name, read: func() (string, error) { return token, checkToken(token) }}
}

// tokenOf returns a source for the token that somebody's client has.
func tokenOf(c *api.Client) tokenSource {
	return tokenSource{name: "the client's", read: func() (string, error) {
		token := c.Token()
		return token, checkToken(token)
	}}
}

// tokenFile returns a source for a file that holds a token, as Vault Agent and
// OpenBao Agent write it.
func tokenFile(name, path string) tokenSource {
	return tokenSource{name: name, file: path, read: func() (string, error) { return readToken(path) }}
}

func readToken(path string) (string, error) {
	// Opening a pipe would wait for who writes into it, whatever the caller's deadline.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) //nolint:gosec // the path is the operator's
	if err != nil {
		return "", fmt.Errorf("reading the token file: %w", err)
	}
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		_ = f.Close() // nothing was read
		return "", fmt.Errorf("the token file %s is no regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return "", fmt.Errorf("reading the token file: %w", err)
	}
	defer clear(text)
	token := strings.TrimSpace(string(text))
	if len(text) > maxTokenFile {
		return "", fmt.Errorf("the token file %s is longer than %d bytes", path, maxTokenFile)
	}
	if token == "" {
		return "", fmt.Errorf("the token file %s is empty", path)
	}
	return token, checkToken(token)
}

// checkToken reports what could not be sent in a header.
func checkToken(token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("the token has characters that no token has")
	}
	return nil
}

// warning returns what is wrong with how a token file is kept, "" if nothing is.
func (t tokenSource) warning() string {
	if t.file == "" {
		return ""
	}
	if info, err := os.Stat(t.file); err == nil && info.Mode().Perm()&0o007 != 0 {
		return fmt.Sprintf("the token file %s is open to every user of this host (mode %04o): take that away, in Vault Agent with the sink's mode", t.file, info.Mode().Perm())
	}
	return ""
}
