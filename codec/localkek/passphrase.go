package localkek

import (
	"bytes"
	"crypto/fips140"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"golang.org/x/crypto/argon2"

	"github.com/echoseal/echoseal/keyset"
)

// Parameters of Argon2id. Those of a new file are the second choice of RFC 9106, section
// 4. The bounds keep a file that somebody else wrote from taking the memory or the hours
// of the host, and from asking for less than what keeps guessing expensive.
const (
	saltSize = 16

	newTime, newMemory, newThreads = 3, 64 << 10, 4

	maxTime              = 64
	minMemory, maxMemory = 19 << 10, 1 << 20 // KiB
	maxThreads           = 16
	maxWork              = 4 << 20 // time × memory

	maxPassphrase = 4096 // bytes
)

// NewPassphraseFile makes a key file with what is needed, beside a passphrase, to make a
// key: a random salt, and the cost of Argon2id that RFC 9106 recommends where memory is
// scarce. The file is not secret, but without it the passphrase is of no use; its mode,
// and errors, are those of [NewKeyFile].
//
// The key is as strong as the passphrase, which whoever reads a keyset can try to guess.
// Take a random one: openssl rand -base64 24.
func NewPassphraseFile(path string) error {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails: it ends the process instead
	return create(path, fmt.Appendf(nil, `{"v":1,"kdf":"argon2id","salt":%q,"time":%d,"memory_kib":%d,"threads":%d}`+"\n",
		base64.StdEncoding.EncodeToString(salt), newTime, newMemory, newThreads))
}

// isParameters reports whether a key file holds parameters and not a key, which they are
// longer than, even if a line end has been added to it.
func isParameters(content []byte) bool {
	return len(content) > keySize+1 && bytes.HasPrefix(bytes.TrimLeft(content, " \t\r\n"), []byte{'{'})
}

// derive makes the key of the parameters in a key file and the passphrase.
func (l *location) derive(content []byte) ([]byte, error) {
	p, err := parseParameters(content)
	switch {
	case errors.Is(err, errNewer):
		return nil, configError("%s: %w", l.path, err)
	case err != nil:
		return nil, l.damaged("%s: %w", l.path, err)
	}
	if l.passphraseFile == "" {
		return nil, configError("%s needs a passphrase: put it into a file, and name that in %s or as passphrase-file=/path in the URI", l.path, passphraseVariable)
	}
	if fips140.Enforced() {
		return nil, configError("%s needs a passphrase, and Argon2id is not approved by FIPS 140-3, which is enforced here: take a key file of %d random bytes", l.path, keySize)
	}
	content, err = l.read(l.passphraseFile, maxPassphrase, "put the passphrase for "+l.path+" there; the path comes from the URI's passphrase-file, or else from "+passphraseVariable)
	if err != nil {
		return nil, err
	}
	defer clear(content)
	passphrase := bytes.TrimSuffix(content, []byte{'\n'})
	switch {
	case len(passphrase) == 0:
		return nil, configError("%w: the passphrase in %s is empty", keyset.Corrupt, l.passphraseFile)
	case bytes.HasSuffix(passphrase, []byte{'\r'}):
		// Written on Windows: it would be part of the passphrase there, and not elsewhere.
		return nil, configError("the passphrase in %s ends with a carriage return: save the file with a line feed at the end, or none", l.passphraseFile)
	}
	return argon2.IDKey(passphrase, p.salt, p.time, p.memory, p.threads, keySize), nil
}

// parameters are those of Argon2id.
type parameters struct {
	salt    []byte
	time    uint32
	memory  uint32 // KiB
	threads uint8
}

// parseParameters takes a key file apart. It is strict, since of two readings of one file
// at most one gives the right key.
func parseParameters(content []byte) (p parameters, err error) {
	members, err := flatObject(content)
	if err != nil {
		return p, err
	}
	if v, ok := members["v"].(json.Number); !ok || v != "1" {
		return p, fmt.Errorf(`its "v" is not 1: %w`, errNewer)
	}
	if kdf, ok := members["kdf"].(string); !ok || kdf != "argon2id" {
		return p, fmt.Errorf(`its "kdf" is not "argon2id": %w`, errNewer)
	}
	text, _ := members["salt"].(string)
	p.salt, err = base64.StdEncoding.DecodeString(text)
	if err != nil || len(p.salt) != saltSize || base64.StdEncoding.EncodeToString(p.salt) != text {
		return p, fmt.Errorf(`its "salt" is not the base64 of %d bytes`, saltSize)
	}
	numbers := make(map[string]uint64)
	for _, bound := range []struct {
		name        string
		least, most uint64
	}{{"time", 1, maxTime}, {"memory_kib", minMemory, maxMemory}, {"threads", 1, maxThreads}} {
		text, _ := members[bound.name].(json.Number)
		n, err := strconv.ParseUint(string(text), 10, 32)
		if err != nil || n < bound.least || n > bound.most {
			return p, fmt.Errorf("its %q is not a whole number from %d to %d", bound.name, bound.least, bound.most)
		}
		numbers[bound.name] = n
	}
	p.time, p.memory, p.threads = uint32(numbers["time"]), uint32(numbers["memory_kib"]), uint8(numbers["threads"])
	if work := p.time * p.memory; work > maxWork {
		return p, fmt.Errorf(`its "time" times "memory_kib" is %d, and at most %d is accepted`, work, maxWork)
	}
	if len(members) != 6 {
		return p, fmt.Errorf("it has members that are not known here: %w", errNewer)
	}
	return p, nil
}

// flatObject reads a JSON object without nested ones. encoding/json alone would take a
// member twice, in any case, and whatever comes after.
func flatObject(content []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errNotJSON
	}
	members := make(map[string]any)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, errNotJSON
		}
		value, err := d.Token()
		if _, nested := value.(json.Delim); err != nil || nested {
			return nil, errNotJSON
		}
		if _, twice := members[name.(string)]; twice {
			return nil, fmt.Errorf("it has the member %.32q twice", name)
		}
		members[name.(string)] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, errNotJSON
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return members, nil
}

var (
	errNotJSON = errors.New("it begins as a JSON object and is none with the parameters of Argon2id")
	errNewer   = errors.New("it was made by a newer version: use that")
)
