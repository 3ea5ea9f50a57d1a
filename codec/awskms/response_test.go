package awskms_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/echoseal/echoseal/keyset"
)

// enough is more than any attempt may read, and little enough to be held.
const enough = 1 << 20

// An endless answers each request with a response that does not end, and counts the bytes
// that are read. After enough of them it ends all the same, so that the test does, too.
type endless struct {
	status int
	read   atomic.Int64
	calls  atomic.Int64
}

func (e *endless) Do(r *http.Request) (*http.Response, error) {
	e.calls.Add(1)
	body := io.LimitReader(io.MultiReader(strings.NewReader(`{"KeyId":"`), filler{}), enough)
	return &http.Response{
		StatusCode: e.status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.1"}}, Request: r,
		Body: io.NopCloser(io.TeeReader(body, counter{&e.read})), ContentLength: -1,
	}, nil
}

type filler struct{}

func (filler) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// What answers in the place of KMS must not fill the memory of a server.
func TestEndlessResponse(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusBadRequest, http.StatusInternalServerError} {
		synctest.Test(t, func(t *testing.T) {
			e := &endless{status: status}
			s := newService(t, kms.New(kms.Options{Region: home, HTTPClient: e, Credentials: credentials.NewStaticCredentialsProvider("AKIA", "secret", "")}), someKey)
			_, err := s.Unwrap(t.Context(), keyset.WrappedKey{Service: "awskms:///" + someKey, Ciphertext: make([]byte, 200)}, secretContext)
			wantError(t, err, keyset.Unavailable, someKey, "kms:Decrypt")
			if strings.Contains(err.Error(), "aaaa") {
				t.Error("the error quotes the response")
			}
			if each := e.read.Load() / e.calls.Load(); each > enough/2 {
				t.Errorf("status %d: %d bytes of each response were read", status, each)
			}
		})
	}
}
