package fleet_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A schema is as much of JSON Schema as report.schema.json has.
type schema struct {
	Ref        string            `json:"$ref"`
	Defs       map[string]schema `json:"$defs"`
	Type       string
	Const      any
	Required   []string
	Properties map[string]schema
	Items      *schema
	Pattern    string
	MaxLength  int
}

// The published schema and the format have the same members, all of them required, and
// what is written fits the patterns. Package integration checks it with a validator.
func TestSchema(t *testing.T) {
	text, err := os.ReadFile("report.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var root schema
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	var signed map[string]any
	if err := json.Unmarshal(sign(t, mustKey(t, 0), report(1)), &signed); err != nil {
		t.Fatal(err)
	}
	fits(t, &root, root, signed, "")
}

func fits(t *testing.T, root *schema, s schema, value any, path string) {
	t.Helper()
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		s = root.Defs[name]
	}
	switch value := value.(type) {
	case map[string]any:
		written := slices.Sorted(maps.Keys(value))
		if described := slices.Sorted(maps.Keys(s.Properties)); !slices.Equal(described, written) {
			t.Errorf("%s: the schema describes %q, Sign writes %q", path, described, written)
		}
		if required := slices.Sorted(slices.Values(s.Required)); !slices.Equal(required, written) {
			t.Errorf("%s: the schema requires %q, Sign writes %q", path, required, written)
		}
		for _, name := range written {
			fits(t, root, s.Properties[name], value[name], path+"."+name)
		}
	case []any:
		if s.Type != "array" || s.Items == nil || len(value) == 0 {
			t.Fatalf("%s: an array of %d against %q", path, len(value), s.Type)
		}
		for _, element := range value {
			fits(t, root, *s.Items, element, path+"[]")
		}
	case string:
		if pattern, err := regexp.Compile(s.Pattern); err != nil || s.Type != "string" || s.Pattern == "" || !pattern.MatchString(value) {
			t.Errorf("%s: %q against the %s %q, %v", path, value, s.Type, s.Pattern, err)
		}
	case float64:
		if s.Type != "integer" && s.Const != value {
			t.Errorf("%s: a number against %q", path, s.Type)
		}
	case bool:
		if s.Type != "boolean" {
			t.Errorf("%s: a boolean against %q", path, s.Type)
		}
	default:
		t.Errorf("%s: %T", path, value)
	}
}
