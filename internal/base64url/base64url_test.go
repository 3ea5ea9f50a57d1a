package base64url

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
)

// Base64 by tables is that of encoding/base64, without its leniency.
func FuzzBase64(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("AAECAwQFBgcICQoLDA0ODw"))
	f.Add([]byte("AAECAwQFBgcICQoLDA0OD_"))
	f.Add([]byte("AAECAwQF\nBgcICQoLDA0ODw"))
	f.Add([]byte("AAECAwQFBgcICQoL\r"))
	f.Add([]byte("AAECAwQFBgcICQoL+/=="))
	f.Add([]byte("\x00\x80\xffAAAAAAAAAAAAAA"))
	standard := base64.RawURLEncoding.Strict()
	f.Fuzz(func(t *testing.T, in []byte) {
		before := []byte("before")
		if got, want := string(AppendEncode(before, in)), "before"+standard.EncodeToString(in); got != want {
			t.Fatalf("%q is %s, want %s", in, got, want)
		}
		want, err := standard.DecodeString(string(in))
		got, ok := AppendDecode(before, string(in))
		if ok != (err == nil && !bytes.ContainsAny(in, "\r\n")) || ok && string(got) != "before"+string(want) {
			t.Fatalf("%q is %q, %t; want %q, %v", in, got, ok, want, err)
		}
	})
}

// Every byte at every place of a group, and every length.
func TestBase64IsStrict(t *testing.T) {
	valid := strings.Repeat(alphabet, 2)
	for at := range 24 {
		for c := range 256 {
			text := []byte(valid[:24])
			text[at] = byte(c)
			if _, ok := AppendDecode(nil, string(text)); ok != (c < 0x80 && strings.IndexByte(alphabet, byte(c)) >= 0) {
				t.Errorf("byte %#x at %d: %t", c, at, ok)
			}
		}
	}
	bytes := []byte("any bytes, of any length up to some forty")
	for n := range bytes {
		text := string(AppendEncode(nil, bytes[:n]))
		if got, ok := AppendDecode(nil, text); !ok || string(got) != string(bytes[:n]) {
			t.Errorf("%q came back as %q, %t", bytes[:n], got, ok)
		}
		if _, ok := AppendDecode(nil, text+"="); ok {
			t.Errorf("%s= is taken", text)
		}
	}
}
