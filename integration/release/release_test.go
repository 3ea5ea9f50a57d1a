// Package release tests what the users of a release rely on, whatever the workspace
// hides.
package release

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const core = "github.com/echoseal/echoseal"

// A module is what go mod edit -json tells of a go.mod.
type module struct {
	Module    struct{ Path string }
	Go        string
	Toolchain string
	Require   []struct{ Path, Version string }
	Replace   []struct{ Old, New struct{ Path string } }
}

func TestRootRequiresNothing(t *testing.T) {
	root := filepath.Join("..", "..")
	if m := parse(t, filepath.Join(root, "go.mod")); m.Module.Path != core || len(m.Require) != 0 {
		t.Errorf("the root module is %q and requires %v", m.Module.Path, m.Require)
	}
	graph := run(t, root, "mod", "graph")
	for line := range strings.Lines(graph) {
		// The go command counts itself and its language version among the modules.
		if need := strings.Fields(line)[1]; !strings.HasPrefix(need, "go@") && !strings.HasPrefix(need, "toolchain@") {
			t.Errorf("the root module needs %s", need)
		}
	}
	packages := run(t, root, "list", "-deps", "-test", "-f", "{{if not .Standard}}{{with .Module}}{{.Path}}{{end}}{{end}}", "./...")
	for _, path := range strings.Fields(packages) {
		if path != core {
			t.Errorf("the root module or one of its tests imports a package of %s", path)
		}
	}
}

func TestModules(t *testing.T) {
	modules := strings.Fields(list(t))
	if len(modules) < 2 {
		t.Fatalf("the workspace has the modules %q", modules)
	}
	for _, dir := range modules {
		m := parse(t, filepath.Join(dir, "go.mod"))
		t.Run(m.Module.Path, func(t *testing.T) {
			if len(m.Replace) > 0 {
				t.Error("has a replace, with which go install module@version refuses it; put it in go.work")
			}
			if m.Toolchain != "" || m.Go != "1.26.0" {
				t.Errorf("asks for go %s and toolchain %q, not just for go 1.26.0", m.Go, m.Toolchain)
			}
			for _, r := range m.Require {
				if strings.HasPrefix(r.Path+"/", core+"/") && r.Version != "v0.1.0" {
					t.Errorf("requires its sibling %s at %s, not at the version of all", r.Path, r.Version)
				}
			}
			sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if slices.ContainsFunc(strings.Split(string(sums), "\n"), func(line string) bool { return strings.HasPrefix(line, core) }) {
				t.Error("go.sum holds the hash of a sibling, which changes with its next edit")
			}
		})
	}
}

func parse(t *testing.T, path string) (m module) {
	t.Helper()
	if err := json.Unmarshal([]byte(run(t, ".", "mod", "edit", "-json", path)), &m); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return m
}

// list returns the directories of the workspace's modules.
func list(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// run runs the go command outside of the workspace, as a user of the module would.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, log.String())
	}
	return string(out)
}
