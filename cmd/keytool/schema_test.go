package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const schemaBase = "https://github.com/echoseal/echoseal/cmd/keytool/schema/"

// schemaFolder is absolute, since scripts change the working directory.
var schemaFolder = sync.OnceValue(func() string {
	if folder := os.Getenv("TEST_SCHEMAS"); folder != "" {
		return folder
	}
	folder, err := filepath.Abs("schema")
	if err != nil {
		panic(err)
	}
	return folder
})

// schemaOf returns the schema for what a command prints.
func schemaOf(args []string) string {
	words := strings.Join(args, " ")
	if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		return "help"
	}
	for _, arg := range args {
		switch arg {
		case "init", "abort", "rollback", "rewrap", "export", "confirm", "peer":
			return "change"
		case "fleet":
			if strings.Contains(words, "forget") {
				return "change"
			}
			return arg
		case "status", "rotate", "revoke", "policy", "inspect", "doctor", "validate", "kek", "version", "help", "completion":
			return arg
		}
	}
	return "help"
}

// checkDocument reports whether text is exactly one JSON document, and the one that is
// published for a command line.
func checkDocument(args []string, text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var document any
	if err := d.Decode(&document); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one document")
	}
	s, err := compile(schemaOf(args))
	if err != nil {
		return err
	}
	return s.Validate(document)
}

// compile returns a schema, as it is published but that nothing else may be in an object
// than what it describes.
func compile(name string) (*jsonschema.Schema, error) {
	files, err := filepath.Glob(filepath.Join(schemaFolder(), "*.json"))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		forbidOthers(schema)
		if err := c.AddResource(schemaBase+filepath.Base(file), schema); err != nil {
			return nil, err
		}
	}
	return c.Compile(schemaBase + name + ".json")
}

func forbidOthers(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["properties"]; ok {
			v["additionalProperties"] = false
		}
		for _, member := range v {
			forbidOthers(member)
		}
	case []any:
		for _, element := range v {
			forbidOthers(element)
		}
	}
}

// Each published schema is one, and has the id that it is published under.
func TestSchemas(t *testing.T) {
	files, err := filepath.Glob("schema/*.json")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d schemas: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if _, err := compile(name); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var schema struct {
			ID string `json:"$id"`
		}
		if err := json.Unmarshal(text, &schema); err != nil || schema.ID != schemaBase+name+".json" {
			t.Errorf("%s has the id %q: %v", file, schema.ID, err)
		}
	}
}
