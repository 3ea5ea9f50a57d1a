package fleet

import (
	"context"
	"net/http"
	"strconv"
)

// Handler returns a handler that serves the signed report of this instance, as report
// returns it, to GET and HEAD. If report fails the answer is 503 and says nothing more:
// the reason belongs into the log of whoever made the report.
//
// Serve it on a port that only operators reach, never on the public one. A report holds
// no secret, yet it tells of hosts, key services and traffic.
func Handler(report func(context.Context) ([]byte, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		signed, err := report(r.Context())
		if err != nil {
			http.Error(w, "no report", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Length", strconv.Itoa(len(signed)))
		_, _ = w.Write(signed) // whoever asked has left
	})
}
