package localkek_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/keyset"
	"github.com/echoseal/echoseal/keyset/keysettest"
)

var fleet = keyset.EncryptionContext("fleet", "6a1f9e0c-3c52-4e2b-9d3c-0f6f6f1f2a77", keyset.Data)

// passphraseVariable is part of what users write.
const passphraseVariable = "ECHOSEAL_KEK_PASSPHRASE_FILE"

// cheap are the least parameters that are accepted.
const cheap = `{"v":1,"kdf":"argon2id","salt":"AAECAwQFBgcICQoLDA0ODw==","time":1,"memory_kib":19456,"threads":1}`

func uri(path string, query ...string) string {
	u := url.URL{Scheme: "localkek", Path: path, RawQuery: strings.Join(query, "&")}
	return u.String()
}

// file makes a file that nobody else may read.
func file(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func keyFile(t *testing.T) (path, service string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kek")
	service, err := localkek.NewKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, service
}

func open(t *testing.T, uris ...string) *localkek.Service {
	t.Helper()
	s, err := localkek.Open(t.Context(), uris...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKeyService(t *testing.T) {
	const local = "the key is in this process: there is no back end"
	without := map[string]string{"no stray call": local, "silence": local, "retries": local, "refusals": local}
	t.Run("Open", func(t *testing.T) {
		first, _ := keyFile(t)
		second, _ := keyFile(t)
		keysettest.KeyService(t, keysettest.KeyServiceHarness{
			New: func(t testing.TB, keys ...int) keyset.KeyService {
				var uris []string
				for _, key := range keys {
					uris = append(uris, uri([]string{first, second}[key]))
				}
				s, err := localkek.Opener().Open(t.Context(), uris...)
				if err != nil {
					t.Fatal(err)
				}
				return s
			},
			Without: without,
		})
	})
	t.Run("New", func(t *testing.T) {
		keysettest.KeyService(t, keysettest.KeyServiceHarness{
			New: func(t testing.TB, keys ...int) keyset.KeyService {
				var keks [][]byte
				for _, key := range keys {
					keks = append(keks, bytes.Repeat([]byte{byte(key + 1)}, 32))
				}
				s, err := localkek.New(keks...)
				if err != nil {
					t.Fatal(err)
				}
				for _, kek := range keks {
					clear(kek) // New keeps nothing of them
				}
				return s
			},
			Without: without,
		})
	})
}

// What an independent implementation has wrapped is unwrapped; testdata/vectors.py tells
// how it was made.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name           string
		KeyFile        []byte `json:"key_file"`
		PassphraseFile string `json:"passphrase_file"`
		Context        map[string]string
		DataKey        []byte `json:"data_key"`
		Wrapped        keyset.WrappedKey
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) != 8 {
		t.Fatalf("%d vectors", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			t.Setenv(passphraseVariable, file(t, []byte(v.PassphraseFile)))
			s := open(t, uri(file(t, v.KeyFile)))
			if !s.Opens(v.Wrapped.Service) {
				t.Errorf("the key is %v, want %s", s, v.Wrapped.Service)
			}
			got, err := s.Unwrap(t.Context(), v.Wrapped, v.Context)
			if err != nil || !bytes.Equal(got, v.DataKey) {
				t.Errorf("Unwrap gives %d bytes, %v", len(got), err)
			}
			w, err := s.Wrap(t.Context(), v.DataKey, v.Context)
			if err != nil || w.Service != v.Wrapped.Service || w.Version != "" || len(w.Ciphertext) != len(v.Wrapped.Ciphertext) {
				t.Errorf("Wrap gives %d bytes of %s, %v", len(w.Ciphertext), w.Service, err)
			}
		})
	}
}

