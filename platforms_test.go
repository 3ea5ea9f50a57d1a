package echoseal_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The root module builds where an int is half as long and where there is no flock, too.
func TestBuildsElsewhere(t *testing.T) {
	for _, platform := range []string{"linux/386", "windows/amd64", "solaris/amd64"} {
		t.Run(platform, func(t *testing.T) {
			system, architecture, _ := strings.Cut(platform, "/")
			cmd := exec.CommandContext(t.Context(), "go", "build", "./...")
			cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+architecture, "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
