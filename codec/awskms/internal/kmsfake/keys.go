package kmsfake

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Account is the account that keys and callers are in.
const Account = "111122223333"

// A Key is a KMS key in one region. The zero value of each field means what KMS takes
// by default.
type Key struct {
	Partition   string // "aws"
	Region      string // "eu-west-1"
	State       string // "Enabled"
	Spec        string // "SYMMETRIC_DEFAULT"
	Usage       string // "ENCRYPT_DECRYPT"
	MultiRegion bool
	ValidTo     time.Time // of imported key material; zero if it is not imported

	id       string
	material cipher.AEAD
}

// ARN returns the ARN of the key.
func (k *Key) ARN() string {
	return "arn:" + k.Partition + ":kms:" + k.Region + ":" + Account + ":key/" + k.id
}

func (k *Key) setDefaults() {
	set := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	set(&k.Partition, "aws")
	set(&k.Region, "eu-west-1")
	set(&k.State, "Enabled")
	set(&k.Spec, "SYMMETRIC_DEFAULT")
	set(&k.Usage, "ENCRYPT_DECRYPT")
}

// draw gives the key its id and its material.
func (k *Key) draw() {
	id := random(16)
	if k.MultiRegion {
		k.id = "mrk-" + hex.EncodeToString(id)
	} else {
		k.id = fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	}
	block, err := aes.NewCipher(random(32))
	if err == nil {
		k.material, err = cipher.NewGCMWithRandomNonce(block)
	}
	if err != nil {
		panic(err)
	}
}

// A ciphertext names the key by a hash of its id, which all replicas share.
const headerSize = 4 + 16

var magic = []byte{1, 2, 2, 0}

func (k *Key) header() []byte {
	sum := sha256.Sum256([]byte(k.Partition + Account + k.id))
	return append(slices.Clone(magic), sum[:16]...)
}

func (k *Key) encrypt(plaintext []byte, encryptionContext map[string]string) []byte {
	header := k.header()
	return k.material.Seal(header, nil, plaintext, contextBytes(header, encryptionContext))
}

func (k *Key) decrypt(ciphertext []byte, encryptionContext map[string]string) ([]byte, bool) {
	header, sealed := ciphertext[:headerSize], ciphertext[headerSize:]
	plaintext, err := k.material.Open(nil, nil, sealed, contextBytes(header, encryptionContext))
	return plaintext, err == nil
}

// contextBytes returns an encryption context as bytes that no other one has.
func contextBytes(header []byte, encryptionContext map[string]string) []byte {
	text := slices.Clone(header)
	for _, name := range slices.Sorted(maps.Keys(encryptionContext)) {
		for _, part := range []string{name, encryptionContext[name]} {
			text = append(binary.AppendUvarint(text, uint64(len(part))), part...)
		}
	}
	return text
}

// find returns the key that a KeyId means in a region.
func (s *Service) find(region, keyID string) (*Key, *fault) {
	id := keyID
	if strings.HasPrefix(keyID, "arn:") {
		parts := strings.SplitN(keyID, ":", 6)
		if len(parts) < 6 || parts[2] != "kms" {
			return nil, failure("NotFoundException", "Invalid arn "+keyID)
		}
		if parts[3] != region {
			return nil, failure("NotFoundException", "Invalid arn "+parts[3])
		}
		id = strings.TrimPrefix(parts[5], "key/")
	}
	if strings.HasPrefix(id, "alias/") {
		target, ok := s.aliases[region+" "+id]
		if !ok {
			return nil, failure("NotFoundException", "Alias arn:aws:kms:"+region+":"+Account+":"+id+" is not found.")
		}
		return target, nil
	}
	for _, k := range s.keys {
		if k.Region == region && k.id == id && (id == keyID || k.ARN() == keyID) {
			return k, nil
		}
	}
	return nil, failure("NotFoundException", "Key 'arn:aws:kms:"+region+":"+Account+":key/"+id+"' does not exist")
}

// maker returns the key that made a ciphertext, or its replica in a region.
func (s *Service) maker(region string, ciphertext []byte) *Key {
	if len(ciphertext) < headerSize {
		return nil
	}
	for _, k := range s.keys {
		if k.Region == region && string(k.header()) == string(ciphertext[:headerSize]) {
			return k
		}
	}
	return nil
}

// usable returns why a key cannot be used for an operation, if so.
func (k *Key) usable(operation string) *fault {
	switch k.State {
	case "Enabled":
	case "Disabled":
		return failure("DisabledException", k.ARN()+" is disabled.")
	case "PendingDeletion":
		return failure("KMSInvalidStateException", k.ARN()+" is pending deletion.")
	case "PendingReplicaDeletion":
		return failure("KMSInvalidStateException", k.ARN()+" is pending replica deletion.")
	case "PendingImport":
		return failure("KMSInvalidStateException", k.ARN()+" is pending import.")
	default:
		return failure("KMSInvalidStateException", k.ARN()+" is "+strings.ToLower(k.State)+".")
	}
	if k.Usage != "ENCRYPT_DECRYPT" || k.Spec != "SYMMETRIC_DEFAULT" {
		return failure("InvalidKeyUsageException", k.ARN()+" key usage is "+k.Usage+" which is not valid for "+operation+".")
	}
	return nil
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}
