package documents

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/echoseal/echoseal/fleet"
	"github.com/echoseal/echoseal/keyset"
)

type object = map[string]any

func schema(t *testing.T, path string) *jsonschema.Resolved {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

func keysetSchema(t *testing.T) *jsonschema.Resolved {
	return schema(t, "../../keyset/keyset.schema.json")
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// What is written, in every state, fits the schema.
func TestKeysetsFitTheSchema(t *testing.T) {
	s := keysetSchema(t)
	services, _ := localServices(t)
	texts := made(t, services)
	texts["golden"] = golden(t)
	for name, text := range texts {
		if err := s.Validate(decode(t, text)); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// The schema and Parse refuse the same of the golden document with one thing changed,
// except where the table says that the schema cannot tell.
func TestSchemaRefusesWhatParseRefuses(t *testing.T) {
	s := keysetSchema(t)
	table, err := os.ReadFile("../../keyset/testdata/malformed.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Path   string
		Value  any
		Schema *bool
	}
	if err := json.Unmarshal(table, &rows); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		doc := decode(t, golden(t))
		edit(doc, steps(row.Path), func(object, string) (any, bool) { return row.Value, true })
		refuses, beyond := s.Validate(doc) != nil, row.Schema != nil && !*row.Schema
		if refuses == beyond {
			t.Errorf("%s = %.60v: the schema refuses it: %v", row.Path, row.Value, refuses)
		}
		if !parseRefuses(t, doc) {
			t.Errorf("%s = %.60v: Parse does not refuse it", row.Path, row.Value)
		}
	}
	if len(rows) < 100 {
		t.Errorf("%d rows", len(rows))
	}
}

// Each member missing, of another type, or with a neighbour that nobody knows: the
// schema and Parse agree.
func TestSchemaAgreesWithParse(t *testing.T) {
	s := keysetSchema(t)
	text := golden(t)
	tried, refused := 0, 0
	try := func(at []any, what string, change func(object, string) (any, bool)) {
		t.Helper()
		doc := decode(t, text)
		edit(doc, at, change)
		err := s.Validate(doc)
		tried++
		if err != nil {
			refused++
		}
		if parse := parseRefuses(t, doc); parse != (err != nil) {
			t.Errorf("%v %s: Parse refuses it: %v, the schema: %v", at, what, parse, err)
		}
	}
	places(decode(t, text), nil, func(at []any, v any) {
		if _, named := at[len(at)-1].(string); named {
			try(at, "is missing", func(object, string) (any, bool) { return nil, false })
			try(at, "has a neighbour", func(o object, _ string) (any, bool) { o["x-new"] = 1.0; return v, true })
		}
		for _, other := range []any{nil, true, 7.0, "x", []any{}, object{}} {
			if fmt.Sprintf("%T", other) != fmt.Sprintf("%T", v) {
				try(at, fmt.Sprintf("is a %T", other), func(object, string) (any, bool) { return other, true })
			}
		}
	})
	if tried < 800 || refused < 600 || refused == tried {
		t.Errorf("%d were tried, %d refused", tried, refused)
	}
}

// Texts on both sides of each format.
func TestSchemaFormats(t *testing.T) {
	s := keysetSchema(t)
	for path, values := range map[string][]string{
		"policy.settle":              {"0s", "1ns", "999ns", "1µs", "1.001µs", "1us", "1ms", "1.000001ms", "999.999999ms", "1s", "1.000000001s", "1.5s", "1.50s", "59s", "60s", "1m0s", "1m", "01m0s", "59m59.999s", "60m0s", "1h0m0s", "1h1s", "0h1m0s", "24h0m0s", "87600h0m0s", "1d", "-1s", "+1s", "1s ", "", "0", "0ms", "1.s", ".5s", "0.5s", "1m0.5s", "1h0m0.000000001s"},
		"policy.max_skew":            {"0s", "1ns", "59s", "59.999999999s", "1m0s", "1m1s", "1m0.1s", "2m0s", "1h0m0s"},
		"ttl":                        {"999.999999ms", "1s", "1.000000001s", "10m0s", "15m0s"},
		"keys[0].created":            {"1970-01-01T00:00:00.000Z", "1969-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z", "2026-13-01T00:00:00.000Z", "2026-00-01T00:00:00.000Z", "2026-01-32T00:00:00.000Z", "2026-01-01T24:00:00.000Z", "2026-01-01T23:60:00.000Z", "2026-01-01T23:59:60.000Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.0000Z"},
		"auth.wrapped[0].ciphertext": {"", "AA==", "AB==", "AAA=", "AAB=", "AAE=", "AAAA", "AAAAA", "AAAAAA==", "AA=A", "____", "AA"},
		"auth.wrapped[0].service":    {"x", "", "\x00", "a\nb", "é", strings.Repeat("x", 2048), strings.Repeat("x", 2049)},
		"history[0].action":          {"", "x", strings.Repeat("x", 32), strings.Repeat("x", 33), "a\x7f"},
		"history[0].actor":           {"", "x", strings.Repeat("x", 200), strings.Repeat("x", 201), "a\tb"},
	} {
		for _, value := range values {
			doc := decode(t, golden(t))
			edit(doc, steps(path), func(object, string) (any, bool) { return value, true })
			if err := s.Validate(doc); parseRefuses(t, doc) != (err != nil) {
				t.Errorf("%s = %.40q: Parse refuses it: %v, the schema: %v", path, value, parseRefuses(t, doc), err)
			}
		}
	}
}

func parseRefuses(t *testing.T, doc any) bool {
	t.Helper()
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(doc); err != nil {
		t.Fatal(err)
	}
	_, err := keyset.Parse(text.Bytes())
	return err != nil
}

// steps reads a path such as keys[0].wrapped[1].service.
func steps(path string) (at []any) {
	for part := range strings.SplitSeq(path, ".") {
		name, index, indexed := strings.Cut(strings.TrimSuffix(part, "]"), "[")
		at = append(at, name)
		if indexed {
			n, err := strconv.Atoi(index)
			if err != nil {
				panic(err)
			}
			at = append(at, n)
		}
	}
	return at
}

// edit replaces what is at a place, or takes it out. change is given the object that it
// is in and its name there, if it is in one.
func edit(v any, at []any, change func(in object, name string) (value any, keep bool)) {
	for _, step := range at[:len(at)-1] {
		v = child(v, step)
	}
	switch last := at[len(at)-1].(type) {
	case string:
		in := v.(object)
		if value, keep := change(in, last); keep {
			in[last] = value
		} else {
			delete(in, last)
		}
	case int:
		v.([]any)[last], _ = change(nil, "")
	}
}

func child(v, step any) any {
	if name, ok := step.(string); ok {
		return v.(object)[name]
	}
	return v.([]any)[step.(int)]
}

// places visits every value of a document but the whole.
func places(v any, at []any, visit func(at []any, v any)) {
	if len(at) > 0 {
		visit(at, v)
	}
	switch v := v.(type) {
	case object:
		for name, member := range v {
			places(member, append(slices.Clone(at), name), visit)
		}
	case []any:
		for i, element := range v {
			places(element, append(slices.Clone(at), i), visit)
		}
	}
}

// Reports of instances fit theirs, and each member has to be there.
func TestReportsFitTheSchema(t *testing.T) {
	s := schema(t, "../../fleet/report.schema.json")
	key, err := fleet.NewKey(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	full := fleet.Report{
		ID: strings.Repeat("0a", 16), Host: "mcp-a", Started: start, Now: start.Add(time.Hour), Every: 15 * time.Second,
		Keyset: "fleet", Lineage: "b797164f-08c0-4192-98d3-ce38614a3172", Revision: 7, Tag: base64.StdEncoding.EncodeToString(make([]byte, 32)),
		Loaded: start, Primary: "4c11d0e2", Verifies: []string{"4c11d0e2"}, TTL: 10 * time.Minute, Ready: true, Reason: "77aa0b1c is missing",
		Services: []string{"localkek://66ecd93a1b9c5b32"},
		Opened:   []fleet.Opened{{KID: "4c11d0e2", Service: "localkek://66ecd93a1b9c5b32"}, {KID: fleet.AuthKey, Service: "gcpkms://k", Version: "3"}},
		Failed:   []fleet.Failure{{KID: "77aa0b1c", Service: "gcpkms://k", Kind: "denied", Operation: "decrypt"}},
		Keys:     []fleet.KeyUse{{KID: "4c11d0e2", Seals: 1<<53 - 1, Since: start, LiveUntil: start.Add(time.Hour)}},
		Software: "0.1.0",
	}
	empty := full
	empty.Loaded, empty.Primary, empty.Verifies, empty.Ready, empty.Reason = time.Time{}, "", nil, false, fleet.Starting
	empty.Services, empty.Opened, empty.Failed, empty.Keys = nil, nil, nil, nil
	for name, r := range map[string]fleet.Report{"full": full, "empty": empty} {
		text, err := key.Sign(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(decode(t, text)); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		places(decode(t, text), nil, func(at []any, _ any) {
			if _, named := at[len(at)-1].(string); !named {
				return
			}
			doc := decode(t, text)
			edit(doc, at, func(object, string) (any, bool) { return nil, false })
			if s.Validate(doc) == nil {
				t.Errorf("%s: without %v it fits", name, at)
			}
		})
	}
}
