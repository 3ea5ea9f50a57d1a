package vault

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"
)

// A setting is one that the service was opened with.
type setting struct {
	name   string
	value  string // "" if it is not set, or not for people
	source string // where it comes from
	hides  string // the source with another value that it takes the place of
}

// String names the keys, then the settings and where each comes from, in one line,
// without the token.
func (s *Service) String() string {
	names := make([]string, len(s.keys))
	for i, k := range s.keys {
		names[i] = k.service()
	}
	return strings.Join(names, ", ") + ": " + strings.Join(describeSettings(s.settings), ", ")
}

// settingsOf tells how somebody's client reaches the server.
func settingsOf(c *api.Client) []setting {
	address := c.Address()
	if u, err := url.Parse(address); err == nil { // it may have a user and a password
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		address = u.String()
	}
	return []setting{
		{name: "address", value: address, source: "the client"},
		{name: "namespace", value: c.Namespace(), source: "the client"},
		{name: "token", source: "the client"},
	}
}

func describeSettings(settings []setting) []string {
	parts := make([]string, len(settings))
	for i, set := range settings {
		switch {
		case set.name == "token":
			parts[i] = "token from " + set.source
		case set.value == "":
			parts[i] = "no " + set.name
		default:
			parts[i] = fmt.Sprintf("%s %s from %s", set.name, set.value, set.source)
		}
	}
	return parts
}

// settingWarnings tells of settings in the environment that have no effect.
func settingWarnings(settings []setting) []string {
	var all []string
	for _, s := range settings {
		if s.hides != "" {
			all = append(all, fmt.Sprintf("the %s comes from %s, and %s, which says something else, is not used: unset one", s.name, s.source, s.hides))
		}
	}
	return all
}

// environments are the prefixes of variables, those that win first.
var environments = []string{"BAO_", "VAULT_"}

// choose returns a setting: what is given explicitly, else the first variable that is
// set, else a default. The names are without a prefix; with one prefix, the first wins.
func choose(name, explicit, otherwise string, variables ...string) setting {
	s := setting{name: name}
	if explicit != "" {
		s.value, s.source = explicit, "the URI"
		return s
	}
	for _, prefix := range environments {
		for _, variable := range variables {
			source := prefix + variable
			switch value := os.Getenv(source); {
			case value == "":
			case s.value == "":
				s.value, s.source = value, source
			case s.value != value && s.hides == "" && !strings.HasPrefix(s.source, prefix):
				s.hides = source
			}
		}
	}
	if s.value == "" {
		s.value, s.source = otherwise, "the default"
	}
	return s
}

// number reads a setting that is a number, for which otherwise stands if it is not set.
func (s setting) number(otherwise int) (int, error) {
	if s.value == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(s.value, 10, 16)
	if err != nil {
		return 0, configError("%s %.100q in %s is not a number of 0 to 65535", s.name, s.value, s.source)
	}
	return int(n), nil
}

// duration reads a setting that is a duration or a number of seconds.
func (s setting) duration(otherwise time.Duration) (time.Duration, error) {
	if s.value == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(s.value)
	if n, numberErr := strconv.ParseUint(s.value, 10, 31); numberErr == nil {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d <= 0 {
		return 0, configError("%s %.100q in %s is neither a positive duration such as 10s nor a number of seconds", s.name, s.value, s.source)
	}
	return d, nil
}
