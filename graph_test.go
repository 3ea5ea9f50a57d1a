package echoseal_test

import (
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// What a program gets into its build by importing one package is told by go list, for
// the workspace as it is.

const core = "github.com/echoseal/echoseal"

// vendors are the prefixes of the modules that only one key service may need.
var vendors = map[string][]string{
	"codec/awskms":   {"github.com/aws/"},
	"codec/gcpkms":   {"cloud.google.com/", "google.golang.org/", "github.com/googleapis/"},
	"codec/localkek": {},
	"codec/vault":    {"github.com/hashicorp/", "github.com/openbao/"},
}

// Whoever imports one key service gets that of no other vendor.
func TestKeyServicesStandAlone(t *testing.T) {
	entries, err := os.ReadDir("codec")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		dir := path.Join("codec", entry.Name())
		if _, err := os.Stat(path.Join(dir, "go.mod")); err != nil {
			continue // not a module of its own
		}
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
				for other, prefixes := range vendors {
					for _, prefix := range prefixes {
						if other != dir && strings.HasPrefix(module, prefix) {
							t.Errorf("it pulls in %s, which %s is for", module, other)
						}
					}
				}
			}
		})
	}
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
