package fleet_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/echoseal/echoseal/fleet"
)

func TestHandler(t *testing.T) {
	var fail error
	server := httptest.NewServer(fleet.Handler(func(context.Context) ([]byte, error) { return []byte(golden), fail }))
	defer server.Close()
	do := func(method string) (*http.Response, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got := response.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control is %q", method, got)
		}
		return response, string(body)
	}
	for method, want := range map[string]string{http.MethodGet: golden, http.MethodHead: ""} {
		response, body := do(method)
		if response.StatusCode != http.StatusOK || body != want || response.ContentLength != int64(len(golden)) || response.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v %q", method, response, body)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, "get"} {
		response, body := do(method)
		if response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") != "GET, HEAD" || strings.Contains(body, "report") {
			t.Errorf("%s: %v %q", method, response, body)
		}
	}
	fail = errors.New("canary: no such thing")
	response, body := do(http.MethodGet)
	if response.StatusCode != http.StatusServiceUnavailable || body != "no report\n" {
		t.Errorf("a report that cannot be made: %v %q", response, body)
	}
}
