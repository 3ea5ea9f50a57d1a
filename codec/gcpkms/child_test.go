package gcpkms_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kms "cloud.google.com/go/kms/apiv1"
	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/echoseal/echoseal/codec/gcpkms"
	"github.com/echoseal/echoseal/codec/gcpkms/internal/kmsfake"
	"github.com/echoseal/echoseal/keyset"
)

// What the vendor's libraries log, and whom the system trusts, is read from the
// environment once per process. So some tests run this very program again, as a child.
func TestMain(m *testing.M) {
	if what := os.Getenv("GCPKMS_TEST_CHILD"); what != "" {
		if err := child(what, os.Getenv("GCPKMS_TEST_ENDPOINT"), os.Getenv("GCPKMS_TEST_KEY")); err != nil {
			fmt.Println("child:", err)
			os.Exit(1)
		}
		fmt.Println("child: all is well")
		return
	}
	os.Exit(m.Run())
}

// child uses a key in one of four ways.
func child(what, endpoint, key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if what == "service" || what == "hang" {
		s, err := gcpkms.Open(ctx, "gcpkms://"+key+"?endpoint="+endpoint)
		if err != nil {
			return err
		}
		use := map[string]func(context.Context, *gcpkms.Service) error{"service": useService, "hang": useInVain}[what]
		return errors.Join(use(ctx, s), s.Close())
	}
	client, err := kms.NewKeyManagementClient(ctx, option.WithEndpoint(endpoint))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	if what == "client" { // the vendor's alone
		sealed, err := client.Encrypt(ctx, &kmspb.EncryptRequest{Name: key, Plaintext: []byte(plaintextOfChild)})
		if err != nil {
			return err
		}
		_, err = client.Decrypt(ctx, &kmspb.DecryptRequest{Name: key, Ciphertext: sealed.GetCiphertext()})
		return err
	}
	s, err := gcpkms.New(client, key)
	if err != nil {
		return err
	}
	return useService(ctx, s)
}

const plaintextOfChild = "canary-data-key-of-32-bytes-0000"

// useService does all that a service can, some of it in vain.
func useService(ctx context.Context, s *gcpkms.Service) error {
	w, err := s.Wrap(ctx, []byte(plaintextOfChild), secretContext)
	if err != nil {
		return err
	}
	if got, err := s.Unwrap(ctx, w, secretContext); err != nil || string(got) != plaintextOfChild {
		return fmt.Errorf("unwrapped to %d bytes: %w", len(got), err)
	}
	described, err := s.Describe(ctx)
	if err != nil || described[0].Err != nil {
		return errors.Join(err, described[0].Err)
	}
	_, err = s.Unwrap(ctx, w, keyset.EncryptionContext("canary-in-the-context", "other", keyset.Data))
	if !errors.Is(err, keyset.ContextMismatch) {
		return err
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		fmt.Printf("%v\n%+v\n%#v\n", cause, cause, cause)
	}
	return nil
}

// useInVain checks that a call ends in time which waits for credentials.
func useInVain(ctx context.Context, s *gcpkms.Service) error {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := s.Wrap(ctx, []byte(plaintextOfChild), secretContext)
	took := time.Since(start)
	if took > 1300*time.Millisecond || !errors.Is(err, keyset.Unavailable) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "metadata server") {
		return fmt.Errorf("after %v: %w", took, err)
	}
	return nil
}

// runChild runs child with a fake and the credentials of a login, and returns all that
// it wrote.
func runChild(t *testing.T, what, ca string, fake *kmsfake.Service, key string, l login, environment ...string) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program)
	command.Env = append([]string{
		"HOME=" + t.TempDir(), "SSL_CERT_FILE=" + ca, "SSL_CERT_DIR=" + t.TempDir(),
		"GCPKMS_TEST_CHILD=" + what, "GCPKMS_TEST_ENDPOINT=" + fake.Address(), "GCPKMS_TEST_KEY=" + key,
	}, append(l.environment, environment...)...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("the child: %v\n%s", err, out)
	}
	return string(out)
}

// A login is a way to credentials.
type login struct {
	environment []string
	token       string   // what an access token begins with
	secrets     []string // what no log may show
}

// logins returns ways to credentials that need nobody but this process.
func logins(t *testing.T) map[string]login {
	t.Helper()
	const token = "canary-access-token"
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		switch r.URL.Path {
		case "/computeMetadata/v1/instance/service-accounts/default/token":
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"expires_in":3600,"token_type":"Bearer"}`, token)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(metadata.Close)

	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "server@test-project.iam.gserviceaccount.com",
		"private_key_id": "1", "private_key": text, "token_uri": "http://127.0.0.1:1/never-asked",
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(file, account, 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]login{
		"metadata server": {[]string{"GCE_METADATA_HOST=" + strings.TrimPrefix(metadata.URL, "http://")}, token, []string{token}},
		"service account": {[]string{"GOOGLE_APPLICATION_CREDENTIALS=" + file}, "eyJ", []string{"Bearer eyJ", "eyJhbGciOi", strings.Split(text, "\n")[3]}},
	}
}

// newCA returns the file of a new CA's certificate, and a server's option for one that
// it has issued for this host.
func newCA(t *testing.T) (string, grpc.ServerOption) {
	t.Helper()
	issue := func(template, parent *x509.Certificate, public any, signer any) []byte {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	newKey := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	caKey, serverKey := newKey(), newKey()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	caDER := issue(ca, ca, caKey.Public(), caKey)
	server := &x509.Certificate{SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	serverDER := issue(server, ca, serverKey.Public(), caKey)

	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, grpc.Creds(credentials.NewServerTLSFromCert(&tls.Certificate{Certificate: [][]byte{serverDER}, PrivateKey: serverKey}))
}