func TestNew(t *testing.T) {
	kek := bytes.Repeat([]byte{7}, 32)
	for _, c := range []struct {
		name string
		keys [][]byte
		says string
	}{
		{"none", nil, "no key"},
		{"short", [][]byte{kek, kek[:31]}, "key 1: "},
		{"long", [][]byte{append(kek[:32:32], 0)}, "33 bytes"},
		{"nil", [][]byte{nil}, "0 bytes"},
	} {
		s, err := localkek.New(c.keys...)
		if s != nil || !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	s, err := localkek.New(kek, bytes.Repeat([]byte{8}, 32), kek)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(s.String(), "localkek://"); n != 2 {
		t.Errorf("one key twice: %v", s)
	}
}

// Every kind of error that a call can have, and what it says.
func TestKeyErrors(t *testing.T) {
	path, service := keyFile(t)
	s := open(t, uri(path))
	good, err := s.Wrap(t.Context(), make([]byte, 32), fleet)
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(*keyset.WrappedKey)) keyset.WrappedKey {
		w := good
		f(&w)
		return w
	}
	unwrap := func(w keyset.WrappedKey) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.Unwrap(ctx, w, fleet)
			return err
		}
	}
	wrap := func(n int) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.Wrap(ctx, make([]byte, n), fleet)
			return err
		}
	}
	opening := func(uri string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := localkek.Open(ctx, uri)
			return err
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	missing := filepath.Join(t.TempDir(), "missing")
	parameters := file(t, []byte(cheap))
	loop := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		name string
		ctx  context.Context
		call func(context.Context) error
		kind keyset.Kind
		says []string
	}{
		{"context mismatch", t.Context(), func(ctx context.Context) error {
			_, err := s.Unwrap(ctx, good, keyset.EncryptionContext("fleet", "other", keyset.Data))
			return err
		}, keyset.ContextMismatch, []string{"unwrap with " + service, "context mismatch or corrupt", "echoseal:key, echoseal:keyset, echoseal:purpose"}},
		{"no context", t.Context(), func(ctx context.Context) error {
			_, err := s.Unwrap(ctx, good, nil)
			return err
		}, keyset.ContextMismatch, []string{"encryption context: none"}},
		{"damaged", t.Context(), unwrap(change(func(w *keyset.WrappedKey) { w.Ciphertext = append(w.Ciphertext[:59:59], w.Ciphertext[59]^1) })), keyset.ContextMismatch, []string{"or corrupt"}},
		{"too short", t.Context(), unwrap(change(func(w *keyset.WrappedKey) { w.Ciphertext = w.Ciphertext[:28] })), keyset.Corrupt, []string{"unwrap with " + service, "28 bytes"}},
		{"too long", t.Context(), unwrap(change(func(w *keyset.WrappedKey) { w.Ciphertext = make([]byte, 28+4097) })), keyset.Corrupt, []string{"4125 bytes"}},
		{"nothing to wrap", t.Context(), wrap(0), keyset.Corrupt, []string{"wrap with " + service, "0 bytes"}},
		{"too much to wrap", t.Context(), wrap(4097), keyset.Corrupt, []string{"4097 bytes"}},
		{"wrong key", t.Context(), unwrap(change(func(w *keyset.WrappedKey) { w.Service = "localkek://0123456789abcdef" })), keyset.WrongKey, []string{"0123456789abcdef", service, path}},
		{"wrong key, endless", t.Context(), unwrap(change(func(w *keyset.WrappedKey) { w.Service = strings.Repeat("x\n", 1<<20) })), keyset.WrongKey, []string{service}},
		{"ended before Unwrap", ended, unwrap(good), keyset.Unavailable, []string{"unwrap with " + service, "context canceled"}},
		{"ended before Wrap", ended, wrap(32), keyset.Unavailable, []string{"wrap with " + service}},
		{"ended before Open", ended, opening(uri(path)), keyset.Unavailable, []string{"open with localkek://" + path}},
		{"no such file", t.Context(), opening(uri(missing)), keyset.NotFound, []string{"open with localkek://" + missing, "keytool kek new " + missing}},
		{"no such folder", t.Context(), opening(uri(path + "/kek")), keyset.NotFound, []string{path + "/kek"}},
		{"a link to itself", t.Context(), opening(uri(loop)), keyset.NotFound, []string{loop}},
		{"no such passphrase", t.Context(), opening(uri(parameters, "passphrase-file="+missing)), keyset.NotFound, []string{"localkek://" + parameters, missing, "passphrase-file", passphraseVariable}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.call(c.ctx)
			checkKeyError(t, err, c.kind)
			for _, part := range c.says {
				if !strings.Contains(fmt.Sprint(err), part) {
					t.Errorf("%v does not say %q", err, part)
				}
			}
		})
	}
}

