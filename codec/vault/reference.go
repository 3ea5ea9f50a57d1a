package vault

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/echoseal/echoseal/keyset"
)

// schemes are the URI schemes of this package. What is stored has the first one.
var schemes = []string{"hashivault", "openbao"}

const defaultMount = "transit"

// A reference names a Transit key: what is between scheme:// and the parameters that
// say how it is reached.
type reference struct{ name, mount string }

// service returns the stored name of the key.
func (r reference) service() string { return schemes[0] + "://" + r.name + "?mount=" + r.mount }

// path returns the path of an endpoint of the key's mount.
func (r reference) path(endpoint string) string { return r.mount + "/" + endpoint + "/" + r.name }

var (
	// What Transit accepts as the name of a key.
	validName = regexp.MustCompile(`^[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)

	// A mount is a path; its parts stand in a URL as they are.
	validMount = regexp.MustCompile(`^[A-Za-z0-9_~-][A-Za-z0-9_.~-]*(?:/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)*$`)
)

// parseReference reads KEY?mount=M&…, and returns the other parameters.
func parseReference(text string) (reference, url.Values, error) {
	name, rawQuery, _ := strings.Cut(text, "?")
	if !validName.MatchString(name) {
		return reference{}, nil, configError("a key is not named as it should be: write KEY?mount=M, where KEY is a Transit key's name of letters, digits, '_', '-' and '.'")
	}
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return reference{}, nil, configError("key %s: the query is malformed", name)
	}
	for parameter, values := range query {
		if len(values) != 1 || values[0] == "" {
			return reference{}, nil, configError("key %s: the parameter %.100q is empty or there twice", name, parameter)
		}
	}
	r := reference{name: name, mount: defaultMount}
	if query.Has("mount") {
		r.mount = strings.Trim(query.Get("mount"), "/")
		query.Del("mount")
	}
	if !validMount.MatchString(r.mount) {
		return reference{}, nil, configError("key %s: the mount %.100q is no path of letters, digits, '_', '-', '.', '~' and '/'", name, r.mount)
	}
	return r, query, nil
}

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: vault: %s", keyset.ErrConfig, fmt.Sprintf(format, args...))
}
