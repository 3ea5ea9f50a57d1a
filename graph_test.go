package echoseal_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a program gets into its build by importing one package is told by go list, for
// the workspace as it is.

const core = "github.com/echoseal/echoseal"

// vendors are the prefixes of the modules that only one key service or store may need.
// What stands with several is for all of these.
var vendors = map[string][]string{
	"codec/awskms":     {"github.com/aws/"},
	"codec/gcpkms":     {"cloud.google.com/", "google.golang.org/", "github.com/googleapis/"},
	"codec/localkek":   {},
	"codec/vault":      {"github.com/hashicorp/", "github.com/openbao/"},
	"keyset/etcdstore": {"go.etcd.io/", "github.com/coreos/", "google.golang.org/"},
}

// Whoever imports one key service or store gets that of no other vendor.
func TestVendorsStandAlone(t *testing.T) {
	var dirs []string
	for _, pattern := range []string{"codec/*/go.mod", "keyset/*/go.mod"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			dirs = append(dirs, filepath.ToSlash(filepath.Dir(file)))
		}
	}
	if len(dirs) < len(vendors) {
		t.Errorf("there are only the modules %q", dirs)
	}
	for _, dir := range dirs {
		t.Run(dir, func(t *testing.T) {
			if _, ok := vendors[dir]; !ok {
				t.Fatal("whose modules it may need is not said in vendors")
			}
			modules := modulesOf(t, "./"+dir)
			if !slices.Contains(modules, core+"/"+dir) {
				t.Errorf("go list tells of %q", modules)
			}
			for _, module := range modules {
				if strings.HasPrefix(module, core) && module != core && module != core+"/"+dir {
					t.Errorf("it pulls in %s", module)
				}
				for other := range vendors {
					if isFor(other, module) && !isFor(dir, module) {
						t.Errorf("it pulls in %s, which %s is for", module, other)
					}
				}
			}
		})
	}
}

func isFor(dir, module string) bool {
	return slices.ContainsFunc(vendors[dir], func(prefix string) bool { return strings.HasPrefix(module, prefix) })
}

// modulesOf returns the modules of all packages that the given ones depend on.
func modulesOf(t *testing.T, args ...string) []string {
	t.Helper()
	modules := list(t, append([]string{"-deps", "-f", "{{with .Module}}{{.Path}}{{end}}"}, args...)...)
	slices.Sort(modules)
	return slices.Compact(modules)
}

func list(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Env = append(os.Environ(), "GOFLAGS=")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.Fields(string(out))
}