func checkKeyError(t *testing.T, err error, kind keyset.Kind) {
	t.Helper()
	var e *keyset.KeyError
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *keyset.KeyError", err)
	}
	if e.Kind != kind || e.Key == "" || e.Operation == "" || e.Remedy == "" {
		t.Errorf("%#v, want the kind %v", e, kind)
	}
	if text := err.Error(); strings.Contains(text, "\n") || len(text) > 1000 {
		t.Errorf("%.1100q is long, or has several lines", text)
	}
}

// A wrong passphrase gives a key, but another one.
func TestWrongPassphrase(t *testing.T) {
	parameters := file(t, []byte(cheap))
	right, wrong := file(t, []byte("correct horse\n")), file(t, []byte("canary horse\n"))
	w, err := open(t, uri(parameters, "passphrase-file="+right)).Wrap(t.Context(), make([]byte, 32), fleet)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, uri(parameters, "passphrase-file="+wrong))
	_, single := s.Unwrap(t.Context(), w, fleet)
	checkKeyError(t, single, keyset.WrongKey)
	_, several := keyset.Services{s}.Unwrap(t.Context(), []keyset.WrappedKey{w}, fleet)
	if !errors.Is(several, keyset.ErrConfig) {
		t.Errorf("%v", several)
	}
	for _, err := range []error{single, several} {
		for _, part := range []string{w.Service, s.String(), parameters, wrong, "passphrase"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %s", err, part)
			}
		}
		if strings.Contains(err.Error(), "canary") {
			t.Errorf("the passphrase is shown: %v", err)
		}
	}
	// To change a passphrase takes both.
	both := open(t, uri(parameters, "passphrase-file="+wrong), uri(parameters, "passphrase-file="+right))
	again, err := keyset.Services{both}.Rewrap(t.Context(), []keyset.WrappedKey{w}, fleet)
	if err != nil || !s.Opens(again.Service) {
		t.Errorf("Rewrap gives %s, %v", again.Service, err)
	}
}

func TestURI(t *testing.T) {
	path, service := keyFile(t)
	strange := filepath.Join(filepath.Dir(path), "a key?#%41 é")
	if err := os.Rename(path, strange); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		uri(strange),
		uri(strange, "allow-group-read=false"),
		uri(strange, "passphrase-file=/not/needed/here", "allow-group-read=true"),
		strings.Replace(uri(strange), "localkek", "LocalKEK", 1),
	} {
		s, err := localkek.Open(t.Context(), text)
		if err != nil || !s.Opens(service) {
			t.Errorf("%s: %v, %v", text, s, err)
			continue
		}
		if want := service + " from " + strange; s.String() != want {
			t.Errorf("%s: %q, want %q", text, s, want)
		}
	}
	for _, text := range []string{
		"", "localkek:", "localkek://", "localkek://kek", "localkek://host/kek", "localkek:/kek", "localkek:kek", "localkek://user:canary@/kek",
		"localkek:///kek#fragment", "localkek:///kek?region=x", "localkek:///kek?allow-group-read=1", "localkek:///kek?allow-group-read=",
		"localkek:///kek?allow-group-read=true&allow-group-read=true", "localkek:///kek?passphrase-file=relative", "localkek:///kek?passphrase-file=/a&passphrase-file=/b",
		"localkek:///kek?passphrase=canary", "localkek:///kek?a=canary%zz", "localkek:///kek?a;b", "localkek:///%zz", "awskms:///kek", "/kek",
	} {
		s, err := localkek.Open(t.Context(), text)
		if s != nil || !errors.Is(err, keyset.ErrConfig) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	if s, err := localkek.New(make([]byte, 32)); s != nil || !errors.Is(err, keyset.ErrConfig) {
		t.Errorf("a key that was cleared: %v, %v", s, err)
	}
	if _, err := localkek.Open(t.Context()); !errors.Is(err, keyset.ErrConfig) {
		t.Errorf("no URI: %v", err)
	}
	service2, err := localkek.Opener().Open(t.Context(), "localkek://kek")
	if service2 != nil || !errors.Is(err, keyset.ErrConfig) {
		t.Errorf("the opener: %v, %v", service2, err)
	}
}

