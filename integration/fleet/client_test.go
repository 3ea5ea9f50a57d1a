package fleet

import (
	"io"
	"net/http"
	"testing"

	"github.com/echoseal/echoseal/codec"
	"github.com/echoseal/echoseal/integration/internal/mixed"
)

// An instance is one server of the fleet.
type instance struct {
	name, url string

	// refusals begins to watch the log, and returns a function that reports whether
	// since then a token was refused on a method for a reason.
	refusals func() func(method string, reason codec.Reason) bool
}

// post sends a request, with a token unless it is empty.
func (i *instance) post(t *testing.T, r mixed.Request, token string) mixed.Response {
	t.Helper()
	return i.send(t, r, r.Body(token))
}

// send is post with a body that is made already.
func (i *instance) send(t *testing.T, r mixed.Request, body []byte) mixed.Response {
	t.Helper()
	answer, err := r.Send(t.Context(), i.url, body)
	if err != nil {
		t.Fatalf("%s: %v", i.name, err)
	}
	return answer
}

// raw is send, for answers that may be no JSON.
func (i *instance) raw(t *testing.T, r mixed.Request, body []byte) []byte {
	t.Helper()
	req, err := r.HTTP(t.Context(), i.url, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", i.name, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s: %v", i.name, err)
	}
	return text
}
