package fleet

import (
	"context"
	"net/http"
)

// Handler returns a handler that serves the signed report of this instance, as report
// returns it, to GET and HEAD. If report fails the answer is 503 and says nothing more:
// the reason belongs into the log of whoever made the report.
//
// Serve it on a port that only operators reach, never on the public one. A report holds
// no secret, yet it tells of hosts, key services and traffic.
func Handler(report func(context.Context) ([]byte, error)) http.Handler { panic("TODO") }
