package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A token, or a secret, in any place of a command line is repeated nowhere.
func TestNothingMistypedIsShown(t *testing.T) {
	const canary = "CANARYcanary0123"
	dir := t.TempDir()
	settings := map[string]string{
		"ECHOSEAL_STORE": filepath.Join(dir, "keyset.json"), "ECHOSEAL_NAME": "fleet", "ECHOSEAL_KEY_SERVICES": "localkek://" + filepath.Join(dir, "kek.key"),
	}
	run := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := Run(context.Background(), System{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out,
			Getenv: func(name string) string { return settings[name] },
		}, args...)
		return code, out.String()
	}
	for _, args := range [][]string{{"kek", "new", filepath.Join(dir, "kek.key")}, {"init"}} {
		if code, out := run(args...); code != 0 {
			t.Fatal(out)
		}
	}
	token, cut := "v1."+strings.Repeat(canary, 4), "v1."+canary
	secret := strings.Repeat(canary, 3)
	check := func(args ...string) {
		t.Helper()
		for _, format := range []string{outputText, outputJSON} {
			line := append(slices.Clone(args), "-o", format)
			code, out := run(line...)
			if strings.Contains(out, canary) {
				t.Errorf("keytool %q shows it: %s", line, out)
			}
			if code != int(usage) && code != int(failed) {
				t.Errorf("keytool %q exits %d: %s", line, code, out)
			}
		}
	}
	each(t, func(command []string, cmd *cobra.Command) {
		for _, what := range []string{token, cut} {
			check(append(command, what)...)
			check(append(command, "--"+what)...)
			check(append(command, "--"+what+"=x")...)
			check(append(command, "-"+what)...)
			check(append(command, "one", what)...)
		}
		check(append(command, "one", "two", secret)...)
		check(append(command, "--"+secret)...)
		if cmd.Name() != "new" && cmd.Name() != "inspect" && cmd.Name() != "validate" { // which take the name of a file
			check(append(command, secret)...)
		}
		for _, f := range flagsOf(cmd) {
			for _, what := range []string{token, cut} {
				if f.Name == "help" || f.Value.Type() == "bool" {
					check(append(command, "--"+f.Name+"="+what)...)
					continue
				}
				check(append(command, "--"+f.Name, what)...)
				check(append(command, "--"+f.Name+"="+what)...)
			}
			if kind := f.Value.Type(); kind == "duration" || kind == "int" || f.Name == "replace" || f.Name == "clean" || f.Name == "proof" {
				check(append(command, "--"+f.Name, secret)...)
			}
		}
	})
	if code, out := run("status", "-o", secret); code != int(usage) || strings.Contains(out, canary) {
		t.Errorf("it exits %d: %s", code, out)
	}
	check("-o" + token)
	check("status", "-o"+token)
	check("status", "--name", secret)
	check("status", `{"requestState":"`+canary+`"}`)
	check("help", secret)
	check("help", "status", secret)
	for _, file := range []string{"--secret-file", "--principal-file"} {
		for _, what := range []string{secret, canary, canary + "/" + canary, strings.Repeat(secret, 10), `["` + canary + `"]`} {
			check("inspect", file, what, settings["ECHOSEAL_STORE"])
		}
	}
	check("init", "--store", filepath.Join(dir, "other.json"), "--secret-file", secret)
}

// What has a credential inside, or may be a principal, is not repeated either, however short.
func TestNoCredentialIsShown(t *testing.T) {
	const canary = "CANARYcanary"
	for _, what := range []string{
		"etcd://ops:" + canary + "@h/k", "hashivault://k?t=" + canary, canary + "@example.com", "password=" + canary, "s." + canary + "0123456789",
		"Bearer v1." + canary, "'v1." + canary + "'", "requestState=v1." + canary,
	} {
		for _, args := range [][]string{{what}, {"status", what}, {"help", what}, {"completion", what}, {"rotate", "--replace", what}, {"revoke", what, "--reason", "x"}, {"policy", "--ttl", what}, {"-o", what}, {"inspect", what}} {
			for _, format := range []string{outputText, outputJSON} {
				var out bytes.Buffer
				s := System{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Getenv: func(string) string { return "" }}
				code := Run(context.Background(), s, append(slices.Clone(args), "-v", "-o", format)...)
				if code != int(usage) && code != int(failed) || strings.Contains(out.String(), canary) {
					t.Errorf("keytool %q exits %d and says %s", args, code, &out)
				}
			}
		}
	}
}

