package vault

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
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
	mount, query, err := parseQuery("key "+name, rawQuery, defaultMount)
	return reference{name: name, mount: mount}, query, err
}

// parseQuery reads mount=M&…, and returns the other parameters. what is named in errors.
func parseQuery(what, rawQuery, mount string) (string, url.Values, error) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return "", nil, configError("%s: the query is malformed", what)
	}
	for parameter, values := range query {
		if len(values) != 1 || values[0] == "" {
			return "", nil, configError("%s: the parameter %.100q is empty or there twice", what, parameter)
		}
	}
	if query.Has("mount") {
		mount = strings.Trim(query.Get("mount"), "/")
		query.Del("mount")
	}
	if !validMount.MatchString(mount) {
		return "", nil, configError("%s: the mount %.100q is no path of letters, digits, '_', '-', '.', '~' and '/'", what, mount)
	}
	return mount, query, nil
}

// checkParameters refuses what is no parameter of a URI.
func checkParameters(what string, query url.Values) error {
	for name := range query {
		if !slices.Contains(parameters, name) {
			return configError("%s: the parameter %.100q is unknown; there are mount, %s, and a token never stands in a URI", what, name, strings.Join(parameters, ", "))
		}
	}
	return nil
}

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: vault: %s", keyset.ErrConfig, fmt.Sprintf(format, args...))
}
