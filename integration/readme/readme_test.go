// Package readme checks that what the README shows is so: its Go compiles, the quickstart
// prints what is shown, and every link leads somewhere. What keytool prints there is
// checked with the runbook, by the tests of keytool.
package readme

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks returns the blocks of a language, "" for none.
func blocks(text, language string) (all []string) {
	var block []string
	in := ""
	for line := range strings.Lines(text) {
		fence, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "```")
		switch {
		case ok && in == "":
			in, block = "```"+fence, nil
		case ok:
			if in == "```"+language {
				all = append(all, strings.Join(block, ""))
			}
			in = ""
		case in != "":
			block = append(block, line)
		}
	}
	return all
}

// A frame is a file around the Go of a block that is not a whole program: it has what the
// text around it speaks of.
const frame = `package readme

import (
	"context"
	"log"
	"net/http"

	"github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/echoseal/echoseal/binding"
	"github.com/echoseal/echoseal/codec/awskms"
	"github.com/echoseal/echoseal/codec/local"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/middleware/gosdk"
	"github.com/echoseal/echoseal/middleware/mcpgo"
)

func block%d(ctx context.Context, %s secret []byte, wrapped []keyset.WrappedKey, services keyset.Services, policy *binding.Policy, userFrom func(context.Context) string) {
	{
%s
	}
}
`

var (
	anImport = regexp.MustCompile(`(?s)^import \(\n.*?\n\)\n`)
	unused   = regexp.MustCompile(`declared and not used|imported and not used|imported as .* and not used`)
)

// goBlocks returns the blocks of Go that are whole programs, and those that are parts.
func goBlocks(text string) (programs, parts []string) {
	for _, block := range blocks(text, "go") {
		if strings.HasPrefix(block, "package main\n") {
			programs = append(programs, block)
		} else {
			parts = append(parts, block)
		}
	}
	return programs, parts
}

// overlay returns the name of a file that tells the compiler to find each text at its path,
// where none is.
func overlay(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files := make(map[string]string)
	for path, text := range texts {
		at, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		files[at] = filepath.Join(dir, strings.ReplaceAll(path, "/", "-")) // the compiler tells errors by this name
		if err := os.WriteFile(files[at], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace, err := json.Marshal(map[string]any{"Replace": files})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A whole program is compiled as it is shown: nothing is missing, and nothing is unused.
func TestProgramsCompile(t *testing.T) {
	programs, _ := goBlocks(readme(t))
	if len(programs) == 0 {
		t.Fatal("the README shows no whole server")
	}
	for n, program := range programs {
		path := fmt.Sprintf("program%d/main.go", n+1)
		name := overlay(t, map[string]string{path: program})
		out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", name, "-o", os.DevNull, "./"+filepath.Dir(path)).CombinedOutput()
		if err != nil {
			t.Errorf("program %d: %v\n%s", n+1, err, out)
		}
	}
}

func TestPartsCompile(t *testing.T) {
	_, parts := goBlocks(readme(t))
	if len(parts) < 5 {
		t.Fatalf("the README has %d blocks of Go", len(parts))
	}
	files := make(map[string]string) // by where the compiler is to find them
	for n, block := range parts {
		block = anImport.ReplaceAllStringFunc(block, func(imports string) string {
			for line := range strings.Lines(imports) {
				if path := strings.TrimSpace(line); strings.HasPrefix(path, `"`) && !strings.Contains(frame, path) {
					t.Errorf("block %d imports %s, which the test does not know", n+1, path)
				}
			}
			return ""
		})
		given := "server *mcp.Server,"
		if strings.Contains(block, "server.New") { // there it is the package
			given = ""
		}
		files[fmt.Sprintf("block%d.go", n+1)] = fmt.Sprintf(frame, n+1, given, block)
	}
	// -e has all errors told. That a block leaves something unused is no fault of it; but
	// each leaves an import, so the compiler must have come to every one of them.
	out, _ := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay(t, files), "-gcflags=-e", ".").CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "#") && !unused.MatchString(line) {
			t.Error(strings.TrimSpace(line))
		}
	}
	for n := range parts {
		if !strings.Contains(string(out), fmt.Sprintf("block%d.go", n+1)) {
			t.Errorf("block %d was not compiled:\n%s", n+1, out)
		}
	}
}

// volatile is what is another thing in each run: tokens, ids and lengths.
var volatile = regexp.MustCompile(`v1\.[\w-]+…|\b[0-9a-f]{8}\b|[0-9]+ characters`)

func TestQuickstartPrintsThis(t *testing.T) {
	_, rest, _ := strings.Cut(readme(t), "    go run ./examples/quickstart\n")
	shown := blocks(rest, "")
	if len(shown) == 0 {
		t.Fatal("the README shows nothing of the quickstart")
	}
	quickstart := exec.CommandContext(t.Context(), "go", "run", "./examples/quickstart")
	quickstart.Dir = root
	out, err := quickstart.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	printed := volatile.ReplaceAllString(string(out), "…")
	for line := range strings.Lines(volatile.ReplaceAllString(shown[0], "…")) {
		if !slices.Contains(strings.Split(printed, "\n"), strings.TrimSuffix(line, "\n")) {
			t.Errorf("it does not print: %s", line)
		}
	}
}

var (
	aLink    = regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`)
	aHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped  = regexp.MustCompile(`[^\w\- ]`)
)

func TestLinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "SECURITY.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range aLink.FindAllStringSubmatch(string(text), -1) {
			links++
			target := page
			if link[1] != "" {
				target = filepath.Join(filepath.Dir(page), filepath.FromSlash(link[1]))
			}
			if err := leads(target, link[2]); err != nil {
				t.Errorf("%s: %s: %v", page, link[0], err)
			}
		}
	}
	if links < 30 {
		t.Errorf("there are %d links", links)
	}
}

// leads reports whether there is a file, and in it a heading with that anchor.
func leads(file, anchor string) error {
	if anchor == "" {
		_, err := os.Stat(file)
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, heading := range aHeading.FindAllStringSubmatch(string(text), -1) {
		if "#"+strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(heading[1]), ""), " ", "-") == anchor {
			return nil
		}
	}
	return fmt.Errorf("there is no heading %s", anchor)
}
