// Package vectors reads the golden vectors in testdata/vectors: tokens, claims,
// digests and principals that the MCP Python SDK made. It is for tests.
//
// The files are a copy and must stay one: [Read] compares each with its SHA-256 sum
// in the tree.
package vectors

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is a string of a vector. Unlike encoding/json it keeps lone surrogates, as
// their three-byte form.
type Text string

// UnmarshalJSON reads a JSON string.
func (t *Text) UnmarshalJSON(raw []byte) error {
	var out []byte
	// Parts without a \u escape are encoding/json's business.
	parts := strings.Split(strings.ReplaceAll(string(raw), `\\`, `\u005c`), `\u`)
	var units []uint16
	for i, part := range parts {
		if i > 0 {
			unit, err := strconv.ParseUint(part[:4], 16, 16)
			if err != nil {
				return err
			}
			units, part = append(units, uint16(unit)), part[4:]
		}
		if part != "" || i == len(parts)-1 {
			out, units = appendUnits(out, units), nil
		}
		if i == 0 {
			part = part[1:]
		}
		if i == len(parts)-1 {
			part = part[:len(part)-1]
		}
		var plain string
		if err := json.Unmarshal([]byte(`"`+part+`"`), &plain); err != nil {
			return err
		}
		out = append(out, plain...)
	}
	*t = Text(out)
	return nil
}

func appendUnits(dst []byte, units []uint16) []byte {
	for len(units) > 0 {
		r := rune(units[0])
		units = units[1:]
		if utf16.IsSurrogate(r) {
			if len(units) > 0 {
				if pair := utf16.DecodeRune(r, rune(units[0])); pair != utf8.RuneError {
					dst, units = utf8.AppendRune(dst, pair), units[1:]
					continue
				}
			}
			dst = append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
			continue
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// Hex is a byte string of a vector, in hexadecimal.
type Hex []byte

// UnmarshalText reads hexadecimal digits.
func (h *Hex) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// A Secret is one of the ring secrets in tokens.json.
type Secret struct {
	Hex  Hex     `json:"hex"`
	Text *string `json:"text"`
}

// Bytes returns the secret; of a text it is the UTF-8.
func (s Secret) Bytes() []byte {
	if s.Text != nil {
		return []byte(*s.Text)
	}
	return s.Hex
}

// Tokens is tokens.json.
type Tokens struct {
	Secrets []Secret `json:"secrets"`
	Keys    []struct {
		Secret int `json:"secret"`
		Key    Hex `json:"key_hex"`
		KID    Hex `json:"kid_hex"`
	} `json:"keys"`
	Seal []struct {
		Secret  int    `json:"secret"`
		Nonce   Hex    `json:"nonce_hex"`
		Payload []byte `json:"payload_base64"`
		Token   string `json:"token"`
	} `json:"seal"`
	Unseal []struct {
		Name    string `json:"name"`
		Ring    []int  `json:"ring"`
		Token   Text   `json:"token"`
		Payload []byte `json:"payload_base64"`
		Reason  string `json:"reason"`
	} `json:"unseal"`
}

// Ring returns the secrets with the given indexes.
func (t Tokens) Ring(indexes []int) [][]byte {
	ring := make([][]byte, len(indexes))
	for i, index := range indexes {
		ring[i] = t.Secrets[index].Bytes()
	}
	return ring
}

// A Round is what the entries of claims.json have in common.
type Round struct {
	Policy struct {
		Ring      []int    `json:"ring"`
		TTL       *float64 `json:"ttl"`
		Audience  *Text    `json:"audience"`
		Principal *Text    `json:"principal"`
	} `json:"policy"`
	Method string  `json:"method"`
	Params string  `json:"params"`
	Now    float64 `json:"now"`
	Token  Text    `json:"token"`
}

// Claims is claims.json.
type Claims struct {
	Mint []struct {
		Round
		State   Text   `json:"state"`
		Salt    Hex    `json:"salt_hex"`
		Nonce   Hex    `json:"nonce_hex"`
		Payload string `json:"payload"`
	} `json:"mint"`
	Verify []struct {
		Round
		Name   string `json:"name"`
		State  *Text  `json:"state"`
		Reason string `json:"reason"`
		Strict bool   `json:"strict"`
	} `json:"verify"`
}

// Digests is digests.json.
type Digests struct {
	Accept []struct {
		Input     Text   `json:"input"`
		Canonical string `json:"canonical"`
		A         string `json:"a"`
	} `json:"accept"`
	Reject []struct {
		Input Text   `json:"input"`
		Bytes []byte `json:"input_base64"` // in place of input, where it is not text
	} `json:"reject"`
}

// Principals is principals.json.
type Principals struct {
	Tokens []struct {
		ClientID  Text   `json:"client_id"`
		Issuer    *Text  `json:"issuer"`
		Subject   *Text  `json:"subject"`
		Principal Text   `json:"principal"`
		Salt      Hex    `json:"salt_hex"`
		P         string `json:"p"`
	} `json:"tokens"`
	Strings []struct {
		Principal Text   `json:"principal"`
		Salt      Hex    `json:"salt_hex"`
		P         string `json:"p"`
	} `json:"strings"`
	Mismatch []struct {
		Claim     Text `json:"claim"`
		Principal Text `json:"principal"`
	} `json:"mismatch"`
}

// Read reads one of the files into v. It fails the test if the file is not the one
// whose sum is in the tree.
func Read[T Tokens | Claims | Digests | Principals](t testing.TB) (v T) {
	t.Helper()
	name := map[string]string{
		"vectors.Tokens":     "tokens.json",
		"vectors.Claims":     "claims.json",
		"vectors.Digests":    "digests.json",
		"vectors.Principals": "principals.json",
	}[reflect.TypeFor[T]().String()]
	_, here, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(here), "..", "..", "testdata", "vectors")
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	if !strings.Contains(string(sums), hex.EncodeToString(sum[:])+"  "+name+"\n") {
		t.Fatalf("%s is not the file whose sum is in SHA256SUMS", name)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}
