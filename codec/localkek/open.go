package localkek

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/echoseal/echoseal/keyset"
)

// passphraseVariable is the environment variable that names the file with the
// passphrase.
const passphraseVariable = "ECHOSEAL_KEK_PASSPHRASE_FILE" //nolint:gosec // a name, no credential

// Open returns a service for the keys in the files that the URIs name. The first wraps,
// every one unwraps. The files are read here, and not again but for [Service.Describe].
//
//	localkek:///path/to/file?allow-group-read=true&passphrase-file=/path
//
// The path is absolute, and percent-encoded as in every URI. [NewKeyFile] and
// [NewPassphraseFile] make the file.
//
//   - allow-group-read=true accepts files that their group may read, such as a Kubernetes
//     Secret with fsGroup and mode 0440. Without it nobody but the owner may. That
//     the group may write, or all others do anything, is never accepted. Symbolic links are
//     followed; what counts is the file at their end. On Windows the mode tells nothing,
//     and access is the operator's concern.
//   - passphrase-file names the file that holds the passphrase, and nothing else but one
//     line feed at the end, which does not count. By default it is what the environment
//     variable ECHOSEAL_KEK_PASSPHRASE_FILE names. It is read only for a key file that
//     needs it, and the rules for who may read it are the same.
//
// Deriving a key from a passphrase takes the time and memory that its file asks for, by
// default 64 MiB and a fraction of a second, and does not stop when ctx ends. It is not
// approved by FIPS 140-3, and refused where that is enforced (GODEBUG=fips140=only).
//
// An error is [keyset.ErrConfig] and names the file, or a [*keyset.KeyError].
func Open(ctx context.Context, uris ...string) (*Service, error) {
	s := &Service{}
	for _, uri := range uris {
		l, err := parseURI(uri)
		if err != nil {
			return nil, err
		}
		k, err := l.load(ctx)
		if err != nil {
			return nil, err
		}
		s.add(k)
	}
	if len(s.keys) == 0 {
		return nil, configError("no key: write %s/path/to/file", prefix)
	}
	return s, nil
}

// Opener returns what opens URIs of the scheme localkek.
func Opener() keyset.Opener { return keyset.NewOpener(Open, scheme) }

// A location is where a key comes from.
type location struct {
	path           string // of the key file
	passphraseFile string // "" if the key file needs none, as far as is known
	groupMayRead   bool
}

// String returns the path, and that of the passphrase if there is one.
func (l *location) String() string {
	if l.passphraseFile == "" {
		return l.path
	}
	return l.path + " with the passphrase in " + l.passphraseFile
}

func (l *location) uri() string { return (&url.URL{Scheme: scheme, Path: l.path}).String() }

// recover says what to do where a key file is lost or damaged, and how to get another one
// if there is no copy.
func (l *location) recover(anew string) string {
	return "put its copy back, for no other key opens what it has wrapped; only for a first set-up, or if no copy is left, " + anew +
		": keytool kek new " + quoted(l.path) + "; what it alone has wrapped is lost then, and a keyset has to begin anew, without its tokens in flight: keytool init --replace"
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted writes a word as shells of the Bourne kind take it: what is to be typed is pasted.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// damaged returns the error for a key file whose content is none.
func (l *location) damaged(format string, args ...any) error {
	args = append(args, l.recover("move it away and make a new one"))
	return configError("%w: "+format+": %s", append([]any{keyset.Corrupt}, args...)...)
}

func parseURI(uri string) (*location, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != scheme || !strings.Contains(uri, ":///") || u.User != nil || u.Host != "" || u.Fragment != "" || !filepath.IsAbs(u.Path) {
		return nil, configError("a key file is named by a URI with three slashes and an absolute path, %s/path/to/file", prefix)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, configError("%s: the query is malformed", u.Path)
	}
	l := &location{path: u.Path}
	for name, values := range query {
		value := strings.Join(values, "&")
		switch {
		case name == "passphrase-file" && len(values) == 1 && filepath.IsAbs(value):
			l.passphraseFile = value
		case name == "allow-group-read" && (value == "true" || value == "false"):
			l.groupMayRead = value == "true"
		default:
			return nil, configError("%s: the parameter %.100q is unknown, there twice or has no such value; the parameters are allow-group-read=true and passphrase-file=/path", u.Path, name)
		}
	}
	return l, nil
}

// load reads the key.
func (l *location) load(ctx context.Context) (*key, error) {
	if err := checkTime(ctx, opOpen, l.uri()); err != nil {
		return nil, err
	}
	content, err := l.read(l.path, maxKeyFile, l.recover("make a new one"))
	if err != nil {
		return nil, err
	}
	defer clear(content)
	from := *l
	kek := content
	if isParameters(content) {
		if from.passphraseFile == "" {
			from.passphraseFile = os.Getenv(passphraseVariable)
		}
		if kek, err = from.derive(content); err != nil {
			return nil, err
		}
		defer clear(kek)
	} else if err := l.checkKey(content); err != nil {
		return nil, err
	} else {
		from.passphraseFile = ""
	}
	k, err := newKey(kek)
	if err != nil {
		return nil, err
	}
	k.from = &from
	return k, nil
}
