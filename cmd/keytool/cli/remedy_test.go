package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/echoseal/echoseal/fleet"
)

// Whatever keytool says is to be typed is taken as it is typed: every command in its texts
// and in those of package rotation, with something sensible for what stands in capitals,
// is run in a keyset where the policy has something to loosen.
func TestRemediesAreAccepted(t *testing.T) {
	dir := t.TempDir()
	uri := "localkek://" + filepath.Join(dir, "kek.key")
	env := map[string]string{
		"ECHOSEAL_STORE": filepath.Join(dir, "keyset.json"), "ECHOSEAL_NAME": "fleet",
		"ECHOSEAL_KEY_SERVICES": uri, "ECHOSEAL_FLEET": "http://127.0.0.1:1/report one://registry",
	}
	fleets := append(allFleets(), fleet.NewOpener(func(context.Context, string) (registryOfOne, error) { return registryOfOne{}, nil }, "one"))
	run := func(args ...string) (Exit, string) {
		var out bytes.Buffer
		s := System{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Getenv: func(name string) string { return env[name] }, Fleets: fleets}
		code := Run(context.Background(), s, args...)
		return Exit(code), out.String()
	}
	for _, args := range []string{"kek new " + filepath.Join(dir, "kek.key"), "init --min-instances 3", "export --peer python-a --ttl 10m --out " + filepath.Join(dir, "a.json")} {
		if code, out := run(strings.Fields(args)...); code != 0 {
			t.Fatalf("%s: %d %s", args, code, out)
		}
	}
	doc := keysetIn(t, env["ECHOSEAL_STORE"])
	commands := make(map[string][]string) // what is run, by what is printed
	for _, file := range append(sources(t, "*.go"), sources(t, filepath.Join("..", "..", "..", "rotation", "text.go"))...) {
		for _, text := range literals(t, file) {
			maps.Copy(commands, typed(t, text, filepath.Join(dir, strconv.Itoa(len(commands))), uri))
		}
	}
	if len(commands) < 20 {
		t.Fatalf("only %d commands: %q", len(commands), slices.Collect(maps.Keys(commands)))
	}
	for printed, args := range commands {
		for i, arg := range args {
			if arg == exampleKID { // a key that is there
				args[i] = doc.Primary().KID
			}
		}
		if code, out := run(args...); code == usage {
			t.Errorf("%s\nrun as %q is not accepted: %s", printed, args, out)
		}
	}
}

const (
	exampleKID = "4c11d0e2"
	exampleID  = "5b1d7c0e9f2a4d36a1c48e07d2b95f13"
)

// A registryOfOne has an instance whose id is that of the examples, and which has written
// nothing that is a report.
type registryOfOne struct{}

func (registryOfOne) String() string { return "one://registry" }

func (registryOfOne) Collect(context.Context) ([]fleet.Answer, error) {
	return []fleet.Answer{{Address: exampleID, Registered: true}}, nil
}

func (registryOfOne) Publish(context.Context, string, []byte, time.Duration) error {
	return errors.New("nobody reports here")
}

func (registryOfOne) Forget(context.Context, string) error { return nil }

func sources(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files (%v)", pattern, err)
	}
	return slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
}

// literals returns the texts in a file, but for those that describe a command: they speak
// of others without saying that these are to be typed.
func literals(t *testing.T, file string) (all []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var look func(ast.Node) bool
	look = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Long" || key.Name == "Short") {
				return false
			}
		case *ast.BinaryExpr:
			if n.Op != token.ADD {
				return true
			}
			// What is put together is one text; what it is made of is looked at by itself.
			all = append(all, joined(t, n))
			for _, part := range parts(n) {
				if _, isText := part.(*ast.BasicLit); !isText {
					ast.Inspect(part, look)
				}
			}
			return false
		case *ast.BasicLit:
			all = append(all, joined(t, n))
		}
		return true
	}
	ast.Inspect(parsed, look)
	return all
}

// joined returns the text of an expression, with %s for what is no literal.
func joined(t *testing.T, e ast.Expr) string {
	t.Helper()
	var text strings.Builder
	for _, part := range parts(e) {
		literal, ok := part.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			text.WriteString("%s")
			continue
		}
		plain, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(plain)
	}
	return text.String()
}

// parts returns what an expression adds up.
func parts(e ast.Expr) []ast.Expr {
	if sum, ok := e.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		return append(parts(sum.X), parts(sum.Y)...)
	}
	return []ast.Expr{e}
}

var (
	aStandIn  = regexp.MustCompile(`^(%\S*|[A-Z]+…?)$`)
	anExample = regexp.MustCompile(`^[0-9a-f]{8,32}$|^python-a$`) // of a key id, the id of an instance, or the name of a peer
	endOfText = regexp.MustCompile(`: | {2,}|[;,)\n]`)
)

// typed returns the commands in a text, with what is to be run for each.
func typed(t *testing.T, text, dir, uri string) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	for _, behind := range strings.Split(text, "keytool ")[1:] {
		printed := endOfText.Split(behind, 2)[0]
		words := strings.Fields(printed)
		cmd := (&app{System: System{}.complete()}).root()
		var args []string
		for len(words) > 0 {
			below := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == words[0] })
			if below < 0 {
				break
			}
			cmd, args, words = cmd.Commands()[below], append(args, words[0]), words[1:]
		}
		if len(args) == 0 {
			continue // it speaks of keytool
		}
		args = append(args, arguments(t, cmd, words, dir, uri)...)
		for _, flag := range []string{"dry-run", "yes"} {
			if cmd.Flag(flag) != nil {
				args = append(args, "--"+flag)
			}
		}
		all["keytool "+printed] = args
	}
	return all
}

// arguments returns the flags and the arguments up to where a sentence goes on.
func arguments(t *testing.T, cmd *cobra.Command, words []string, dir, uri string) (args []string) {
	t.Helper()
	files := 0
	value := func(name, kind, word string) string {
		switch {
		case strings.Contains(word, "://"):
			return uri // no other key service can be asked here
		case strings.HasPrefix(word, "/"):
			return filepath.Join(dir, filepath.Base(word)) // the operator's folder is none of a test's
		case word != "" && !aStandIn.MatchString(word) && !strings.HasPrefix(word, `"`):
			return word
		case kind == "duration":
			return "20m"
		case kind == "int":
			return "1"
		case name == "peer":
			return "python-a"
		case name == "replace" || name == "clean":
			return exampleKID
		case name == "add" || name == "drop" || name == "key-service":
			return uri
		default:
			files++
			return filepath.Join(dir, fmt.Sprintf("new.file.%d", files))
		}
	}
	for len(words) > 0 {
		word := strings.TrimRight(words[0], ".")
		words = words[1:]
		switch name, isFlag := strings.CutPrefix(word, "--"); {
		case isFlag:
			cmd.InitDefaultHelpFlag()
			f := cmd.Flag(name)
			if f == nil {
				t.Errorf("%s has no flag %s", cmd.CommandPath(), word)
				return args
			}
			if args = append(args, word); f.NoOptDefVal == "" {
				given := ""
				if len(words) > 0 {
					given, words = words[0], words[1:]
				}
				args = append(args, value(name, f.Value.Type(), given))
			}
		case word == "-o":
			args, words = append(args, word, words[0]), words[1:]
		case cmd.CommandPath() == "keytool fleet forget" && (aStandIn.MatchString(word) || anExample.MatchString(word)):
			args = append(args, exampleID)
		case aStandIn.MatchString(word), anExample.MatchString(word), strings.Contains(word, "."):
			args = append(args, value("", "", word))
		default:
			return args
		}
	}
	return args
}
