package echoseal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/echoseal/echoseal"

// allowed says which packages of ours a package may import, beside those of
// internal/… for packages of the root module. "*" stands for all.
var allowed = map[string][]string{
	".":                {},
	"codec":            {},
	"codec/codectest":  {"codec"},
	"codec/local":      {"codec"},
	"binding":          {"codec"},
	"middleware/gosdk": {"binding", "codec", "codec/local"},
	"examples":         {"*"},
	"integration":      {"*"},
	"internal":         {},
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
			target, ours := strings.CutPrefix(imported, modulePath)
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
			case test && owner(modules, dir) == owner(modules, target):
				// Tests may use all of their own module.
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

// The core pulls in nothing, not even for its tests.
func TestRootModuleRequiresNothing(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mod), "require") {
		t.Errorf("go.mod has a require:\n%s", mod)
	}
	if _, err := os.Stat("go.sum"); err == nil {
		t.Error("there is a go.sum")
	}
}

// A replace in go.mod would forbid go install module@version, and a toolchain line
// would force one on whoever imports the module.
func TestModulesHangTogether(t *testing.T) {
	work, err := os.ReadFile("go.work")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range moduleDirs(t) {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(mod)) {
			fields := strings.Fields(line)
			switch {
			case len(fields) == 0:
			case fields[0] == "replace" || fields[0] == "toolchain" || fields[0] == "exclude":
				t.Errorf("%s/go.mod: %s", dir, line)
			case fields[0] == "go" && fields[1] != "1.26.0":
				t.Errorf("%s/go.mod: %s", dir, line)
			}
		}
		if !strings.Contains(string(work), "\t"+path.Join(".", dir)+"\n") && !strings.Contains(string(work), "\t./"+dir+"\n") {
			t.Errorf("go.work does not use %s", dir)
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
