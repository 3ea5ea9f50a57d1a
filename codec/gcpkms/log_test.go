package gcpkms_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/codec/gcpkms/internal/kmsfake"
)

// everything is all that the vendor's libraries can be made to log by the environment.
var everything = []string{
	"GRPC_GO_LOG_SEVERITY_LEVEL=info", "GRPC_GO_LOG_VERBOSITY_LEVEL=99", "GRPC_BINARY_LOG_FILTER=*",
	"GOOGLE_SDK_GO_LOGGING_LEVEL=debug", "GOOGLE_SDK_GO_EXPERIMENTAL_LOGGING=true", "GOOGLE_SDK_GO_EXPERIMENTAL_TRACING=true", "GOOGLE_SDK_GO_EXPERIMENTAL_METRICS=true",
	"GODEBUG=http2debug=2",
}

// With all logging on, no data key, credential or value of an encryption context is in
// what a process writes, its own errors included.
func TestNothingSecretIsLogged(t *testing.T) {
	for name, login := range logins(t) {
		t.Run(name, func(t *testing.T) {
			ca, certificate := newCA(t)
			fake := kmsfake.Start(t, certificate)
			key := fake.AddKey()

			opened := runChild(t, "service", ca, fake, key, login, everything...)
			wantSilent(t, opened, append(forms([]byte(plaintextOfChild)), append(login.secrets, "canary-in-the-context")...))
			if !strings.Contains(opened, "INFO: ") {
				t.Errorf("gRPC does not log, so that this test shows nothing:\n%s", opened)
			}

			if name != "metadata server" {
				return
			}

			// What the caller's own client writes of its credentials is the caller's choice.
			given := runChild(t, "new", ca, fake, key, login, everything...)
			wantSilent(t, given, append(forms([]byte(plaintextOfChild)), "canary-in-the-context"))

			// The search finds what is there: the vendor's client alone writes it.
			plain := runChild(t, "client", ca, fake, key, login, everything...)
			if len(find(plain, forms([]byte(plaintextOfChild)))) == 0 {
				t.Errorf("the vendor's client does not log a plaintext, so that this test shows nothing:\n%s", plain)
			}
			if len(find(plain, login.secrets)) == 0 {
				t.Errorf("the vendor's client does not log a token, so that this test shows nothing:\n%s", plain)
			}
		})
	}
}

// forms returns the ways in which a log may show a secret.
func forms(secret []byte) []string {
	return []string{
		string(secret), hex.EncodeToString(secret), base64.StdEncoding.EncodeToString(secret)[:40], base64.RawURLEncoding.EncodeToString(secret)[:40],
		fmt.Sprint(secret), strings.TrimPrefix(fmt.Sprintf("%#v", secret), "[]byte"),
	}
}

func find(text string, secrets []string) (found []string) {
	for _, s := range secrets {
		if strings.Contains(text, s) {
			found = append(found, s)
		}
	}
	return found
}

func wantSilent(t *testing.T, text string, secrets []string) {
	t.Helper()
	if found := find(text, secrets); len(found) > 0 {
		t.Errorf("the log holds %q:\n%s", found, text)
	}
}
