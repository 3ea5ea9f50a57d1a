package kmsfake

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A key is a CryptoKey.
type key struct {
	name     string
	purpose  kmspb.CryptoKey_CryptoKeyPurpose
	primary  int // index of the primary version; -1 if there is none
	versions []*version
}

// A version is a CryptoKeyVersion.
type version struct {
	name  string
	mark  string // what its ciphertexts begin with
	aead  cipher.AEAD
	state kmspb.CryptoKeyVersion_CryptoKeyVersionState
	gone  *timestamppb.Timestamp // when it is going to be destroyed
}

const markSize = 8

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

func newVersion(name string) *version {
	block, err := aes.NewCipher(random(32))
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return &version{name: name, mark: string(random(markSize)), aead: aead, state: kmspb.CryptoKeyVersion_ENABLED}
}

func (v *version) encrypt(plaintext, additional []byte) []byte {
	nonce := random(v.aead.NonceSize())
	return v.aead.Seal(append([]byte(v.mark), nonce...), nonce, plaintext, additional)
}

func (v *version) decrypt(ciphertext, additional []byte) ([]byte, error) {
	nonce, sealed := ciphertext[markSize:markSize+v.aead.NonceSize()], ciphertext[markSize+v.aead.NonceSize():]
	return v.aead.Open(nil, nonce, sealed, additional)
}

func (v *version) proto() *kmspb.CryptoKeyVersion {
	return &kmspb.CryptoKeyVersion{Name: v.name, State: v.state, DestroyTime: v.gone}
}

func (k *key) add() *version {
	v := newVersion(fmt.Sprintf("%s/cryptoKeyVersions/%d", k.name, len(k.versions)+1))
	k.versions = append(k.versions, v)
	return v
}

// AddKey makes a key with one version, and returns its name.
func (s *Service) AddKey() string {
	k := &key{
		name:    "projects/test-project/locations/europe-west3/keyRings/ring/cryptoKeys/key-" + hex.EncodeToString(random(4)),
		purpose: kmspb.CryptoKey_ENCRYPT_DECRYPT,
	}
	k.add()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[k.name] = k
	return k.name
}

// Rotate makes a new primary version of a key.
func (s *Service) Rotate(name string) {
	s.change(name, func(k *key) { k.add(); k.primary = len(k.versions) - 1 })
}

// AddVersion makes the next version of a key, in a state and not the primary one.
func (s *Service) AddVersion(name string, state kmspb.CryptoKeyVersion_CryptoKeyVersionState) {
	s.change(name, func(k *key) { k.add().state = state })
}

// SetPurpose changes what a key is for.
func (s *Service) SetPurpose(name string, purpose kmspb.CryptoKey_CryptoKeyPurpose) {
	s.change(name, func(k *key) { k.purpose = purpose })
}

// DropPrimary leaves a key without a primary version.
func (s *Service) DropPrimary(name string) {
	s.change(name, func(k *key) { k.primary = -1 })
}

// SetState puts a version of a key into a state. If that is DESTROY_SCHEDULED it has
// until destroyed.
func (s *Service) SetState(name string, number int, state kmspb.CryptoKeyVersion_CryptoKeyVersionState, destroyed *timestamppb.Timestamp) {
	s.change(name, func(k *key) { k.versions[number-1].state, k.versions[number-1].gone = state, destroyed })
}

func (s *Service) change(name string, how func(*key)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[name]
	if k == nil {
		panic("kmsfake: no key " + name)
	}
	how(k)
}

// find returns a key, and its version if the name is that of a version.
func (s *Service) find(name string) (k *key, v *version) {
	keyName, number, named := strings.Cut(name, "/cryptoKeyVersions/")
	k = s.keys[keyName]
	if k == nil || !named {
		return k, nil
	}
	if n, err := strconv.Atoi(number); err == nil && n > 0 && n <= len(k.versions) {
		return k, k.versions[n-1]
	}
	return nil, nil
}
