package cli

import (
	"bytes"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/keyset"
)

// What kek new says to type names the file that it has made, and nothing else happens where
// it is pasted into a shell, whatever the file is called.
func TestKeyFileOfAnyName(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kek.key", "a b", "a;touch pwned$(touch pwned)", "100%41", "it's", "a?b#c&d", "`touch pwned`", "a'\"\\b", "lines\ntouch pwned"} {
		for _, c := range []struct{ configured, command, prints string }{
			{"", `then +(export ECHOSEAL_KEY_SERVICES=.*)   and keytool init`, `printf %s "$ECHOSEAL_KEY_SERVICES"`},
			{"localkek:///another.key", `then +keytool (rewrap --add .*)   to move`, ""},
		} {
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			var out bytes.Buffer
			env := map[string]string{"ECHOSEAL_KEY_SERVICES": c.configured}
			s := System{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Getenv: func(name string) string { return env[name] }}
			if code := Exit(Run(t.Context(), s, "kek", "new", path)); code != done {
				t.Fatalf("%q: %d %s", name, code, out.String())
			}
			found := regexp.MustCompile(c.command).FindStringSubmatch(out.String())
			if found == nil {
				t.Fatalf("%q: no command in %s", name, out.String())
			}
			script := found[1] + "\n" + c.prints
			if c.prints == "" {
				script = "rewrap() { shift; printf %s \"$1\"; }\n" + found[1]
			}
			typed := exec.CommandContext(t.Context(), shell, "-c", script)
			typed.Dir = dir
			uri, err := typed.Output()
			if err != nil {
				t.Fatalf("%q: %s: %v", name, script, err)
			}
			if len(strings.Fields(string(uri))) != 1 {
				t.Errorf("%q: %q is not one of a list of key services", name, uri)
			}
			if u, err := url.Parse(string(uri)); err != nil || u.Path != path {
				t.Errorf("%q: %q: %v", name, uri, err)
			}
			if _, err := (keyset.Openers{localkek.Opener()}).Open(t.Context(), string(uri)); err != nil {
				t.Errorf("%q: %v", name, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
				t.Errorf("%q: %s runs what the file is called", name, found[1])
			}
		}
	}
}

// A key service that is configured is no other one because its URI is escaped.
func TestKeyFileIsConfigured(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b")
	for _, uri := range []string{(&url.URL{Scheme: "localkek", Path: path}).String(), strings.Replace("localkek://"+path, " ", "%20", 1) + "?allow-group-read=true", "localkek://" + strings.ReplaceAll(url.PathEscape(path), "%2F", "/")} {
		if !isKeyFile(uri, path) || isKeyFile(uri, path+"c") || isKeyFile("awskms"+strings.TrimPrefix(uri, "localkek"), path) {
			t.Error(uri)
		}
	}
}