// A word that is near the name of something that changes a keyset, or goes over a safety,
// is not answered with it, unless it is that name with a slip of a finger.
func TestNothingCostlyIsSuggested(t *testing.T) {
	s := func(out *bytes.Buffer) System {
		return System{Stdin: strings.NewReader(""), Stdout: out, Stderr: out, Getenv: func(string) string { return "" }}
	}
	for typed, want := range map[string]string{
		"remove": "", "invoke": "", "about": "", "report": "", "import": "", "info": "", "edit": "", "exit": "", "lint": "", "wrap": "", "police": "policy",
		"rvoke": "revoke", "revole": "revoke", "REVOKE": "revoke", "revokee": "revoke", "ervoke": "revoke", "abrot": "abort", "exprt": "export",
		"peer remove": "", "peer froget": "forget", "fleet budget": "", "show": "", "ststus": "status", "docter": "doctor", "key": "kek",
		"revoke --ttl": "", "revoke --al": "--all", "revoke --lal": "--all", "revoke --claen": "--clean", "init --replica": "", "init --replave": "--replace",
		"rewrap --stop": "--store", "rewrap --dorp": "--drop", "rotate --foce": "--force", "rotate --farce": "", "rotate --yas": "", "policy --setle": "--settle",
	} {
		var out bytes.Buffer
		code := Run(context.Background(), s(&out), strings.Fields(typed)...)
		_, asked, _ := strings.Cut(out.String(), " (did you mean ")
		asked, _, _ = strings.Cut(asked, "?)")
		if code != int(usage) || asked != want {
			t.Errorf("keytool %s exits %d and is answered with %q, not %q: %s", typed, code, asked, want, &out)
		}
	}
}

// What is called costly is there: a name that is none would guard nothing.
func TestCostlyFlagsAreThere(t *testing.T) {
	there := make(map[string]bool)
	each(t, func(_ []string, cmd *cobra.Command) {
		for _, f := range flagsOf(cmd) {
			there[f.Name] = true
		}
	})
	for _, name := range costly {
		if !there[name] {
			t.Errorf("no command has --%s", name)
		}
	}
}

// Of letters that may be a secret the first unknown one is shown, as a letter.
func TestUnknownLetters(t *testing.T) {
	for typed, want := range map[string]string{"-x": "-x;", "-vxsecret": "-x;", "-é": "-é;", "-vé": "-é;", "-\xff": `-\xff;`, "-\x1b[2J": `-\x1b;`, "-psecret": "-p;"} {
		var out bytes.Buffer
		code := Run(context.Background(), System{Stdout: &out, Stderr: &out, Getenv: func(string) string { return "" }}, "status", typed)
		if code != int(usage) || !strings.Contains(out.String(), "unknown flag: "+want) || strings.Contains(out.String(), "secret") {
			t.Errorf("%q exits %d: %s", typed, code, &out)
		}
	}
}

// A word in small letters is no token, nor is the name of a file that is there.
func TestWhatIsNoToken(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{
		{"init", "--store", "v1.json"}, {"init", "--store=v1.production-keyset"}, {"init", "--store", "./v1.ProductionKeyset"},
		{"inspect", "v1.txt"}, {"rotate", "--reason", "v1.0 is old"}, {"status", "--store", "/etc/v1.secrets/keyset.json"},
	} {
		if err := checkArguments(args); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// each calls f with every command that can be typed.
func each(t *testing.T, f func(words []string, cmd *cobra.Command)) {
	t.Helper()
	var walk func(words []string, cmd *cobra.Command)
	n := 0
	walk = func(words []string, cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			n++
			words := append(slices.Clone(words), c.Name())
			f(slices.Clip(words), c)
			walk(words, c)
		}
	}
	a := &app{System: System{}.complete()}
	walk(nil, a.root())
	if n < 20 {
		t.Fatalf("there are %d commands", n)
	}
}

// flagsOf returns all that a command takes.
func flagsOf(cmd *cobra.Command) (all []*pflag.Flag) {
	cmd.InheritedFlags() // which adds them
	cmd.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, f) })
	return all
}
