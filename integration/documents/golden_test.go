// Package documents checks the documents that other programs read and write: with a
// validator of their JSON Schemas, and with a reader of keysets in another language.
package documents

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/integration/peers"
	"github.com/echoseal/echoseal/keyset"
)

const goldenPath = "../../keyset/testdata/keyset.json"

func golden(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(goldenPath)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// goldenKEK returns a key file with the key of the golden document: 32 bytes that count up.
func goldenKEK(t *testing.T) string {
	t.Helper()
	kek := make([]byte, 32)
	for i := range kek {
		kek[i] = byte(i)
	}
	path := filepath.Join(t.TempDir(), "kek")
	if err := os.WriteFile(path, kek, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An answer is what testdata/read.py prints.
type answer struct {
	Matches bool
	Tag     string
	Signed  int
	SHA256  string
	KIDs    map[string]string
}

func read(t *testing.T, document, kek string) answer {
	t.Helper()
	cmd := peers.Python(t.Context(), t, "testdata/read.py", document, kek)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var a answer
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// A reader in Python, which has only the format to go by, finds the tag and the key ids
// that stand in the golden document.
func TestGoldenInPython(t *testing.T) {
	d, err := keyset.Parse(golden(t))
	if err != nil {
		t.Fatal(err)
	}
	a := read(t, goldenPath, goldenKEK(t))
	if !a.Matches || len(a.KIDs) != 3 {
		t.Errorf("%+v", a)
	}
	for kid, got := range a.KIDs {
		if kid != got || d.Key(kid) == nil {
			t.Errorf("key %s has the key id %s", kid, got)
		}
	}
	// What docs/keyset.md shows.
	doc, err := os.ReadFile("../../docs/keyset.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{a.Tag, a.SHA256} {
		if !strings.Contains(string(doc), want) {
			t.Errorf("%s is not in docs/keyset.md", want)
		}
	}
}

// And so it does for a keyset that was made now, by the key service of a key file.
func TestNewKeysetInPython(t *testing.T) {
	peers.Dir(t)
	services, kek := localServices(t)
	for name, text := range made(t, services) {
		path := filepath.Join(t.TempDir(), "keyset.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		a := read(t, path, kek)
		if !a.Matches || len(a.KIDs) == 0 {
			t.Errorf("%s: %+v", name, a)
		}
		for kid, got := range a.KIDs {
			if kid != got {
				t.Errorf("%s: key %s has the key id %s", name, kid, got)
			}
		}
		if _, _, _, err := keyset.Load(t.Context(), keyset.Bytes(text), services, "fleet"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The key service of key files opens what the golden document holds.
func TestGoldenWithItsKeyFile(t *testing.T) {
	services, err := keyset.Openers{localkek.Opener()}.Open(t.Context(), "localkek://"+goldenKEK(t))
	if err != nil {
		t.Fatal(err)
	}
	d, _, _, err := keyset.Load(t.Context(), keyset.Bytes(golden(t)), services, "billing")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range d.Keys {
		if k.Unseals() {
			if _, err := services.OpenKey(t.Context(), d.Name, k); err != nil {
				t.Error(err)
			}
		}
	}
}

func localServices(t *testing.T) (services keyset.Services, kek string) {
	t.Helper()
	kek = filepath.Join(t.TempDir(), "kek")
	if _, err := localkek.NewKeyFile(kek); err != nil {
		t.Fatal(err)
	}
	services, err := keyset.Openers{localkek.Opener()}.Open(t.Context(), "localkek://"+kek)
	if err != nil {
		t.Fatal(err)
	}
	return services, kek
}

var start = time.Date(2026, 12, 2, 3, 0, 0, 1, time.UTC)

// made returns keysets as they are written from the first to the last step of a rotation,
// and after each other change.
func made(t *testing.T, services keyset.Services) map[string][]byte {
	t.Helper()
	now := start
	note := func() keyset.Note {
		now = now.Add(time.Minute + 1)
		return keyset.Note{At: now, Actor: "ops@bastion", Reason: "é 日誌 🔥 \"\\/"}
	}
	d, auth, err := keyset.Init(context.Background(), services, keyset.InitOptions{Name: "fleet", Secrets: [][]byte{bytes.Repeat([]byte("x"), 32), bytes.Repeat([]byte("y"), 1024)}, Note: note()})
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string][]byte)
	encode := func(name string) {
		t.Helper()
		text, err := auth.Encode(d)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		texts[name] = text
	}
	encode("init")
	change := func(name string, move func(*keyset.Document) error) {
		t.Helper()
		d = d.Next()
		if err := move(d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		encode(name)
	}
	fresh := func() keyset.Key {
		t.Helper()
		k, err := d.GenerateKey(t.Context(), services, now)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first, second := d.Keys[0].KID, d.Keys[1].KID
	change("retire", func(d *keyset.Document) error { return d.Retire(note(), second) })
	change("policy", func(d *keyset.Document) error {
		p := d.Policy
		p.Settle, p.MaxStale, p.MaxSkew, p.Proof = time.Microsecond+time.Nanosecond, 26*time.Hour+1500*time.Millisecond, 250*time.Millisecond, keyset.ProofSettle
		return d.SetPolicy(note(), p)
	})
	change("ttl", func(d *keyset.Document) error { return d.SetTTL(note(), 90*time.Second+time.Nanosecond) })
	k := fresh()
	change("stage", func(d *keyset.Document) error { return d.Stage(note(), k) })
	change("export", func(d *keyset.Document) error { return d.Export(note(), "python-a", time.Hour) })
	change("confirm", func(d *keyset.Document) error { return d.Confirm(note(), "python-a") })
	change("promote", func(d *keyset.Document) error { return d.Promote(note(), k.KID) })
	change("drain", func(d *keyset.Document) error { return d.Drain(note(), first) })
	change("rollback", func(d *keyset.Document) error { return d.Rollback(note(), first) })
	change("revoke", func(d *keyset.Document) error { return d.Revoke(note(), k.KID) })
	change("rewrap", func(d *keyset.Document) error {
		w, err := services.Rewrap(t.Context(), d.Auth.Wrapped, keyset.EncryptionContext("fleet", d.Auth.ID, keyset.Auth))
		if err != nil {
			return err
		}
		other := keyset.WrappedKey{Service: "hashivault://key?mount=transit", Version: "12", Ciphertext: []byte("vault:v12:x")}
		return d.Rewrap(note(), map[string][]keyset.WrappedKey{"": {other, w}})
	})
	change("forget", func(d *keyset.Document) error { return d.ForgetPeer(note(), "python-a") })
	return texts
}