func TestDescribe(t *testing.T) {
	first, one := keyFile(t)
	second, two := keyFile(t)
	s := open(t, uri(first), uri(second))
	describe := func() []keyset.KeyDescription {
		t.Helper()
		all, err := s.Describe(t.Context())
		if err != nil || len(all) != 2 || all[0].Service != one || all[1].Service != two || all[0].Err != nil {
			t.Fatalf("%+v, %v", all, err)
		}
		return all
	}
	if all := describe(); all[1].Err != nil {
		t.Error(all[1].Err)
	}
	if err := os.Chmod(second, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := describe()[1].Err; !errors.Is(err, keyset.ErrConfig) {
		t.Errorf("readable for all: %v", err)
	}
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	checkKeyError(t, describe()[1].Err, keyset.NotFound)
	changed, err := localkek.NewKeyFile(second)
	if err != nil {
		t.Fatal(err)
	}
	err = describe()[1].Err
	checkKeyError(t, err, keyset.WrongKey)
	if text := err.Error(); !strings.Contains(text, two) || !strings.Contains(text, changed) || !strings.Contains(text, second) {
		t.Errorf("%s does not name both keys and the file", text)
	}
}

// However a service is printed, no key is in it.
func TestFormat(t *testing.T) {
	kek := bytes.Repeat([]byte{0x5a}, 32)
	s, err := localkek.New(kek)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p", "%T"} {
		for _, v := range []any{s, struct{ S *localkek.Service }{s}} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "5a5a") || strings.Contains(text, "90 90") || strings.Contains(text, "ZZ") || strings.Contains(text, "5A5A") {
				t.Errorf("%s prints %s", verb, text)
			}
		}
	}
}

func TestNewKeyFile(t *testing.T) {
	for name, create := range map[string]func(string) error{
		"key": func(path string) error {
			service, err := localkek.NewKeyFile(path)
			if err == nil && !open(t, uri(path)).Opens(service) {
				t.Errorf("the key is not %s", service)
			}
			return err
		},
		"passphrase": localkek.NewPassphraseFile,
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			first, second := filepath.Join(folder, "first"), filepath.Join(folder, "second")
			for _, path := range []string{first, second} {
				if err := create(path); err != nil {
					t.Fatal(err)
				}
				info, err := os.Stat(path)
				if err != nil || info.Mode() != 0o600 {
					t.Errorf("mode %v, %v", info.Mode(), err)
				}
			}
			before, err := os.ReadFile(first)
			if err != nil {
				t.Fatal(err)
			}
			if other, err := os.ReadFile(second); err != nil || bytes.Equal(before, other) {
				t.Errorf("two files are the same, %v", err)
			}

			dangling := filepath.Join(folder, "dangling")
			target := filepath.Join(folder, "target")
			if err := os.Symlink(target, dangling); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{first, folder, dangling} {
				if err := create(path); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), path) {
					t.Errorf("%s was there, and the error is %v", path, err)
				}
			}
			if after, err := os.ReadFile(first); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the old file has changed, %v", err)
			}
			if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
				t.Error("a file was made at the end of a symbolic link")
			}
			if err := create(filepath.Join(folder, "no", "folder")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("no folder: %v", err)
			}
		})
	}
}

func TestNewPassphraseFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kek")
	if err := localkek.NewPassphraseFile(path); err != nil {
		t.Fatal(err)
	}
	passphrase := file(t, []byte("correct horse"))
	w, err := open(t, uri(path, "passphrase-file="+passphrase)).Wrap(t.Context(), make([]byte, 32), fleet)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(passphraseVariable, passphrase)
	if _, err := open(t, uri(path)).Unwrap(t.Context(), w, fleet); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), `{"v":1,"kdf":"argon2id","salt":"`) || !strings.HasSuffix(string(text), `==","time":3,"memory_kib":65536,"threads":4}`+"\n") {
		t.Errorf("%s", text)
	}
}
