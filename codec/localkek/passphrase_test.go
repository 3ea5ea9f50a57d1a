package localkek

import (
	"testing"
)

// Whatever a key file says, deriving a key from it stays within bounds.
func FuzzParameters(f *testing.F) {
	const good = `{"v":1,"kdf":"argon2id","salt":"AAECAwQFBgcICQoLDA0ODw==","time":3,"memory_kib":65536,"threads":4}`
	for _, seed := range []string{good, good + "\n", "{", "{}", "[]", "", "null", `{"v":1e0}`, `{"v":[{}]}`, good[:40], good + good} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		p, err := parseParameters(content)
		if err != nil {
			return
		}
		if len(p.salt) != saltSize || p.time < 1 || p.threads < 1 || p.memory < minMemory || uint64(p.time)*uint64(p.memory) > maxWork {
			t.Errorf("%q gives %+v", content, p)
		}
	})
}
