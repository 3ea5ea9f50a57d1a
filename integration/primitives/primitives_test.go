// Package primitives runs the vectors of NIST and the IETF against the primitives of
// which package codec/local makes a token, constructed as they are there: AES-256-GCM
// with a random 96-bit nonce, and HKDF-SHA256.
package primitives

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/integration/peers"
)

// The validation suite has 15 vectors for each of 5 lengths of the plaintext and 5 of
// the additional data, with a 96-bit nonce and a 128-bit tag.
const gcmVectors = 15 * 5 * 5

// NIST CAVP gcmDecrypt256: half of the tags are forged.
func TestGCMDecrypt(t *testing.T) {
	opened, refused := 0, 0
	for _, v := range read(t, "ciphers/AES/GCM/gcmDecrypt256.rsp") {
		if !v.gcm() {
			continue
		}
		plaintext, err := v.open(t)
		switch _, forged := v.text["FAIL"]; {
		case forged && err != nil:
			refused++
		case !forged && err == nil && bytes.Equal(plaintext, v.bytes(t, "PT")):
			opened++
		default:
			t.Errorf("%s: opened to %x, %v", v, plaintext, err)
		}
	}
	if opened+refused != gcmVectors || opened == 0 || refused == 0 {
		t.Errorf("%d vectors opened and %d refused, want %d in all and some of each", opened, refused, gcmVectors)
	}
}

// NIST CAVP gcmEncryptExtIV256: the nonce is given, so the AEAD of a ring, which draws
// its own, can only open what another AEAD sealed.
func TestGCMEncrypt(t *testing.T) {
	n := 0
	for _, v := range read(t, "ciphers/AES/GCM/gcmEncryptExtIV256.rsp") {
		if !v.gcm() {
			continue
		}
		n++
		plaintext, err := v.open(t)
		if err != nil || !bytes.Equal(plaintext, v.bytes(t, "PT")) {
			t.Errorf("%s: opened to %x, %v", v, plaintext, err)
		}
		block, err := aes.NewCipher(v.bytes(t, "Key"))
		if err != nil {
			t.Fatal(err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			t.Fatal(err)
		}
		sealed := aead.Seal(nil, v.bytes(t, "IV"), v.bytes(t, "PT"), v.bytes(t, "AAD"))
		if want := append(v.bytes(t, "CT"), v.bytes(t, "Tag")...); !bytes.Equal(sealed, want) {
			t.Errorf("%s: sealed to %x, want %x", v, sealed, want)
		}
	}
	if n != gcmVectors {
		t.Errorf("%d vectors, want %d", n, gcmVectors)
	}
}

// RFC 5869, appendix A.1 to A.3.
func TestHKDF(t *testing.T) {
	vectors := read(t, "KDF/rfc-5869-HKDF-SHA256.txt")
	if len(vectors) != 3 {
		t.Fatalf("%d vectors, want 3", len(vectors))
	}
	for _, v := range vectors {
		length, err := strconv.Atoi(v.text["L"])
		if err != nil {
			t.Fatal(err)
		}
		prk, err := hkdf.Extract(sha256.New, v.bytes(t, "IKM"), v.bytes(t, "salt"))
		if err != nil || !bytes.Equal(prk, v.bytes(t, "PRK")) {
			t.Errorf("%s: extracted %x, %v", v, prk, err)
		}
		okm, err := hkdf.Key(sha256.New, v.bytes(t, "IKM"), v.bytes(t, "salt"), string(v.bytes(t, "info")), length)
		if err != nil || !bytes.Equal(okm, v.bytes(t, "OKM")) {
			t.Errorf("%s: derived %x, %v", v, okm, err)
		}
	}
}

// A vector is one entry of a file, with the parameters of its section.
type vector struct{ text, section map[string]string }

func (v vector) String() string { return "vector " + v.text["COUNT"] }

// gcm reports whether the vector has the sizes of a token.
func (v vector) gcm() bool { return v.section["IVlen"] == "96" && v.section["Taglen"] == "128" }

func (v vector) bytes(t *testing.T, name string) []byte {
	t.Helper()
	text, ok := v.text[name]
	b, err := hex.DecodeString(text)
	if !ok || err != nil {
		t.Fatalf("%s has no usable %s: %q", v, name, text)
	}
	return b
}

// open opens the vector as codec/local opens the body of a token.
func (v vector) open(t *testing.T) ([]byte, error) {
	t.Helper()
	block, err := aes.NewCipher(v.bytes(t, "Key"))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	sealed := bytes.Join([][]byte{v.bytes(t, "IV"), v.bytes(t, "CT"), v.bytes(t, "Tag")}, nil)
	return aead.Open(nil, nil, sealed, v.bytes(t, "AAD"))
}

// read reads a file of vectors. Both formats are lines of "name = value"; a count
// begins a vector, and NIST puts the parameters of a section in brackets.
func read(t *testing.T, name string) []vector {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(peers.Dir(t), "python", "lib", "python3*", "site-packages", "cryptography_vectors", name))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", name, found, err)
	}
	file, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	section := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		name, value, _ := strings.Cut(strings.Trim(line, "[]"), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = maps.Clone(section) // the vectors before keep theirs
			section[name] = value
		case strings.EqualFold(name, "count"):
			vectors = append(vectors, vector{text: map[string]string{"COUNT": value}, section: section})
		case len(vectors) == 0:
			t.Fatalf("%s: a line before the first vector: %q", found[0], line)
		default:
			vectors[len(vectors)-1].text[name] = value
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return vectors
}
