package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// A token or a secret that stands in the wrong place is in the shell's history already, and
// must not get from there into the log of whoever reads standard error.

// formats are what the tokens of this and of other SDKs begin with.
const formats = `(?:v1e?|rs[12])\.`

// The start of a token, be it in quotes or behind a name; one that stands for itself, as
// short as a part of one; and a whole one that stands inside of something.
var (
	tokenStart  = regexp.MustCompile(`(?:^|[\s'"=:])` + formats)
	tokenAlone  = regexp.MustCompile(`^` + formats + `[A-Za-z0-9_-]{12,}(?:\.[A-Za-z0-9_-]{12,})*$`)
	tokenInside = regexp.MustCompile(formats + `[A-Za-z0-9_-]{32,}`)
)

// checkArguments refuses a command line that has a token in it, before anything can repeat
// it. A word in small letters, or the name of a file that is there, is none.
func checkArguments(args []string) error {
	for n, arg := range args {
		value := strings.TrimLeft(arg, "-")
		if _, behind, ok := strings.Cut(value, "="); ok && value != arg {
			value = behind
		}
		alone := tokenAlone.MatchString(value) && strings.ToLower(value) != value
		if !alone && !tokenInside.MatchString(value) && !strings.Contains(value, `"requestState"`) {
			continue
		}
		if _, err := os.Stat(value); err == nil {
			continue
		}
		return usagef("argument %d looks like a token, and is not shown: keytool takes a token from a file or from standard input, as in keytool inspect -; the name of a file is written as ./NAME", n+1)
	}
	return nil
}

// mayBeSecret reports whether what was typed may be a token, a secret, a credential or a
// principal: an error shows nothing of it. Secrets are at least minSecret bytes, and nothing
// that is mistyped in their place is as long. A URI, an address and NAME=VALUE may have a
// credential inside, or be the principal themselves.
func mayBeSecret(text string) bool {
	return len(text) >= minSecret || mayBeInput(text) || strings.ContainsAny(text, "@=") || strings.Contains(text, "://") || isDrawn(text)
}

// isDrawn reports whether a text looks drawn by chance, as the tokens of OpenBao do, which
// are shorter than a secret.
func isDrawn(text string) bool {
	const shortest = 20
	has := func(is func(rune) bool) bool { return strings.ContainsFunc(text, is) }
	return len(text) >= shortest && has(unicode.IsUpper) && has(unicode.IsLower) && has(unicode.IsDigit)
}

// mayBeInput reports whether the name of a file may be a token, or a message with one, that
// somebody has put in its place: an error shows none of it.
func mayBeInput(name string) bool {
	const longName = 255 // more than file systems allow
	return tokenStart.MatchString(name) || strings.ContainsAny(name, "{\"\n") || len(filepath.Base(name)) > longName
}

// shown quotes what was typed, for an error.
func shown(text string) string {
	if mayBeSecret(text) {
		return `"…" (not shown, as it may be a secret)`
	}
	return strconv.Quote(text)
}

// unnamed is the error of a file that somebody names behind a flag or a command, without
// its name if no file of that name is there: it may be what should be in the file.
func unnamed(behind string, err error) error {
	var path *fs.PathError
	if !errors.As(err, &path) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%s takes the name of a file: %w (what stands there is not shown, as it may be a secret)", behind, path.Err)
}
