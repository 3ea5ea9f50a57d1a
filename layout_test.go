package echoseal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed says which packages of ours a package may import, beside those of
// internal/… for packages of the root module. "*" stands for all.
var allowed = map[string][]string{
	".":                 {},
	"codec":             {},
	"codec/codectest":   {"codec"},
	"codec/local":       {"codec"},
	"binding":           {"codec"},
	"keyset":            {"codec/local"},
	"keyset/keysettest": {"keyset"},
	"fleet":             {},
	"rotation":          {"keyset", "fleet"},
	"fleet/fleettest":   {"fleet"},
	"keyset/etcdstore":  {"keyset", "fleet"},
	"keyring":           {"keyset", "fleet", "codec", "codec/local"},
	"codec/localkek":    {"keyset"},
	"codec/awskms":      {"keyset"},
	"codec/gcpkms":      {"keyset"},
	"codec/vault":       {"keyset"},
	"middleware/gosdk":  {"binding", "codec", "codec/local"},
	"middleware/mcpgo":  {"binding", "codec", "codec/local"},
	"bench":             {"*"},
	"cmd/keytool":       {"*"},
	"examples":          {"*"},
	"integration":       {"*"},
	"internal/memfleet": {"fleet"},
	"internal/memkek":   {"keyset"},
	"internal/memstore": {"keyset"},
	"internal":          {},
}

// Imports point one way: whoever reads a package need not know those above it.
func TestImportsPointOneWay(t *testing.T) {
	modules := moduleDirs(t)
	seen := make(map[string]bool)
	walkGo(t, func(file string) {
		dir := filepath.ToSlash(filepath.Dir(file))
		rule, may := ruleFor(dir)
		if rule == "" {
			t.Errorf("%s: no rule says what this package may import", dir)
			return
		}
		seen[rule] = true
		for _, imported := range imports(t, file) {
			target, ours := strings.CutPrefix(imported, core)
			target = strings.TrimPrefix(target, "/")
			if !ours || target == dir {
				continue
			}
			test := strings.HasSuffix(file, "_test.go")
			switch {
			case strings.HasPrefix(target, "internal/"):
				if owner(modules, dir) != "." {
					t.Errorf("%s: only the root module may import %s: to others it breaks when versions drift", file, target)
				}
			case test && (owner(modules, target) == "." || owner(modules, target) == owner(modules, dir)):
				// Tests may use all of the core and of their own module.
			case !slices.Contains(may, target) && !slices.Contains(may, "*"):
				t.Errorf("%s: package %s may not import %s", file, dir, target)
			}
		}
	})
	for rule := range allowed {
		if !seen[rule] {
			t.Errorf("there is no package %s any more", rule)
		}
	}
}

func ruleFor(dir string) (rule string, may []string) {
	for rule = dir; ; rule = path.Dir(rule) {
		if may, ok := allowed[rule]; ok && (rule == dir || rule != ".") {
			return rule, may
		}
		if rule == "." {
			return "", nil
		}
	}
}

func walkGo(t *testing.T, visit func(file string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules"):
			return fs.SkipDir
		case strings.HasSuffix(name, ".go"):
			visit(file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func imports(t *testing.T, file string) (all []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range parsed.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, name)
	}
	return all
}

func moduleDirs(t *testing.T) (dirs []string) {
	t.Helper()
	walkErr := filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.Name() == "go.mod":
			dirs = append(dirs, filepath.ToSlash(filepath.Dir(file)))
		}
		return nil
	})
	if walkErr != nil {
		t.Fatal(walkErr)
	}
	return dirs
}

// owner returns the folder of the module that a folder belongs to.
func owner(modules []string, dir string) string {
	for ; dir != "."; dir = path.Dir(dir) {
		if slices.Contains(modules, dir) {
			return dir
		}
	}
	return "."
}
