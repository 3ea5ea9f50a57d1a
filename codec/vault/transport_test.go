package vault

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/hashicorp/vault/api"

	"github.com/echoseal/echoseal/keyset"
)

// A roundTripper keeps the bodies that it was given, and closes them when it is told.
type roundTripper struct {
	last   *http.Request
	bodies []*body
	read   [][]byte
	closes bool
	answer string // "" for a failure
}

func (r *roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	r.last = request
	if request.Body != nil {
		again, err := request.GetBody()
		if err != nil {
			return nil, err
		}
		for _, part := range []io.ReadCloser{request.Body, again} {
			text, err := io.ReadAll(part)
			if err != nil {
				return nil, err
			}
			r.read = append(r.read, text)
			r.bodies = append(r.bodies, part.(*body))
			if r.closes {
				_ = part.Close()
			}
		}
	}
	if r.answer == "" {
		return nil, errors.New("no network")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewBufferString(r.answer)), Request: request}, nil
}

func isZero(buf []byte) bool { return len(bytes.Trim(buf, "\x00")) == 0 }

func TestBodiesAreZeroed(t *testing.T) {
	for _, answer := range []string{"", `{}`} {
		inner := &roundTripper{closes: true, answer: answer}
		whole := []byte("the whole of a request's body")
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://127.0.0.1/", bytes.NewReader(whole))
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport{base: inner, limit: maxResponse}.RoundTrip(request)
		if (err != nil) != (answer == "") {
			t.Fatal(err)
		}
		if response != nil {
			_ = response.Body.Close()
		}
		if len(inner.bodies) != 2 {
			t.Fatalf("%d bodies", len(inner.bodies))
		}
		if again, err := inner.last.GetBody(); err != nil || !isZero(again.(*body).buf) {
			t.Errorf("the copy to send it again from is not zeroed: %v", err)
		}
		for i, b := range inner.bodies {
			if string(inner.read[i]) != "the whole of a request's body" {
				t.Errorf("sent was %q", inner.read[i])
			}
			if !isZero(b.buf) {
				t.Error("a body that was sent is not zeroed")
			}
			if n, err := b.Read(make([]byte, 10)); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("a closed body gives %d bytes, %v", n, err)
			}
		}
		if string(whole) != "the whole of a request's body" {
			t.Error("the caller's buffer was changed: it is sent again at a retry")
		}
	}
}

// A transport may read a body after it has returned: what belongs to the caller must
// not be what it reads.
func TestBodyOutlivesTheCall(t *testing.T) {
	inner := &roundTripper{}
	whole := []byte("the whole of a request's body")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://127.0.0.1/", bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport{base: inner, limit: maxResponse}.RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
		t.Fatal("there is a response")
	}
	clear(whole)
	if string(inner.bodies[0].buf) != "the whole of a request's body" {
		t.Error("it has changed before it was closed")
	}
}

// The plaintext in an answer that is refused is zeroed, and so is the answer itself.
func TestRefusedAnswersAreZeroed(t *testing.T) {
	raw := []byte(`{"data":{"plaintext":"Y2FuYXJ5OiAzMiBieXRlcyBvZiBhIGRhdGEga2V5Li4="},"warnings":["Endpoint ignored these unrecognized parameters: [associated_data]"]}`)
	var answer unwrapAnswer
	if err := decode(raw, &answer); err != nil {
		t.Fatal(err)
	}
	if !isZero(raw) {
		t.Error("the answer is not zeroed")
	}
	if string(answer.Data.Plaintext) != "canary: 32 bytes of a data key.." || !answer.unbound() {
		t.Errorf("it was read as %+v", answer)
	}
}

func TestRequestBodyIsOneBuffer(t *testing.T) {
	parameters := []parameter{{"associated_data", []byte("{}"), true}, {"plaintext", []byte("canary"), true}, {"ciphertext", []byte("vault:v1:AA=="), false}}
	body, values := encode(parameters)
	if string(body) != `{"associated_data":"e30=","plaintext":"Y2FuYXJ5","ciphertext":"vault:v1:AA=="}` {
		t.Errorf("%s", body)
	}
	if len(values) != 3 || string(values[1]) != "Y2FuYXJ5" {
		t.Errorf("the values are %q", values)
	}
	clear(body)
	if !isZero(values[1]) {
		t.Error("a value is in another buffer: one that grew was left behind")
	}
}

// A request's body is zeroed after the last attempt.
func TestRequestIsZeroed(t *testing.T) {
	for _, answer := range []string{"", `{"data":{}}`} {
		inner := &roundTripper{closes: true, answer: answer}
		config := api.DefaultConfig()
		config.HttpClient.Transport = inner
		config.MaxRetries, config.MinRetryWait, config.MaxRetryWait = 1, 1, 1
		vendor, err := api.NewClient(config)
		if err != nil {
			t.Fatal(err)
		}
		c, err := newClient(vendor, fixedToken("a test", "token"), maxResponse)
		if err != nil {
			t.Fatal(err)
		}
		whole := []byte("the whole of a request's body")
		if _, err := c.do(t.Context(), request{path: "transit/encrypt/orders", body: whole}); (err != nil) != (answer == "") {
			t.Fatal(err)
		}
		if !isZero(whole) {
			t.Errorf("%q is left", whole)
		}
		for i, text := range inner.read {
			if string(text) != "the whole of a request's body" {
				t.Errorf("attempt %d sent %q", i/2, text)
			}
		}
		if want := map[string]int{"": 4, `{"data":{}}`: 2}[answer]; len(inner.read) != want {
			t.Errorf("%d bodies, want %d", len(inner.read), want)
		}
	}
}

// What a service sends is zeroed, whatever comes of it.
func TestSentBuffersAreZeroed(t *testing.T) {
	for _, answer := range []string{"", `{"data":{}}`} {
		inner := &roundTripper{closes: true, answer: answer}
		config := api.DefaultConfig()
		config.HttpClient.Transport = inner
		config.MaxRetries = 0
		vendor, err := api.NewClient(config)
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(vendor, "orders")
		if err != nil {
			t.Fatal(err)
		}
		ciphertext := "vault:v1:" + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
		_, err = s.Unwrap(context.Background(), keyset.WrappedKey{Service: s.keys[0].service(), Version: "1", Ciphertext: []byte(ciphertext)}, nil)
		if !errors.Is(err, keyset.Unavailable) {
			t.Fatal(err)
		}
		if len(inner.bodies) == 0 {
			t.Fatal("nothing was sent")
		}
		for i, b := range inner.bodies {
			if !bytes.Contains(inner.read[i], []byte(ciphertext)) || !isZero(b.buf) {
				t.Error("a body is not zeroed, or was never there")
			}
		}
	}
}
