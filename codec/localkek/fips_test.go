package localkek_test

import (
	"crypto/fips140"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/codec/localkek"
	"github.com/echoseal/echoseal/keyset"
)

// The mode is set when a process starts, so that this takes one of its own.
func TestFIPS(t *testing.T) {
	if !fips140.Enforced() {
		cmd := exec.Command(os.Args[0], "-test.run=^(TestFIPS|TestKeyService)$", "-test.v")
		cmd.Env = append(os.Environ(), "GODEBUG=fips140=only")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestFIPS") || !strings.Contains(string(out), "--- PASS: TestKeyService") {
			t.Errorf("%v\n%.5000s", err, out)
		}
		return
	}
	_, err := localkek.Open(t.Context(), uri(file(t, []byte(cheap)), "passphrase-file="+file(t, []byte("correct horse"))))
	if !errors.Is(err, keyset.ErrConfig) || !strings.Contains(err.Error(), "FIPS 140-3") {
		t.Errorf("a passphrase: %v", err)
	}
}
