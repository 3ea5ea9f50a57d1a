package keyset_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/echoseal/echoseal/internal/canon"
	"github.com/echoseal/echoseal/internal/strict"
	"github.com/echoseal/echoseal/keyset"
)

// The keys of testdata/keyset.json. Each is 32 bytes that count up.
var (
	goldenKEK     = upFrom(0x00)
	goldenAuth    = upFrom(0x20)
	goldenSecrets = map[string][]byte{"retiring": upFrom(0x40), "revoked": upFrom(0x60), "primary": upFrom(0x80), "staged": upFrom(0xa0)}
)

func upFrom(first byte) []byte {
	b := make([]byte, 32)
	for i := range b {
		b[i] = first + byte(i)
	}
	return b
}

//go:embed testdata/keyset.json
var goldenText string

func golden() []byte { return []byte(goldenText) }

// A fileKEK wraps as codec/localkek does, which this module cannot import. Its data keys
// are those that it is given.
type fileKEK struct {
	name    string
	aead    cipher.AEAD
	secrets [][]byte
}

func newFileKEK(t testing.TB, kek []byte, secrets ...[]byte) *fileKEK {
	t.Helper()
	block, err := aes.NewCipher(kek)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	id := sha256.Sum256(append([]byte("echoseal/localkek/v1/id:"), kek...))
	return &fileKEK{name: "localkek://" + hex.EncodeToString(id[:8]), aead: aead, secrets: secrets}
}

func (s *fileKEK) Opens(service string) bool { return service == s.name }

func (s *fileKEK) Wrap(_ context.Context, dataKey []byte, encryptionContext map[string]string) (keyset.WrappedKey, error) {
	return keyset.WrappedKey{Service: s.name, Ciphertext: s.aead.Seal(nil, nil, dataKey, keyset.ContextBytes(encryptionContext))}, nil
}

func (s *fileKEK) Unwrap(_ context.Context, w keyset.WrappedKey, encryptionContext map[string]string) ([]byte, error) {
	dataKey, err := s.aead.Open(nil, nil, w.Ciphertext, keyset.ContextBytes(encryptionContext))
	if err != nil {
		return nil, &keyset.KeyError{Kind: keyset.ContextMismatch, Key: w.Service, Operation: "unwrap", Err: err}
	}
	return dataKey, nil
}

func (s *fileKEK) Generate(ctx context.Context, encryptionContext map[string]string) ([]byte, keyset.WrappedKey, error) {
	if len(s.secrets) == 0 {
		return nil, keyset.WrappedKey{}, &keyset.KeyError{Kind: keyset.Unavailable, Key: s.name, Operation: "generate", Err: errors.New("no more")}
	}
	dataKey := bytes.Clone(s.secrets[0])
	s.secrets = s.secrets[1:]
	w, err := s.Wrap(ctx, dataKey, encryptionContext)
	return dataKey, w, err
}

// The tag of the document, from the definition: package canon for the canonical JSON, and
// HKDF and HMAC as they are.
func TestGoldenTag(t *testing.T) {
	const member = `,"tag":"26yMOYmolbsSSTcy8ODGoB9kFIT4RezxLzsA7ILg4sI="`
	canonical, err := canon.Append(nil, golden())
	if err != nil {
		t.Fatal(err)
	}
	signed, rest, ok := strings.Cut(string(canonical), member)
	if !ok || strings.Contains(rest, `"tag"`) {
		t.Fatalf("no tag in %s", canonical)
	}
	signed += rest
	key, err := hkdf.Key(sha256.New, goldenAuth, nil, "echoseal/keyset/v1/tag", 32)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(signed))
	if got := base64.StdEncoding.EncodeToString(mac.Sum(nil)); !strings.Contains(member, got) {
		t.Errorf("the tag is %s", got)
	}

	auth := goldenAuthKey(t)
	d, err := keyset.Parse(golden())
	if err != nil {
		t.Fatal(err)
	}
	if err := auth.Verify(d); err != nil {
		t.Error(err)
	}
	if text, err := auth.Encode(d); err != nil || !bytes.Equal(text, golden()) {
		t.Errorf("it is not written as it was read: %v\n%s", err, text)
	}
}

