package codectest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/echoseal/echoseal/codec"
)

// Run checks what [codec.Codec] promises, and what those of [codec.Expirer],
// [codec.Identifier] and [codec.Appender] promise that the codec has. fresh returns a
// working codec with a key of its own at each call; a codec of another call must not
// open its tokens.
func Run(t *testing.T, fresh func(testing.TB) codec.Codec) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, codec.Codec)
	}{
		{"every payload round-trips", roundTrips},
		{"two seals differ and both open", sealsDiffer},
		{"a token is printable ASCII", printable},
		{"every single-bit flip is refused", bitFlips},
		{"every truncation is refused", truncations},
		{"every other spelling is refused", spellings},
		{"what was never a token is refused", garbage},
		{"the payload is the caller's", owned},
		{"a token may be opened again", reusable},
		{"safe for concurrent use", concurrent},
		{"Expirer", expirer},
		{"Identifier", identifier},
		{"Appender", appender},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, fresh(t)) })
	}
	t.Run("another key's token is refused", func(t *testing.T) {
		a, b := fresh(t), fresh(t)
		refused(t, b, seal(t, a, []byte(canary)), "another codec's token")
	})
}

// canary is a payload that no error may show.
const canary = "codectest-canary-Zb7Qx"

func payloads() [][]byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	payloads := [][]byte{{}, {0}, []byte("x"), []byte("plain text"), []byte("größer 😀"), all, bytes.Repeat([]byte{0}, 4096), bytes.Repeat(all, 256)}
	for n := 2; n < 70; n++ {
		payloads = append(payloads, bytes.Repeat([]byte{byte(n)}, n))
	}
	return payloads
}

func roundTrips(t *testing.T, c codec.Codec) {
	for _, payload := range payloads() {
		before := bytes.Clone(payload)
		got, err := c.Unseal(seal(t, c, payload))
		if err != nil || !bytes.Equal(got, payload) {
			t.Errorf("a payload of %d bytes came back as %d bytes, %v", len(payload), len(got), err)
		}
		if !bytes.Equal(payload, before) {
			t.Errorf("a payload of %d bytes was changed", len(payload))
		}
	}
	if got, err := c.Unseal(seal(t, c, nil)); err != nil || len(got) != 0 {
		t.Errorf("a nil payload came back as %d bytes, %v", len(got), err)
	}
}

