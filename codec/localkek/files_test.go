package localkek_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/keyset"
)

var canary = []byte("canary-canary-canary-canary-cana")

// What a key file, or one with a passphrase, may not be.
func TestContents(t *testing.T) {
	with := func(member, value string) []byte {
		from := map[string]string{"v": `"v":1`, "kdf": `"kdf":"argon2id"`, "salt": `"salt":"AAECAwQFBgcICQoLDA0ODw=="`, "time": `"time":1`, "memory_kib": `"memory_kib":19456`, "threads": `"threads":1`}[member]
		changed := strings.Replace(cheap, from, value, 1)
		if changed == cheap {
			t.Fatalf("no %s", member)
		}
		return []byte(changed)
	}
	const ok = "correct horse\n"
	for _, c := range []struct {
		name       string
		key        []byte
		passphrase string
		says       string
	}{
		{"empty", nil, ok, "is empty"},
		{"zero bytes", make([]byte, 32), ok, "zero bytes"},
		{"short", canary[:31], ok, "31 bytes long"},
		{"long", append(canary[:32:32], 'x'), ok, "33 bytes long, and a key is 32"},
		{"a line end", append(canary[:32:32], '\n'), ok, "head -c 32"},
		{"a line end after a brace", append(append([]byte{'{'}, canary[:31]...), '\n'), ok, "head -c 32"},
		{"hex", []byte(hex.EncodeToString(canary)), ok, "xxd -r -p"},
		{"hex and a line end", []byte(strings.ToUpper(hex.EncodeToString(canary)) + "\n"), ok, "xxd -r -p"},
		{"base64", []byte(base64.StdEncoding.EncodeToString(canary) + "\n"), ok, "base64 -d"},
		{"another file", bytes.Repeat(canary, 1000), ok, "longer than 4096 bytes"},

		{"no JSON", append([]byte{'{', ' '}, canary...), ok, "none with the parameters"},
		{"cut", []byte(cheap[:len(cheap)-1]), ok, "none with the parameters"},
		{"more after it", []byte(cheap + cheap), ok, "something follows"},
		{"nested", with("time", `"time":{"time":1}`), ok, "none with the parameters"},
		{"twice", with("time", `"time":1,"time":1`), ok, `"time" twice`},
		{"twice, escaped", with("time", `"time":1,"\u0074ime":1`), ok, `"time" twice`},
		{"in another case", with("time", `"Time":1`), ok, `"time" is not`},
		{"one more", with("time", `"time":1,"id":"x"`), ok, "newer version"},
		{"version 2", with("v", `"v":2`), ok, "newer version"},
		{"version as text", with("v", `"v":"1"`), ok, `"v" is not 1`},
		{"version 1.0", with("v", `"v":1.0`), ok, `"v" is not 1`},
		{"another kdf", with("kdf", `"kdf":"scrypt"`), ok, `"kdf" is not`},
		{"short salt", with("salt", `"salt":"AAECAwQFBgcICQoLDA0O"`), ok, `"salt" is not`},
		{"salt with a line end", with("salt", `"salt":"AAECAwQFBgcICQoL\nDA0ODw=="`), ok, `"salt" is not`},
		{"salt with trailing bits", with("salt", `"salt":"AAECAwQFBgcICQoLDA0ODx=="`), ok, `"salt" is not`},
		{"no salt", with("salt", `"salt":null`), ok, `"salt" is not`},
		{"time 0", with("time", `"time":0`), ok, `"time" is not`},
		{"negative time", with("time", `"time":-1`), ok, `"time" is not`},
		{"endless time", with("time", `"time":4294967295`), ok, `"time" is not`},
		{"time beyond 32 bits", with("time", `"time":4294967297`), ok, `"time" is not`},
		{"time as a fraction", with("time", `"time":1e0`), ok, `"time" is not`},
		{"no threads", with("threads", `"threads":0`), ok, `"threads" is not`},
		{"threads beyond 8 bits", with("threads", `"threads":257`), ok, `"threads" is not`},
		{"little memory", with("memory_kib", `"memory_kib":19455`), ok, `"memory_kib" is not`},
		{"all memory", with("memory_kib", `"memory_kib":1048577`), ok, `"memory_kib" is not`},
		{"much of both", []byte(strings.NewReplacer(`"time":1`, `"time":64`, `19456`, `1048576`).Replace(cheap)), ok, "67108864, and at most 4194304"},

		{"no passphrase", []byte(cheap), "", "is empty"},
		{"only a line end", []byte(cheap), "\n", "is empty"},
		{"a Windows line end", []byte(cheap), "canary\r\n", "carriage return"},
		{"endless passphrase", []byte(cheap), strings.Repeat("canary", 1000), "longer than 4096 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, passphrase := file(t, c.key), file(t, []byte(c.passphrase))
			s, err := localkek.Open(t.Context(), uri(path, "passphrase-file="+passphrase))
			if s != nil || !errors.Is(err, keyset.ErrConfig) {
				t.Fatalf("%v, %v", s, err)
			}
			text := err.Error()
			if setting := strings.Contains(c.name, "line end") && len(c.key) == 33 || c.says == "xxd -r -p" || c.says == "base64 -d"; setting && errors.Is(err, keyset.Corrupt) {
				t.Errorf("%s: it holds a key, in another form", text)
			}
			if !strings.Contains(text, c.says) || !strings.Contains(text, path) && !strings.Contains(text, passphrase) {
				t.Errorf("%s: does not say %q, or which file", text, c.says)
			}
			if strings.Contains(text, "canary") || strings.Contains(text, "63616e617279") || strings.Contains(text, "Y2FuYX") || strings.Contains(text, "\n") {
				t.Errorf("%q shows the content, or has several lines", text)
			}
		})
	}
	// Whoever has a damaged key file is not led to a new one before looking for the copy.
	t.Run("remedy", func(t *testing.T) {
		for name, content := range map[string][]byte{
			"empty": nil, "zero bytes": make([]byte, 32), "short": canary[:31], "long": append(canary[:32:32], 'x'),
			"another file": bytes.Repeat(canary, 1000), "no JSON": append([]byte{'{', ' '}, canary...), "cut": []byte(cheap[:len(cheap)-1]),
			"salt": with("salt", `"salt":null`), "time": with("time", `"time":0`),
		} {
			path := file(t, content)
			_, err := localkek.Open(t.Context(), uri(path, "passphrase-file="+file(t, []byte(ok))))
			if !errors.Is(err, keyset.Corrupt) {
				t.Errorf("%s is not told from a setting that is wrong: %v", name, err)
			}
			back, anew, found := strings.Cut(fmt.Sprint(err), "if no copy is left, ")
			if !found || !strings.Contains(back, "put its copy back, ") || strings.Contains(back, "keytool kek new") || !strings.Contains(back+anew, "move it away") ||
				!strings.Contains(anew, "keytool kek new "+path+"; ") || !strings.Contains(anew, "keytool init --replace") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	// What is to be typed is pasted into a shell, and names the file there, whatever it is called.
	t.Run("any name", func(t *testing.T) {
		for name, typed := range map[string]string{
			"kek.key": "kek.key", "100%41": "100%41",
			"a b;touch pwned$(id)": "a b;touch pwned$(id)'", "it's": `it'\''s'`,
		} {
			folder := t.TempDir()
			path := filepath.Join(folder, name)
			if typed = folder + "/" + typed; strings.HasSuffix(typed, "'") {
				typed = "'" + typed
			}
			for content, command := range map[string]string{
				"": "keytool kek new " + typed + "; ", string(canary[:32]) + "\n": "head -c 32 " + typed + " > NEW",
				hex.EncodeToString(canary): "xxd -r -p " + typed + " > NEW", base64.StdEncoding.EncodeToString(canary): "base64 -d " + typed + " > NEW",
			} {
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				if _, err := localkek.Open(t.Context(), uri(path)); err == nil || !strings.Contains(err.Error(), command) {
					t.Errorf("%v\ndoes not say %s", err, command)
				}
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if _, err := localkek.Open(t.Context(), uri(path)); err == nil || !strings.Contains(err.Error(), "keytool kek new "+typed+"; ") || !strings.Contains(err.Error(), uri(path)+": ") {
				t.Errorf("%v", err)
			}
		}
	})
	t.Run("no passphrase file", func(t *testing.T) {
		t.Setenv(passphraseVariable, "")
		if _, err := localkek.Open(t.Context(), uri(file(t, []byte(cheap)))); !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), passphraseVariable) {
			t.Errorf("%v", err)
		}
	})
}

func TestModes(t *testing.T) {
	const lax = "allow-group-read=true"
	kek, parameters := filepath.Join(t.TempDir(), "kek"), filepath.Join(t.TempDir(), "parameters")
	if _, err := localkek.NewKeyFile(kek); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(parameters, []byte(cheap), 0o600); err != nil {
		t.Fatal(err)
	}
	passphrase := file(t, []byte("correct horse"))
	for _, c := range []struct {
		mode   os.FileMode
		strict bool   // accepted
		lax    string // says, "" if accepted
	}{
		{0o400, true, ""},
		{0o600, true, ""},
		{0o700, true, ""},
		{0o440, false, ""},
		{0o640, false, ""},
		{0o660, false, "chmod 0440"},
		{0o650, false, "chmod 0440"},
		{0o620, false, "chmod 0440"},
		{0o444, false, "chmod 0440"},
		{0o404, false, "chmod 0440"},
		{0o604, false, "chmod 0440"},
		{0o602, false, "chmod 0440"},
		{0o777, false, "chmod 0440"},
	} {
		for _, which := range []struct{ changed, uri string }{
			{kek, uri(kek)},
			{parameters, uri(parameters, "passphrase-file="+passphrase)},
			{passphrase, uri(parameters, "passphrase-file="+passphrase)},
		} {
			if err := os.Chmod(which.changed, c.mode); err != nil {
				t.Fatal(err)
			}
			_, err := localkek.Open(t.Context(), which.uri)
			if c.strict != (err == nil) || err != nil && (!errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), which.changed) || !strings.Contains(err.Error(), "chmod 0400")) {
				t.Errorf("%#o: %v", c.mode, err)
			}
			if hint := err != nil && strings.Contains(err.Error(), lax); hint != (!c.strict && c.lax == "") {
				t.Errorf("%#o: the option is named or not: %v", c.mode, err)
			}
			separator := "?"
			if strings.Contains(which.uri, "?") {
				separator = "&"
			}
			_, err = localkek.Open(t.Context(), which.uri+separator+lax)
			if (c.lax == "") != (err == nil) || err != nil && (!errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), c.lax)) {
				t.Errorf("%#o with %s: %v", c.mode, lax, err)
			}
			if err := os.Chmod(which.changed, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A Kubernetes Secret is a symbolic link to a link to a folder.
func TestSymbolicLinks(t *testing.T) {
	folder := t.TempDir()
	data := filepath.Join(folder, "..2026_12_02")
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	service, err := localkek.NewKeyFile(filepath.Join(data, "kek"))
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"..data": "..2026_12_02", "kek": "..data/kek"} {
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	link := uri(filepath.Join(folder, "kek"))
	if s := open(t, link); !s.Opens(service) {
		t.Errorf("%v, want %s", s, service)
	}
	if err := os.Chmod(filepath.Join(data, "kek"), 0o440); err != nil {
		t.Fatal(err)
	}
	if _, err := localkek.Open(t.Context(), link); !errors.Is(err, keyset.ErrConfig) {
		t.Errorf("what counts is the mode at the end of the link: %v", err)
	}
	if s := open(t, link+"?allow-group-read=true"); !s.Opens(service) {
		t.Errorf("%v, want %s", s, service)
	}
	if _, err := localkek.Open(t.Context(), uri(folder)); !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
}