// Every data key comes out of its wrapping, and its key id is the one that the token
// format gives it.
func TestGoldenKeys(t *testing.T) {
	s := keyset.Services{newFileKEK(t, goldenKEK)}
	d, _, _, err := keyset.Load(t.Context(), keyset.Bytes(golden()), s, "billing")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range d.Keys {
		secret := goldenSecrets[string(k.State)]
		derived, err := hkdf.Key(sha256.New, secret, nil, "mcp/request-state/v1/aes-256-gcm", 32)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(append([]byte("mcp/request-state/v1/kid:"), derived...))
		if got := hex.EncodeToString(sum[:4]); got != k.KID {
			t.Errorf("the %s key has the key id %s", k.State, got)
		}
		if k.State == keyset.Revoked {
			continue
		}
		got, err := s.OpenSecret(t.Context(), d.Name, k)
		if err != nil || !bytes.Equal(got, secret) {
			t.Errorf("the %s key: %v", k.State, err)
		}
		if key, err := s.OpenKey(t.Context(), d.Name, k); err != nil || key.KID() != k.KID {
			t.Errorf("the %s key: %v", k.State, err)
		}
	}
}

// What is read is what stands there.
func TestGoldenMembers(t *testing.T) {
	d, err := keyset.Parse(golden())
	if err != nil {
		t.Fatal(err)
	}
	day := func(month time.Month, day, hour, minute int) time.Time {
		year := 2026
		if month < 12 {
			year = 2027
		}
		return time.Date(year, month, day, hour, minute, 0, 0, time.UTC)
	}
	if d.Name != "billing" || d.Lineage != "b797164f-08c0-4192-98d3-ce38614a3172" || d.Revision != 11 || d.TTL != 10*time.Minute ||
		d.HasUnknownMembers() || d.Size() != len(golden()) || d.Auth.ID != "c8a5f8a3-aaa8-46f2-9685-163fdc8eb010" {
		t.Errorf("%+v", d)
	}
	was := d.Policy.Was
	d.Policy.Was = nil
	if want := (keyset.Policy{
		MaxAge: 720 * time.Hour, Settle: 2 * time.Minute, MaxStale: time.Hour, MaxSkew: time.Minute, MinInstances: 2, Proof: keyset.ProofReports,
	}); d.Policy != want {
		t.Errorf("%+v", d.Policy)
	}
	if want := (keyset.FormerPolicy{Settle: 5 * time.Minute, MaxStale: time.Hour, MaxSkew: time.Minute, Until: day(12, 2, 10, 36)}); *was != want {
		t.Errorf("%+v", *was)
	}
	retiring, revoked, primary := d.Key("2d358424"), d.Key("b02fed7a"), d.Primary()
	if primary == nil || primary.KID != "923a0b4a" || primary.Format != keyset.FormatV1 || primary.MaxTTL != 15*time.Minute ||
		!primary.Promoted.Equal(day(1, 1, 3, 21)) || len(primary.Wrapped) != 2 || primary.Wrapped[1].Version != "3" {
		t.Errorf("%+v", primary)
	}
	if !retiring.Demoted.Equal(day(1, 1, 3, 21)) || !retiring.Drained.Equal(day(1, 1, 3, 25)) || !retiring.Created.Equal(day(12, 2, 3, 0).Add(time.Millisecond)) {
		t.Errorf("%+v", retiring)
	}
	if revoked.Unseals() || revoked.Reason != "seen in a log – 日誌 🔥" || !revoked.Revoked.Equal(day(12, 20, 10, 7)) || len(revoked.Wrapped) != 0 {
		t.Errorf("%+v", revoked)
	}
	if p := d.Peers[0]; p.Name != "python-a" || len(p.KIDs) != 2 || p.Primary != "2d358424" || !p.Confirmed || p.TTL != 15*time.Minute {
		t.Errorf("%+v", p)
	}
	if e := d.History[3]; !e.At.Equal(day(12, 20, 10, 7)) || e.Action != "revoke" || e.KID != "b02fed7a" || e.Actor != "ops@bastion" || e.Reason != revoked.Reason {
		t.Errorf("%+v", e)
	}
}

func goldenAuthKey(t testing.TB) *keyset.AuthKey {
	t.Helper()
	auth, err := keyset.NewAuthKey("c8a5f8a3-aaa8-46f2-9685-163fdc8eb010", goldenAuth)
	if err != nil {
		t.Fatal(err)
	}
	return auth
}

// withTag returns a document with the tag of whoever has the golden auth key.
func withTag(t testing.TB, doc []byte) []byte {
	t.Helper()
	v, err := strict.Parse(doc)
	if err != nil {
		t.Fatal(err)
	}
	members := v.(object)
	delete(members, "tag")
	key, err := hkdf.Key(sha256.New, goldenAuth, nil, "echoseal/keyset/v1/tag", 32)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(strict.Append(nil, members))
	members["tag"] = base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return strict.Append(nil, members)
}
