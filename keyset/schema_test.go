package keyset_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/internal/strict"
)

// A schema is as much of keyset.schema.json as tells which members there are.
type schema struct {
	Ref        string            `json:"$ref"`
	Defs       map[string]schema `json:"$defs"`
	Properties map[string]schema
	Required   []string
	Items      *schema
}

// The published schema has the members that are written, and no others; those that it
// requires are those that Parse requires. Package integration checks documents with a
// validator.
func TestSchemaHasEveryMember(t *testing.T) {
	text, err := os.ReadFile("keyset.schema.json")
	must(t, err)
	var root schema
	must(t, json.Unmarshal(text, &root))
	described, required := make(map[string]bool), make(map[string]bool)
	root.walk(&root, "", described, required)

	// The golden document has every member that there is, but for one.
	written := map[string]bool{"auth.wrapped.version": true}
	allPlaces(t, func(p place, _ strict.Value) {
		if _, ok := p[len(p)-1].(string); ok {
			written[p.names()] = true
		}
	})
	if got, want := slices.Sorted(maps.Keys(described)), slices.Sorted(maps.Keys(written)); !slices.Equal(got, want) {
		t.Errorf("the schema describes\n%q\nand what is written has\n%q", got, want)
	}
	for path := range written {
		// What a key needs depends on its state.
		if name, ok := strings.CutPrefix(path, "keys."); ok && !strings.Contains(name, ".") {
			if required[path] != slices.Contains([]string{"id", "kid", "state"}, name) {
				t.Errorf("%s: required is %v", path, required[path])
			}
			continue
		}
		if required[path] == slices.Contains(optional, path) {
			t.Errorf("%s: the schema says that required is %v", path, required[path])
		}
	}
}

func (s schema) walk(root *schema, path string, described, required map[string]bool) {
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		s = root.Defs[name]
	}
	if s.Items != nil {
		s.Items.walk(root, path, described, required)
	}
	for name, member := range s.Properties {
		at := strings.TrimPrefix(path+"."+name, ".")
		described[at] = true
		required[at] = slices.Contains(s.Required, name)
		if at == "keys.wrapped" {
			member = root.Defs["wrapped"] // whether it may be empty depends on the state
		}
		member.walk(root, at, described, required)
	}
}
