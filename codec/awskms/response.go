package awskms

import (
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/kms"
)

// maxResponse bounds what is read of a response, in bytes. The largest of KMS is a
// ciphertext of 6144 bytes in base64; the SDK reads all that it is given.
const maxResponse = 256 << 10

// A boundedHTTP is somebody's HTTP client, with a bound on each response. What is cut
// off is no JSON any more, so that the SDK refuses it.
type boundedHTTP struct{ kms.HTTPClient }

// Do makes the request.
func (c boundedHTTP) Do(r *http.Request) (*http.Response, error) {
	response, err := c.HTTPClient.Do(r)
	if err == nil && response.Body != nil {
		response.Body = boundedBody{io.LimitReader(response.Body, maxResponse), response.Body}
	}
	return response, err
}

type boundedBody struct {
	io.Reader
	io.Closer
}
