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
	type answer struct {
		status int
		header http.Header
		length int64
		body   string
	}
	do := func(method string) answer {
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
		return answer{response.StatusCode, response.Header, response.ContentLength, string(body)}
	}
	for method, want := range map[string]string{http.MethodGet: golden, http.MethodHead: ""} {
		a := do(method)
		if a.status != http.StatusOK || a.body != want || a.length != int64(len(golden)) || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %+v", method, a)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, "get"} {
		a := do(method)
		if a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != "GET, HEAD" || strings.Contains(a.body, "report") {
			t.Errorf("%s: %+v", method, a)
		}
	}
	fail = errors.New("canary: no such thing")
	if a := do(http.MethodGet); a.status != http.StatusServiceUnavailable || a.body != "no report\n" {
		t.Errorf("a report that cannot be made: %+v", a)
	}
}