func sealsDiffer(t *testing.T, c codec.Codec) {
	seen := make(map[string]bool)
	for range 64 {
		token := seal(t, c, []byte("the same payload"))
		if seen[token] {
			t.Fatal("two seals gave the same token")
		}
		seen[token] = true
		if got, err := c.Unseal(token); err != nil || string(got) != "the same payload" {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

func printable(t *testing.T, c codec.Codec) {
	for _, payload := range payloads() {
		token := seal(t, c, payload)
		for i := range len(token) {
			if b := token[i]; b <= ' ' || b >= 0x7f || b == '"' || b == '\\' {
				t.Fatalf("byte %#x at %d of a token", b, i)
			}
		}
	}
}

func bitFlips(t *testing.T, c codec.Codec) {
	for _, payload := range []string{"", "x", "xy", canary} {
		token := seal(t, c, []byte(payload))
		for i := range len(token) * 8 {
			flipped := []byte(token)
			flipped[i/8] ^= 1 << (i % 8)
			refused(t, c, string(flipped), fmt.Sprintf("bit %d of %d flipped", i, len(token)*8))
		}
	}
}

func truncations(t *testing.T, c codec.Codec) {
	token := seal(t, c, []byte(canary))
	for n := range len(token) {
		refused(t, c, token[:n], fmt.Sprintf("cut to %d of %d", n, len(token)))
		refused(t, c, token[n+1:], fmt.Sprintf("the first %d of %d cut off", n+1, len(token)))
	}
}

func spellings(t *testing.T, c codec.Codec) {
	// Lengths in a row meet each remainder that an encoding can have.
	for n := range 8 {
		token := seal(t, c, bytes.Repeat([]byte("y"), n))
		for _, extra := range []string{"=", "==", "\n", "\r\n", " ", "\x00", "A", ".", "%3D", "\u00a0"} {
			refused(t, c, token+extra, fmt.Sprintf("%q appended", extra))
			refused(t, c, extra+token, fmt.Sprintf("%q before", extra))
			for i := 1; i < len(token); i += 7 {
				refused(t, c, token[:i]+extra+token[i:], fmt.Sprintf("%q inserted at %d", extra, i))
			}
		}
		last := len(token) - 1
		for b := range 256 {
			if byte(b) != token[last] {
				refused(t, c, token[:last]+string([]byte{byte(b)}), fmt.Sprintf("last character %#x", b))
			}
		}
		for _, other := range []string{strings.ToUpper(token), strings.ToLower(token), strings.NewReplacer("-", "+", "_", "/").Replace(token)} {
			if other != token {
				refused(t, c, other, "another alphabet")
			}
		}
		refused(t, c, token+token, "twice")
	}
}

func garbage(t *testing.T, c codec.Codec) {
	for _, token := range []string{"", " ", ".", "v1.", "v2.", "null", "\x00", "\xff\xfe", strings.Repeat("A", 43), "v1." + strings.Repeat("A", 43), strings.Repeat("v1.", 1000), canary} {
		refused(t, c, token, fmt.Sprintf("%.20q", token))
	}
}

func owned(t *testing.T, c codec.Codec) {
	payload := []byte("seal must not keep this")
	token := seal(t, c, payload)
	clear(payload)
	got, err := c.Unseal(token)
	if err != nil || string(got) != "seal must not keep this" {
		t.Fatalf("%q, %v", got, err)
	}
	clear(got)
	if again, err := c.Unseal(token); err != nil || string(again) != "seal must not keep this" {
		t.Errorf("after the first result was cleared: %q, %v", again, err)
	}
}

func reusable(t *testing.T, c codec.Codec) {
	token := seal(t, c, []byte("x"))
	for range 3 {
		if _, err := c.Unseal(token); err != nil {
			t.Fatal(err)
		}
	}
}

func concurrent(t *testing.T, c codec.Codec) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 100 {
				payload := fmt.Sprintf("%d of %d", j, i)
				token, err := c.Seal([]byte(payload))
				if err != nil {
					t.Errorf("Seal: %v", err)
					return
				}
				if got, err := c.Unseal(token); err != nil || string(got) != payload {
					t.Errorf("%q came back as %q, %v", payload, got, err)
					return
				}
				if _, err := c.Unseal(token + "A"); !errors.Is(err, codec.ErrInvalid) {
					t.Errorf("a changed token: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func expirer(t *testing.T, c codec.Codec) {
	e, ok := c.(codec.Expirer)
	if !ok {
		t.Log("not implemented: optional")
		return
	}
	ceiling := e.MaxTTL()
	if ceiling < 0 {
		t.Errorf("MaxTTL is %v", ceiling)
	}
	token, err := e.SealUntil([]byte(canary), soon(c))
	if err != nil {
		t.Fatalf("SealUntil within the ceiling: %v", err)
	}
	if got, err := c.Unseal(token); err != nil || string(got) != canary {
		t.Errorf("%q, %v", got, err)
	}
	if ceiling > 0 {
		if _, err := e.SealUntil([]byte(canary), late(c)); err == nil {
			t.Error("SealUntil a day beyond the ceiling was accepted")
		} else {
			silent(t, err, "")
		}
	}
}

// soon is a time within the ceiling of c, late one far beyond it.
func soon(c codec.Codec) time.Time {
	if ceiling := maxTTL(c); ceiling > 0 {
		return time.Now().Add(ceiling / 2)
	}
	return time.Now().Add(time.Hour)
}

func late(c codec.Codec) time.Time { return time.Now().Add(maxTTL(c) + 24*time.Hour) }

func maxTTL(c codec.Codec) time.Duration {
	if e, ok := c.(codec.Expirer); ok {
		return e.MaxTTL()
	}
	return 0
}

func identifier(t *testing.T, c codec.Codec) {
	id, ok := c.(codec.Identifier)
	if !ok {
		t.Log("not implemented: optional")
		return
	}
	token := seal(t, c, []byte("x"))
	kid := id.KID(token)
	if !isKID(kid) {
		t.Errorf("key id %q, want 8 lower-case hex digits", kid)
	}
	if other := id.KID(seal(t, c, []byte("y"))); other != kid {
		t.Errorf("two tokens of one key name %q and %q", kid, other)
	}
	for _, text := range []string{"", "v1.", "no token", "\xff", strings.Repeat("=", 60), strings.Repeat("\n", 60)} {
		if got := id.KID(text); got != "" {
			t.Errorf("KID(%.20q) = %q", text, got)
		}
	}
}

func isKID(text string) bool { return len(text) == 8 && strings.Trim(text, "0123456789abcdef") == "" }

func appender(t *testing.T, c codec.Codec) {
	a, ok := c.(codec.Appender)
	if !ok {
		t.Log("not implemented: optional")
		return
	}
	for _, payload := range payloads() {
		for _, room := range []int{0, 1, 64, 200_000} {
			dst := append(make([]byte, 0, 8+room), "before: "...)
			sealed, err := a.AppendSeal(dst, payload, time.Time{})
			if err != nil || !bytes.HasPrefix(sealed, dst) {
				t.Fatalf("AppendSeal of %d bytes: %v", len(payload), err)
			}
			token := string(sealed[len(dst):])
			if got, err := c.Unseal(token); err != nil || !bytes.Equal(got, payload) {
				t.Fatalf("what AppendSeal made comes back as %d bytes, %v", len(got), err)
			}
			dst = append(make([]byte, 0, 8+room), "before: "...)
			opened, err := a.AppendUnseal(dst, token)
			if err != nil || !bytes.HasPrefix(opened, dst) || !bytes.Equal(opened[len(dst):], payload) {
				t.Fatalf("AppendUnseal of %d bytes gives %d, %v", len(payload), len(opened)-len(dst), err)
			}
		}
	}
	sealed, err := a.AppendSeal([]byte("before: "), []byte(canary), soon(c))
	if err != nil {
		t.Fatalf("AppendSeal with a time within the ceiling: %v", err)
	}
	if got, err := c.Unseal(string(sealed[len("before: "):])); err != nil || string(got) != canary {
		t.Errorf("what AppendSeal made for a time comes back as %d bytes, %v", len(got), err)
	}
	if maxTTL(c) > 0 {
		if out, err := a.AppendSeal([]byte("before: "), []byte(canary), late(c)); err == nil || string(out) != "before: " {
			t.Errorf("AppendSeal a day beyond the ceiling: %d bytes, %v", len(out), err)
		}
	}
	token := []byte(seal(t, c, []byte(canary)))
	for i := range token {
		changed := bytes.Clone(token)
		changed[i] ^= 1
		dst := append(make([]byte, 0, 1024), "before: "...)
		got, err := a.AppendUnseal(dst, string(changed))
		if !errors.Is(err, codec.ErrInvalid) || string(got) != "before: " {
			t.Errorf("AppendUnseal with character %d changed: %d bytes, %v", i, len(got), err)
		}
		if bytes.Contains(dst[:cap(dst)], []byte(canary)) {
			t.Errorf("character %d changed: the payload is left behind the result", i)
		}
	}
}

func seal(t *testing.T, c codec.Codec, payload []byte) string {
	t.Helper()
	token, err := c.Seal(payload)
	if err != nil {
		t.Fatalf("Seal of %d bytes: %v", len(payload), err)
	}
	return token
}

// refused checks that token is refused as the contract says.
func refused(t *testing.T, c codec.Codec, token, what string) {
	t.Helper()
	payload, err := c.Unseal(token)
	var invalid *codec.InvalidError
	switch {
	case err == nil:
		t.Errorf("%s: opened, to %d bytes", what, len(payload))
		return
	case len(payload) != 0:
		t.Errorf("%s: refused, but %d bytes came back", what, len(payload))
	case !errors.Is(err, codec.ErrInvalid) || !errors.As(err, &invalid):
		t.Errorf("%s: %v is no *codec.InvalidError", what, err)
		return
	case invalid.KID != "" && !isKID(invalid.KID):
		t.Errorf("%s: the key id of the error is not 8 lower-case hex digits", what)
	case invalid.Reason == "" || !errors.Is(err, invalid.Reason):
		t.Errorf("%s: the reason of %v cannot be found by errors.Is", what, err)
	}
	silent(t, err, token)
}

// silent checks that an error shows neither the canary nor the token.
func silent(t *testing.T, err error, token string) {
	t.Helper()
	text := err.Error()
	for _, form := range []string{canary, hex.EncodeToString([]byte(canary)), base64.RawURLEncoding.EncodeToString([]byte(canary))} {
		if strings.Contains(text, form) {
			t.Errorf("the error shows the payload: %s", text)
		}
	}
	if len(token) > 8 && strings.Contains(text, token[:9]) {
		t.Error("the error shows the token")
	}
}
